"""Machines that have Spark, Java and Python, and nothing of the project: namespaces of Linux.

A process of such a machine sees other mounts, where folders of the project are empty, and ends with
all that it has started, since these share a namespace of processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyspark

from streaming.runtime import jars

ROOT: Final = Path(__file__).resolve().parents[2]
_NAMESPACES: Final = ("--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc")
_ENTER: Final = """
set -e
mount --bind "$PLATFORM_SPARK" "$SPARK_HOME"
mount -o remount,bind,ro "$SPARK_HOME"
for folder in $HIDDEN; do
  [ ! -d "$folder" ] || mount -t tmpfs none "$folder" # or it is below one that is hidden already
done
exec "$@"
"""


def why_not() -> str:
    """Why there can be no such machine here; empty if there can."""
    try:
        done = subprocess.run(
            [*unshare(), "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True
        )
    except FileNotFoundError:
        return "there is no unshare (util-linux)"
    return done.stderr.strip() and f"no namespaces of mounts: {done.stderr.strip()}"


def unshare() -> list[str]:
    """Runs a command in namespaces of its own, and ends with it all that it has started."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *as_root, *_NAMESPACES, "--kill-child"]


class Machine:
    """A machine for one command, which it runs until it is ended."""

    def __init__(self, name: str, folder: Path, hidden: Sequence[Path] = ()) -> None:
        """A machine that is off.

        Args:
            name: names its folder and its log.
            folder: below which it works.
            hidden: folders that it does not have, beside those of the project.
        """
        self.home = folder / name
        self.spark = folder / "spark"  # where every machine has it
        self.log = folder / f"{name}.log"
        self.temporary = f"-Djava.io.tmpdir={self.home}"
        self._hidden = [ROOT, Path(sys.prefix), jars.default_cache(), *hidden]
        self._process: subprocess.Popen[bytes] | None = None
        for each in (self.home, self.spark):
            each.mkdir(exist_ok=True)

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start the command; its output is appended to the log."""
        java = Path(jars.java()).resolve().parents[1]
        python = Path(sys.executable).resolve().parent
        variables = {
            "PLATFORM_SPARK": str(Path(pyspark.__file__).parent),
            "HIDDEN": " ".join(map(str, self._hidden)),
            "SPARK_HOME": str(self.spark),
            "SPARK_LOCAL_DIRS": str(self.home),
            "SPARK_WORKER_DIR": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join((*jars.QUICK_START, self.temporary)),
            "JAVA_HOME": str(java),
            "PATH": f"{python}:{java}/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*unshare(), "sh", "-c", _ENTER, "sh", *command], cwd=self.home,
                env=variables | dict(environment or {}), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    @property
    def runs(self) -> bool:
        """The command has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process below which all of the machine run; None if it was never on."""
        return None if self._process is None else self._process.pid

    def kill(self) -> None:
        """End all processes of the machine at once, as ``kill -9`` of each would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(300)


def executors(driver_port: int) -> dict[int, int]:
    """Process id by executor id of the driver that listens on the port."""
    pids = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:  # it has ended
            continue
        if "--executor-id" in words and f"@127.0.0.1:{driver_port}" in " ".join(words):
            pids[int(words[words.index("--executor-id") + 1])] = int(entry.name)
    return pids


def has_python_workers(executor: int) -> bool:
    """Tasks in Python have run in the executor."""
    tasks = Path(f"/proc/{executor}/task").glob("*/children")
    return any(task.read_text().strip() for task in tasks)


def kill(pid: int) -> None:
    """``kill -9``."""
    os.kill(pid, signal.SIGKILL)
