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
from typing import Final

AGENT: Final = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0"
"""The Java option of a process whose threads can be stopped; it chooses a port and prints it."""

_HELLO: Final = b"JDWP-Handshake"
_HEAD: Final = struct.Struct(">IIBH")  # length, id, flags, command or error
_ID_SIZES, _ALL_THREADS, _NAME, _SUSPEND = (1 << 8 | 7), (1 << 8 | 4), (11 << 8 | 1), (11 << 8 | 2)


@contextmanager
def stopped(stdout: Path, threads: str) -> Iterator[None]:
    """Threads whose name begins like this stand still; they go on as the connection ends.

    Args:
        stdout: what the process, started with ``AGENT``, has printed.
        threads: the beginning of their names.

    Raises:
        ValueError: the process was started without the agent, or has no such thread.
    """
    ports = re.findall(r"dt_socket at address: (\d+)", stdout.read_text())
    if not ports:
        raise ValueError(f"{stdout} has no debugger's port; was it started with AGENT?")
    with socket.create_connection(("127.0.0.1", int(ports[-1])), 5) as connection:
        connection.sendall(_HELLO)
        stream = connection.makefile("rb")
        if stream.read(len(_HELLO)) != _HELLO:
            raise ValueError(f"port {ports[-1]} is not a Java debugger's")

        def ask(command: int, about: bytes = b"") -> bytes:
            head = _HEAD.pack(_HEAD.size + len(about), command, 0, command)
            connection.sendall(head + about)
            while True:  # events of the virtual machine, as of its start, come in between
                length, _, flags, error = _HEAD.unpack(stream.read(_HEAD.size))
                body = stream.read(length - _HEAD.size)
                if flags:
                    assert not error, f"JDWP error {error}"
                    return body

        size = struct.unpack(">5i", ask(_ID_SIZES))[2]  # of an object's id
        ids = ask(_ALL_THREADS)[4:]
        chosen = [
            one for at in range(0, len(ids), size)
            if ask(_NAME, one := ids[at : at + size])[4:].decode().startswith(threads)
        ]  # fmt: skip
        if not chosen:
            raise ValueError(f"no thread's name begins with {threads}")
        for one in chosen:
            ask(_SUSPEND, one)
        yield
