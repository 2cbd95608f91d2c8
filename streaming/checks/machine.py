"""What the Spark query needs on this machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from streaming.checks.finding import Finding
from streaming.runtime.jars import JarError, java


def of_machine() -> Iterator[Finding]:
    """What the Spark query needs on this machine; the other programs run without."""
    here = "kafka-twin query, run and demo on this machine"
    try:
        yield Finding(f"Java: {java()}")
    except JarError as error:
        yield Finding(str(error), here)
    if importlib.util.find_spec("pyspark") is not None:
        yield Finding("PySpark is installed")
    else:
        yield Finding("PySpark: pip install 'kafka-twin[spark]'", here)
