"""The query of a fleet as a program: on this machine, or on a standalone master and HDFS."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

from streaming.lab.local_cluster import free_base_port
from tests.bench.scale.taken import Roots
from tests.spark_platform import hdfs, machines
from tests.spark_platform.hdfs import Hdfs
from tests.spark_platform.standalone import MACHINES, PORTS, Platform, Twin

HERE: Final = Path(__file__).parents[3]
CORES: Final = 1
"""Of each executor: together as many as ``local[2]`` has."""

_EXECUTOR_MEMORY: Final = "1g"
_WORKER_MEMORY: Final = "1500m"


class Program(Protocol):
    """The query, and what it runs on."""

    master: str
    settings: str  # lines of its section in the configuration
    checkpoint: str
    files: Path  # the folder in which the files of the checkpoint are
    log: Path

    def start(self, config: Path) -> None:
        """Start the driver."""

    @property
    def kills(self) -> Mapping[str, Callable[[], None]]:
        """``kill -9`` by what it ends: an executor, if there are any, and the driver."""

    @property
    def roots(self) -> Roots:
        """The process ids of what runs now, by name; CPU and memory are those of their trees."""


class OnThisMachine:
    """``kafka-twin query`` with local[2]."""

    master, settings = "local[2]", ""

    def __init__(self, home: Path) -> None:
        self.files, self.log = home / "checkpoint", home / "query.log"
        self.checkpoint = str(self.files)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, config: Path) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streaming", "--config", str(config), "query"], cwd=HERE,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill_driver(self) -> None:
        """With the JVM and the workers: all that would share a container."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)

    @property
    def kills(self) -> Mapping[str, Callable[[], None]]:
        return {"driver": self.kill_driver}

    @property
    def roots(self) -> Roots:
        return {} if self._process is None else {"query": self._process.pid}


class OnStandaloneMaster:
    """The line of ``kafka-twin spark-package``, with executors on machines of their own."""

    master = f"standalone, {MACHINES} executors of {CORES} core"
    settings = f"state_partitions = {MACHINES * CORES}"

    def __init__(self, home: Path, files: Hdfs, platform: Platform) -> None:
        self._home, self._platform = home, platform
        self.checkpoint = f"{files.url}/kafka-twin"
        self.files = home / "hdfs/data"
        self.log = home / "driver.log"
        self._twin: Twin | None = None

    def start(self, config: Path) -> None:
        if self._twin is None:
            package = self._home / "package"
            package.mkdir()
            command = [sys.executable, "-m", "streaming", "--config", str(config), "spark-package"]
            line = subprocess.run(
                [*command, "--master", self._platform.url, str(package)], cwd=HERE, check=True,
                stdout=subprocess.PIPE, text=True,
            ).stdout.strip()  # fmt: skip
            self._twin = Twin(self._home, line, self._platform, CORES, _EXECUTOR_MEMORY)
        self._twin.start()

    def kill_driver(self) -> None:
        if self._twin is not None:
            self._twin.machine.kill()

    def kill_executor(self) -> None:
        executors = self._executors()
        machines.kill(executors[max(executors)])

    @property
    def kills(self) -> Mapping[str, Callable[[], None]]:
        return {"executor": self.kill_executor, "driver": self.kill_driver}

    def _executors(self) -> Mapping[int, int]:
        return machines.executors(self._platform.driver_port)

    @property
    def roots(self) -> Roots:
        if self._twin is None or self._twin.machine.pid is None:
            return {}
        executors = {f"executor {name}": pid for name, pid in self._executors().items()}
        return {"driver": self._twin.machine.pid, **executors}


@contextlib.contextmanager
def on_this_machine(home: Path) -> Iterator[Program]:
    """A query with local[2], ended with the block."""
    program = OnThisMachine(home)
    try:
        yield program
    finally:
        program.kill_driver()


@contextlib.contextmanager
def on_standalone_master(home: Path) -> Iterator[Program]:
    """A query on a standalone master with two executors, all ended with the block."""
    port = free_base_port(hdfs.PORTS + PORTS)
    files = Hdfs(home / "hdfs", port)
    platform = Platform(home, port + hdfs.PORTS, home / "package", CORES, _WORKER_MEMORY)
    program = OnStandaloneMaster(home, files, platform)
    with contextlib.ExitStack() as ended:
        for end in (files.kill, platform.kill, program.kill_driver):
            ended.callback(end)
        files.start()
        platform.start()
        yield program
