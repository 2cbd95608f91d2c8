"""Stops some threads of a broker and no others, over the Java Debug Wire Protocol.

A process that is frozen as a whole goes on in an order of the kernel's choice. A leader whose
request handlers stand still, as behind a slow disk, does the rest of its work meanwhile.
https://docs.oracle.com/en/java/javase/17/docs/specs/jdwp/jdwp-protocol.html
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

AGENT: Final = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0"
"""The Java option of a process whose threads can be stopped; it chooses a port and prints it."""

_HELLO: Final = b"JDWP-Handshake"
_HEAD: Final = struct.Struct(">IIBH")  # length, id, flags, command or error
_ID_SIZES, _ALL_THREADS, _NAME, _SUSPEND = (1 << 8 | 7), (1 << 8 | 4), (11 << 8 | 1), (11 << 8 | 2)
_CLASSES, _METHODS, _SET_EVENT = (1 << 8 | 2), (2 << 8 | 5), (15 << 8 | 1)
_BREAKPOINT, _ITS_THREAD, _LOCATION_ONLY, _CLASS = 2, 1, 7, 1


@contextmanager
def stopped(stdout: Path, threads: str) -> Iterator[None]:
    """Threads whose name begins like this stand still; they go on as the connection ends.

    Args:
        stdout: what the process, started with ``AGENT``, has printed.
        threads: the beginning of their names.

    Raises:
        ValueError: the process was started without the agent, or has no such thread.
    """
    with _attached(stdout) as process:
        ids = process.ask(_ALL_THREADS)[4:]
        size = process.object_bytes
        chosen = [
            one
            for at in range(0, len(ids), size)
            if process.ask(_NAME, one := ids[at : at + size])[4:].decode().startswith(threads)
        ]
        if not chosen:
            raise ValueError(f"no thread's name begins with {threads}")
        for one in chosen:
            process.ask(_SUSPEND, one)
        yield


@contextmanager
def stopped_in(stdout: Path, class_name: str, method: str) -> Iterator[None]:
    """Threads that enter the method stand still there; they go on as the connection ends.

    Args:
        stdout: as of ``stopped``.
        class_name: such as kafka.server.ReplicaManager; it must have been loaded.
        method: all methods of that name.

    Raises:
        ValueError: the process was started without the agent, or has no such method.
    """
    with _attached(stdout) as process:
        signature = f"L{class_name.replace('.', '/')};"
        classes = process.ask(_CLASSES, _text(signature))
        if not int.from_bytes(classes[:4], "big"):
            raise ValueError(f"no class {class_name} is loaded")
        its_id = classes[5 : 5 + process.class_bytes]
        chosen = [one for one, name in process.methods(its_id) if name == method]
        if not chosen:
            raise ValueError(f"class {class_name} has no method {method}")
        for one in chosen:
            location = bytes([_LOCATION_ONLY, _CLASS]) + its_id + one + bytes(8)
            event = bytes([_BREAKPOINT, _ITS_THREAD]) + struct.pack(">i", 1) + location
            process.ask(_SET_EVENT, event)
        yield


@contextmanager
def _attached(stdout: Path) -> Iterator[_Process]:
    """The process as its debugger sees it; leaving ends suspensions and breakpoints."""
    ports = re.findall(r"dt_socket at address: (\d+)", stdout.read_text())
    if not ports:
        raise ValueError(f"{stdout} has no debugger's port; was it started with AGENT?")
    with socket.create_connection(("127.0.0.1", int(ports[-1])), 5) as connection:
        connection.sendall(_HELLO)
        stream = connection.makefile("rb")
        if stream.read(len(_HELLO)) != _HELLO:
            raise ValueError(f"port {ports[-1]} is not a Java debugger's")

        yield _Process(connection, stream)


class _Process:
    """A Java process that is debugged: commands, and the sizes of its ids."""

    def __init__(self, connection: socket.socket, stream: BinaryIO) -> None:
        self._connection, self._stream = connection, stream
        sizes = struct.unpack(">5i", self.ask(_ID_SIZES))
        _, self.method_bytes, self.object_bytes, self.class_bytes, _ = sizes

    def ask(self, command: int, about: bytes = b"") -> bytes:
        """The answer to a command."""
        head = _HEAD.pack(_HEAD.size + len(about), command, 0, command)
        self._connection.sendall(head + about)
        while True:  # events, as of its start and of breakpoints, come in between
            length, _, flags, error = _HEAD.unpack(self._stream.read(_HEAD.size))
            body = self._stream.read(length - _HEAD.size)
            if flags:
                assert not error, f"JDWP error {error}"
                return body

    def methods(self, of_class: bytes) -> Iterator[tuple[bytes, str]]:
        """Id and name of each method of a class."""
        body = self.ask(_METHODS, of_class)
        at = 4
        for _ in range(int.from_bytes(body[:4], "big")):
            one, at = body[at : at + self.method_bytes], at + self.method_bytes
            name, at = _text_at(body, at)
            _, at = _text_at(body, at)  # its signature
            at += 4
            yield one, name


def _text(value: str) -> bytes:
    return struct.pack(">i", len(value.encode())) + value.encode()


def _text_at(body: bytes, at: int) -> tuple[str, int]:
    """A text, and where it ends."""
    end = at + 4 + int.from_bytes(body[at : at + 4], "big")
    return body[at + 4 : end].decode(), end
