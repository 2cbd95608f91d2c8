"""Kafka's own classes as the judge: a child JVM that answers lines of JSON.

Its side of it is ``java/oracle/Oracle.java``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "java"
IN_MEMORY = Path("/dev/shm")
ANSWER_DEADLINE_S = 600.0  # for one batch; 20 000 elections take 2 s

Case = dict[str, Any]


class OracleError(Exception):
    """The judge cannot be asked, or has not understood."""


class Oracle:
    """The child process; a context manager."""

    def __init__(self, java: str, jars: Sequence[Path], classes: Path) -> None:
        path = os.pathsep.join(map(str, [classes, *jars]))
        # Kafka writes through to the disk with each of thousands of steps.
        place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="oracle-", dir=place)
        self._child = subprocess.Popen(
            [java, "-Xmx256m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={self._folder.name}",
             "-Dorg.apache.logging.log4j.level=OFF", "-Dlog4j2.statusLoggerLevel=OFF",
             "-cp", path, "oracle.Oracle"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf8",
        )  # fmt: skip

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()
        self._folder.cleanup()

    def ask(self, cases: Sequence[Case]) -> list[Case]:
        """Answer a batch, in its order. A case that Kafka refuses has an ``error`` instead.

        Raises:
            OracleError: the child died, or did not answer in time.
        """
        assert self._child.stdout
        # Both pipes may fill at once, so somebody else writes while this thread reads; and a child
        # that does not answer is ended, which ends the reading.
        writer = threading.Thread(target=self._write, args=(cases,))
        watchdog = threading.Timer(ANSWER_DEADLINE_S, self._child.kill)
        writer.start()
        watchdog.start()
        try:
            lines = [self._child.stdout.readline() for _ in cases]
        finally:
            watchdog.cancel()
            writer.join()
        if not all(lines):
            raise OracleError(f"the oracle ended with {self._child.wait()} before it answered")
        return [json.loads(line) for line in lines]

    def _write(self, cases: Iterable[Case]) -> None:
        assert self._child.stdin
        try:
            for case in cases:
                self._child.stdin.write(json.dumps(case) + "\n")
            self._child.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # the reader says so


def javac(java: str) -> str | None:
    """The compiler beside a java, else the one on the PATH."""
    beside = Path(java).resolve().parent / "javac"
    return str(beside) if beside.exists() else shutil.which("javac")


def compiled(compiler: str, jars: Sequence[Path], cache: Path) -> Path:
    """The folder of the compiled classes; compiled once for these sources and jars.

    Raises:
        OracleError: they do not compile.
    """
    sources = sorted(SOURCES.rglob("*.java"))
    content = b"".join(source.read_bytes() for source in sources)
    content += "".join(jar.name for jar in jars).encode()
    target = cache / hashlib.sha256(content).hexdigest()[:16]
    if not target.exists():
        fresh = cache / f"fresh-{os.getpid()}"
        command = [compiler, "--release", "17", "-Xlint:all,-classfile,-options", "-Werror", "-d"]
        command += [str(fresh), "-cp", os.pathsep.join(map(str, jars)), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_DEADLINE_S)
        if done.returncode:
            shutil.rmtree(fresh, ignore_errors=True)
            raise OracleError(done.stderr)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    return target
