"""The wheel with the extra ``spark`` in a virtual environment of its own, outside the sources.

Everything is fetched as ``pip install 'kafka-twin[spark]'`` does: 880 MB on disk, most of it Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from streaming.lab.processes import free_base_port
from tests.streaming.test_wheel import ROOT, built
from tests.waiting import until
from tests.web import get

pytestmark = [pytest.mark.spark, pytest.mark.containers]

PLANS_A_QUERY: Final = """
from streaming.runtime.configuration.loading import load
from streaming.query.session import spark_session
with spark_session(load(None)) as spark:
    stream = spark.readStream.format('kafka').option('kafka.bootstrap.servers', 'x:1')
    print(stream.option('subscribe', 'a').load().schema.names[0])
"""
IMPORTS: Final = "import pyspark, streaming.query.processor as p; print(p.__file__)"


class Installed:
    """An environment with the wheel, and an empty folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name != "PYTHONPATH" and not name.startswith("KAFKA_TWIN_QUERY")
        } | {
            "KAFKA_TWIN_CLUSTER_BOOTSTRAP": "127.0.0.1:1",
            "KAFKA_TWIN_QUERY_CHECKPOINT": f"{folder}/checkpoint",
        }

    def run(self, program: str, *arguments: str, **environment: str) -> str:
        """The output of a program of the environment."""
        done = subprocess.run(
            [str(self.bin / program), *arguments], cwd=self.folder, capture_output=True, text=True,
            env=self.environment | environment, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("installed")
    wheel = built(ROOT, folder / "dist")[".whl"]
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=100)
    own = Installed(folder)
    own.run("pip", "install", "-q", f"{wheel}[spark]")
    yield own
    subprocess.run(["rm", "-rf", str(folder / "venv")], check=True, timeout=100)


def test_every_command_starts(installed: Installed) -> None:
    text = installed.run("kafka-twin", "--help")
    _, _, commands = text.partition("Commands:\n")
    names = [line.split()[0] for line in commands.splitlines() if line[:3].strip()]
    assert {"collector", "query", "exporter", "spark-package"} <= set(names)
    for name in names:
        assert installed.run("kafka-twin", name, "--help").startswith("Usage: kafka-twin")


def test_the_exporter_serves_the_console(installed: Installed) -> None:
    port = free_base_port(1)
    process = subprocess.Popen(
        [str(installed.bin / "kafka-twin"), "exporter"],
        cwd=installed.folder,
        env=installed.environment | {"KAFKA_TWIN_EXPORTER_PORT": f"{port}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}/console"
        until(lambda: get(f"{url}/index.html")[0] == 200, 60, "no console")
        assert "// vendor/preact.mjs" in get(f"{url}/console.js")[1]
    finally:
        process.kill()
        process.wait(300)


def test_spark_finds_the_jars_that_the_wheel_lists(installed: Installed) -> None:
    assert installed.run("python", "-c", PLANS_A_QUERY) == "key\n"


def test_a_packed_environment_works_in_any_folder_beside_another_spark(
    installed: Installed, tmp_path: Path
) -> None:
    package = tmp_path / "package"
    line = installed.run(
        "kafka-twin", "spark-package", str(package), "--master", "spark://127.0.0.1:7077",
        KAFKA_TWIN_QUERY_CHECKPOINT="hdfs://127.0.0.1:1/twin",
    )  # fmt: skip
    assert line.startswith(f"cd {package} && PYSPARK_PYTHON=./environment/bin/python")
    with tarfile.open(package / "environment.tar.gz") as archive:
        archive.extractall(tmp_path / "elsewhere", filter="data")
    (package / "environment").rename(tmp_path / "gone")
    zips = installed.bin.parent.glob("lib/python3*/site-packages/pyspark/python/lib/*.zip")
    printed = subprocess.run(
        [str(tmp_path / "elsewhere/bin/python"), "-c", IMPORTS], cwd=tmp_path, check=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(map(str, zips))},
        capture_output=True, text=True, timeout=300,
    ).stdout  # fmt: skip
    assert printed.startswith(str(tmp_path / "elsewhere/packages/streaming"))
