"""The role ``executor`` of the image's entry point, as Spark on Kubernetes starts it.

There is no Kubernetes here: the executor registers with a driver whose own master has no workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pyspark
import pytest

from streaming.lab.processes import free_base_port, is_listening
from streaming.runtime import jars
from tests.spark_platform.machines import ROOT, unshare
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.containers]

SPARK: Final = Path(pyspark.__file__).parent
AS_IN_THE_IMAGE: Final = """
set -e
mount -t tmpfs none /opt
mkdir -p /opt/kafka-twin/venv /opt/kafka-twin/jars/spark
mount --bind "$VENV" /opt/kafka-twin/venv
mount --bind "$JARS" /opt/kafka-twin/jars/spark
exec bash "$ENTRYPOINT" executor
"""
DRIVER: Final = """
import os, sys
from pyspark.sql import SparkSession
from streaming.query.stalled import observed_cause
builder = SparkSession.builder.master(sys.argv[1]).config("spark.driver.port", sys.argv[2])
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", "false")
context = builder.getOrCreate().sparkContext
print(context.applicationId, flush=True)
print(observed_cause(context).kind.name, flush=True)
def observed(_):
    import streaming.query.processor
    daemon = os.getppid()
    with open(f"/proc/{daemon}/stat") as stat:
        executor = stat.read().rpartition(")")[2].split()[1]
    with open(f"/proc/{executor}/cmdline") as command:
        options = [word for word in command.read().split(chr(0)) if word.startswith("-Dtest=")]
    return [sys.executable, *options]
print(*context.parallelize([0], 1).map(observed).first())
print(observed_cause(context).kind.name)
"""


def test_an_executor_registers_and_runs_the_python_of_the_image(
    namespaces: None, tmp_path: Path
) -> None:
    port = free_base_port(4)
    environment = {
        "PATH": os.environ["PATH"], "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1",
        "VENV": sys.prefix, "JARS": str(jars.ensure("spark")[0].parent),
        "ENTRYPOINT": str(ROOT / "deploy/docker/entrypoint-spark.sh"),
        "PYSPARK_PYTHON": "/opt/kafka-twin/venv/bin/python",
    }  # fmt: skip
    with (tmp_path / "log").open("wb") as log, ExitStack() as ended:

        def started(*command: str, **more: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [*unshare(), *command], env=environment | more, cwd=tmp_path, text=True,
                stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
            ended.callback(process.wait, 30)
            ended.callback(process.kill)
            return process

        spark_class = str(SPARK / "bin/spark-class")
        started(spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1",
                "--port", f"{port}", "--webui-port", f"{port + 1}")  # fmt: skip
        until(lambda: is_listening(port), 60, "no master")
        master = f"spark://127.0.0.1:{port}"
        driver = started(sys.executable, "-c", DRIVER, master, f"{port + 2}")
        assert driver.stdout is not None
        application = driver.stdout.readline().strip()
        assert application.startswith("app-"), (tmp_path / "log").read_text()
        assert driver.stdout.readline() == "NO_EXECUTOR\n"
        started(
            "sh", "-c", AS_IN_THE_IMAGE,
            SPARK_DRIVER_URL=f"spark://CoarseGrainedScheduler@127.0.0.1:{port + 2}",
            SPARK_APPLICATION_ID=application, SPARK_EXECUTOR_ID="1", SPARK_EXECUTOR_CORES="1",
            SPARK_EXECUTOR_MEMORY="500m", SPARK_EXECUTOR_POD_IP="127.0.0.1",
            SPARK_EXECUTOR_POD_NAME="executor-1", SPARK_RESOURCE_PROFILE_ID="0",
            SPARK_JAVA_OPT_10="-Dtest=last one", SPARK_JAVA_OPT_2="-Dtest=2",
        )  # fmt: skip
        assert driver.wait(600) == 0, (tmp_path / "log").read_text()
        assert driver.stdout.read().splitlines() == [
            "/opt/kafka-twin/venv/bin/python -Dtest=2 -Dtest=last one",
            "NO_TASK",
        ]
