"""Processes that outlive the program which started them, and ports.

A process is identified by its id and by words of its command line, since its id may have been
reused by another process.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from streaming.lab.cluster_config import HOST, ClusterError

State = Literal["running", "paused", "stopped"]

_PROC: Final = Path("/proc/self/stat")


class Processes:
    """Starts processes and reports their states, also of those that another program started."""

    def __init__(self) -> None:
        self._children: dict[int, subprocess.Popen[bytes]] = {}  # ours, to be reaped when they end

    def spawn(self, command: Sequence[str], folder: Path, log: Path) -> int:
        """Start a process in a session of its own, so that Ctrl-C here does not reach it.

        Its output is appended to ``log``. Returns its id.
        """
        with log.open("ab") as output:
            child = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._children[child.pid] = child
        return child.pid

    def state(self, pid: int, words: Iterable[str]) -> State:
        """The state of a process; ``stopped`` also if the id now belongs to another command.

        ``words`` are parts of its command line, to recognise it.
        """
        child = self._children.get(pid)
        if child is None:
            return _state_of_stranger(pid, words)
        if child.poll() is not None:
            del self._children[pid]
            return "stopped"
        return _running_or_paused(_look(pid)[0])


def _state_of_stranger(pid: int, words: Iterable[str]) -> State:
    """The state of a process that is not our child."""
    status, command, threads = _look(pid)
    if status == "Z":
        # A zombie without threads has ended, and its parent has not reaped it. One with threads is
        # about to end and still holds its ports.
        return "stopped" if threads <= 1 else "running"
    if status and not command:
        return "running"  # about to end as well: its memory is freed, its ports are not yet
    if not (status and all(word in command for word in words)):
        return "stopped"
    return _running_or_paused(status)


def _running_or_paused(status: str) -> State:
    return "paused" if status in ("T", "t") else "running"


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal; nothing happens if the process has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _look(pid: int) -> tuple[str, str, int]:
    """State letter, command line and number of threads of a process; empty if there is none."""
    if not _PROC.exists():
        return _look_by_ps(pid)
    with suppress(OSError):
        process = Path(f"/proc/{pid}")
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf8", "replace")
        return fields[0], command, int(fields[17])
    return "", "", 0


def _look_by_ps(pid: int) -> tuple[str, str, int]:
    """The answer of ``_look`` where there is no /proc: on macOS and the BSDs."""
    command = ["ps", "-ww", "-o", "stat=,command=", "-p", str(pid)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    status, _, line = output.partition(" ")
    return status[:1], line, 1 if status else 0


# Ports


def is_listening(port: int) -> bool:
    """A server accepts connections on the port."""
    try:
        with socket.create_connection((HOST, port), 0.2):
            return True
    except OSError:
        return False


def is_free(port: int) -> bool:
    """The port is free to listen on."""
    with socket.socket() as probe:
        # As Java does: connections that linger after a server has ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


SMALL_SPAN = 16
"""Fewer ports than this are for a server; a cluster needs more."""

SERVER_PORTS = range(20_000, 24_000)
CLUSTER_PORTS = range(24_000, 32_000)


def free_base_port(span: int = 40, ports: range | None = None) -> int:
    """A port that is free, and the ``span - 1`` after it, at this moment.

    Concurrent runs look in different places, in steps of ``span``. Servers and clusters have
    separate ranges, so a server never takes the port of a broker that is down and comes back.

    Args:
        span: how many ports.
        ports: where to look instead, for a run beside which others start at the same moment.

    Raises:
        ClusterError: there is none.
    """
    if ports is None:
        ports = SERVER_PORTS if span < SMALL_SPAN else CLUSTER_PORTS
    bases = list(range(ports.start, ports.stop - span + 1, span))
    random.Random(f"{os.getpid()} {time.monotonic_ns()}").shuffle(bases)
    for base in bases:
        if all(is_free(port) for port in range(base, base + span)):
            return base
    raise ClusterError(
        f"no {span} neighbouring ports are free between {ports.start} and {ports.stop}"
    )
