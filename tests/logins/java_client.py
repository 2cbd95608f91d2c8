"""Kafka's Java client as Spark has it, in a small JVM, with the options that Spark gets."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from streaming.checks.java_client import of_java_client
from streaming.runtime import jars
from streaming.runtime.config import ClusterConfig, CollectorConfig, Config
from tests.waiting import patient_ms

ANSWERED: Final = "ok: Java client of cluster: asked and answered"
SOURCE: Final = Path(__file__).parent / "java" / "Client.java"


def checked(bootstrap: str, client: Mapping[str, Any]) -> str:
    """The line of ``kafka-twin check`` on Kafka's Java client."""
    config = Config(
        cluster=ClusterConfig(bootstrap=bootstrap, client=dict(client)),
        collector=CollectorConfig(deadline_ms=patient_ms(3_000)),
    )
    [finding] = of_java_client(config)
    return str(finding)


def asks_for_s(
    folder: Path, options: Mapping[str, str], seconds: int, *java: str, further: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    """Ask for the cluster each second, for so long.

    Args:
        folder: for a file.
        options: as for Spark's source and sink.
        seconds: how long.
        java: options of the JVM.
        further: jars beside those of Spark and its connector.
    """
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    beside = Path(found.origin).parent / "jars" / "*"
    classpath = os.pathsep.join(map(str, [*jars.ensure("spark"), *further, beside]))
    file = folder / "client.properties"
    escaped = {
        name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in options.items()
    }
    file.write_text("".join(f"{n.removeprefix('kafka.')}={v}\n" for n, v in escaped.items()))
    return subprocess.run(
        [jars.java(), "-Xmx128m", *jars.QUICK_START, "-Dlog4j2.level=OFF", *java, "-cp", classpath,
         str(SOURCE), str(file), str(seconds)],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
