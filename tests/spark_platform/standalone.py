"""A standalone Spark cluster of machines without the project, and the driver of the twin."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from streaming.lab.processes import is_listening
from streaming.runtime.jars import QUICK_SPARK, QUICK_START
from tests.spark_platform import machines
from tests.spark_platform.machines import Machine
from tests.waiting import until
from tests.web import get

MACHINES: Final = 2
CORES: Final = 2
PORTS: Final = 70
"""Two of the master and of each worker, and of the driver as many as Spark may try."""

STARTS_WITHIN_S: Final = 120
_QUICK: Final = " ".join(QUICK_START)


class Platform:
    """A standalone master and its workers, each a machine."""

    def __init__(
        self, folder: Path, port: int, hidden: Path, cores: int = CORES, memory: str = "1g"
    ) -> None:
        """Nothing is started yet; cores and memory are those of each worker."""
        self._offers = ["--cores", f"{cores}", "--memory", memory]
        self.url = f"spark://127.0.0.1:{port}"
        self.driver_port = port + 10
        self._port = port
        self.master = Machine("master", folder)
        self.workers = [Machine(f"worker-{i}", folder, [hidden]) for i in range(MACHINES)]

    def start(self) -> None:
        """Until all workers are registered."""
        spark_class = str(self.master.spark / "bin/spark-class")
        name = "org.apache.spark.deploy"
        self.master.start([spark_class, f"{name}.master.Master", *self._listen(self._port)])
        until(self._has_master, STARTS_WITHIN_S, "no master")
        for i, worker in enumerate(self.workers):
            listen = self._listen(self._port + 2 * (i + 1))
            worker.start([spark_class, f"{name}.worker.Worker", *listen, *self._offers, self.url])
        until(self._is_complete, STARTS_WITHIN_S, "the workers are not registered")

    def _listen(self, port: int) -> list[str]:
        return ["--host", "127.0.0.1", "--port", f"{port}", "--webui-port", f"{port + 1}"]

    def _has_master(self) -> bool:
        assert self.master.runs, self.master.log.read_text()
        return is_listening(self._port)

    def _is_complete(self) -> bool:
        assert all(worker.runs for worker in self.workers), self.workers[0].log.read_text()
        status, body = get(f"http://127.0.0.1:{self._port + 1}/json/")
        return status == 200 and body.count('"ALIVE"') >= MACHINES + 1

    def kill(self) -> None:
        """All of it."""
        for machine in (*self.workers, self.master):
            machine.kill()


class Twin:
    """The driver of the query, started by the line of the package."""

    def __init__(
        self, folder: Path, line: str, platform: Platform, cores: int = CORES, memory: str = "700m"
    ) -> None:
        """Nothing is started yet; cores are of each executor, memory of it and of the driver."""
        self._port = port = platform.driver_port
        self.machine = Machine("driver", folder)
        settings = {
            "spark.driver.host": "127.0.0.1", "spark.driver.port": port,
            "spark.driver.blockManager.port": port + 20, "spark.blockManager.port": port + 40,
            "spark.driver.memory": memory, "spark.executor.memory": memory,
            "spark.executor.cores": cores, "spark.ui.enabled": "false",
            "spark.executor.extraJavaOptions": f"{_QUICK} {self.machine.temporary}",
            "spark.hadoop.dfs.replication": 1,
        }  # fmt: skip
        given = " ".join(f"--conf '{name}={value}'" for name, value in settings.items())
        submit = f"{self.machine.spark}/bin/spark-submit {given}"
        self._line = line.replace("spark-submit", submit, 1)

    def start(self) -> None:
        """As a person would, in a shell."""
        name = "SPARK_SUBMIT_OPTS"
        options = f"{QUICK_SPARK[name]} {self.machine.temporary}"
        self.machine.start(["sh", "-c", self._line], {name: options})

    def started(self) -> set[int]:
        """Ids of the executors that run, with or without a task."""
        return set(machines.executors(self._port))

    def executors(self) -> dict[int, int]:
        """Process ids of those in which tasks in Python have run, by executor id."""
        running = machines.executors(self._port)
        return {name: pid for name, pid in running.items() if machines.has_python_workers(pid)}
