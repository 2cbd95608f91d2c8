"""The spark-submit line of a package, for each kind of master."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from streaming.packing.distributions import PROJECT, PackingError
from streaming.packing.environment import ARCHIVE, NAME

SCRIPT: Final = "query.py"
LOGGING: Final = "log4j2.properties"
JARS: Final = "jars"

PYTHON: Final = f"./{NAME}/bin/python"
"""The same on every machine: Spark unpacks the archive where a driver or an executor runs."""

IMAGE: Final = "kafka-twin-spark"
_IN_THE_IMAGE: Final = "local:///opt/kafka-twin/query.py"

_NATIVE_MEMORY: Final = "2g"
"""Memory for RocksDB and the Python workers of an executor with two cores, besides its heap."""

_MASTERS: Final = re.compile(r"(spark)://[^/\s,:]+:\d+(?:,[^/\s,:]+:\d+)*|(yarn)|(k8s)://\S+")


@dataclass(frozen=True, slots=True)
class Package:
    """The files that a spark-submit line names."""

    folder: Path
    jars: Sequence[str]  # names of files
    config: Path | None  # twin.toml


def kind(master: str) -> str:
    """``spark`` (standalone), ``yarn`` or ``k8s``.

    Raises:
        PackingError: it is another kind.
    """
    match = _MASTERS.fullmatch(master)
    if match is None:
        raise PackingError(
            f"{master!r} is not the master of a Spark platform; give spark://HOST:PORT, yarn or "
            "k8s://https://HOST:PORT (local[N] needs no package: kafka-twin query)"
        )
    return next(name for name in match.groups() if name)


def line(master: str, package: Package) -> str:
    """The shell command that starts the query on that master.

    Raises:
        PackingError: there is no such master.
    """
    match kind(master):
        case "spark":
            return _standalone(master, package)
        case "yarn":
            return _yarn(package)
        case _:
            return _kubernetes(master)


def _standalone(master: str, package: Package) -> str:
    """The driver runs here, in the package's folder: standalone clusters require it for Python."""
    environment = {"PYSPARK_PYTHON": PYTHON, "PYSPARK_DRIVER_PYTHON": PYTHON}
    if package.config is not None:
        environment["KAFKA_TWIN_CONFIG"] = str(package.config)
    options = [
        *_options(master, package),
        ("--driver-java-options", f"-Dlog4j2.configurationFile={LOGGING}"),
    ]
    return f"cd {shlex.quote(str(package.folder))} && " + _command(environment, options, SCRIPT)


def _yarn(package: Package) -> str:
    """The driver runs in a container of YARN, which also has the archive and the files."""
    files = [LOGGING]
    names = {"PYSPARK_PYTHON": PYTHON}
    if package.config is not None:
        files.append(str(package.config))
        names["KAFKA_TWIN_CONFIG"] = package.config.name
    options = [
        *_options("yarn", package),
        ("--deploy-mode", "cluster"),
        ("--files", ",".join(files)),
        *((f"--conf spark.yarn.appMasterEnv.{name}", value) for name, value in names.items()),
        ("--conf spark.executorEnv.PYSPARK_PYTHON", PYTHON),
        ("--conf spark.executor.memoryOverhead", _NATIVE_MEMORY),
        ("--driver-java-options", f"-Dlog4j2.configurationFile={LOGGING}"),
    ]
    return f"cd {shlex.quote(str(package.folder))} && " + _command({}, options, SCRIPT)


def _kubernetes(master: str) -> str:
    """Driver and executors run the image, which has all files; settings are driver variables."""
    options = [
        ("--master", master),
        ("--deploy-mode", "cluster"),
        ("--name", PROJECT),
        ("--conf spark.kubernetes.container.image", f"{IMAGE}:{version(PROJECT)}"),
        ("--conf spark.kubernetes.driverEnv.KAFKA_TWIN_CLUSTER_BOOTSTRAP", "BROKER:9092"),
        ("--conf spark.kubernetes.driverEnv.KAFKA_TWIN_QUERY_CHECKPOINT", "s3a://BUCKET/PATH"),
        ("--conf spark.executor.memoryOverhead", _NATIVE_MEMORY),
    ]
    return _command({}, options, _IN_THE_IMAGE)


def _options(master: str, package: Package) -> list[tuple[str, str]]:
    return [
        ("--master", master),
        ("--name", PROJECT),
        ("--jars", ",".join(f"{JARS}/{name}" for name in package.jars)),
        ("--archives", f"{ARCHIVE}#{NAME}"),
    ]


def _command(
    environment: Mapping[str, str], options: Sequence[tuple[str, str]], script: str
) -> str:
    """The command: variables, spark-submit, one option in each line, the script."""
    words = [" ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())]
    words.append("spark-submit")
    for name, value in options:
        option, _, setting = name.partition(" ")
        words.append(f"{option} {shlex.quote(f'{setting}={value}' if setting else value)}")
    words.append(script)
    return " \\\n  ".join(word for word in words if word)
