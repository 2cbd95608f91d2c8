"""CDS archives: classes as an earlier JVM had them in memory, which the next ones map as they are.

With an archive Spark starts in half of the CPU time, and a broker in two thirds. An archive fits
JVMs with the options of ``jars.QUICK_SPARK`` and ``jars.QUICK_START``, and Java goes on without
one that does not fit. https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from streaming.runtime import jars

_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_VARIABLE: Final = "SPARK_SUBMIT_OPTS"


def of_kafka() -> Path:
    """The path of the archive for brokers of the project's own Kafka; it may not exist.

    Raises:
        JarError: Java or a jar is missing and cannot be had.
    """
    return _path("kafka", jars.ensure("kafka"))


def of_spark() -> Path:
    """The path of the archive for Spark's drivers; it may not exist.

    Raises:
        JarError: Java or PySpark is missing.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise jars.JarError("PySpark is not installed: pip install pyspark")
    return _path("spark", sorted((Path(spec.origin).parent / "jars").glob("*.jar")))


def using(archive: Path) -> tuple[str, ...]:
    """JVM options that use an archive; none if it does not exist."""
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET) if archive.is_file() else ()


def making(archive: Path) -> tuple[str, ...]:
    """JVM options that write an archive when the JVM ends in good order."""
    return (f"-XX:ArchiveClassesAtExit={archive}", *_QUIET)


def quick_spark() -> dict[str, str]:
    """``jars.QUICK_SPARK`` and the temporary folder, with the archive if there is one."""
    options = [jars.QUICK_SPARK[_VARIABLE], jars.temporary_folder()]
    with suppress(jars.JarError):  # whoever starts Spark says it
        options += using(of_spark())
    return {_VARIABLE: " ".join(options)}


def _path(name: str, classpath: Iterable[Path]) -> Path:
    """The path of an archive for this Java and these files."""
    java = Path(jars.java()).resolve()
    key = hashlib.sha256()
    for path in (java, *classpath):
        stat = path.stat()
        key.update(f"{path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return jars.default_cache() / "classes" / f"{name}-{key.hexdigest()[:16]}.jsa"
