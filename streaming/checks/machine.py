"""Checks Java and PySpark, which the query needs on this machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from streaming.checks.finding import CheckResult
from streaming.runtime.jars import JarError, java


def of_machine() -> Iterator[CheckResult]:
    """Check Java and PySpark. The other programs run without them."""
    here = "kafka-twin query, run and demo on this machine"
    try:
        yield CheckResult(f"Java: {java()}")
    except JarError as error:
        yield CheckResult(str(error), here)
    if importlib.util.find_spec("pyspark") is not None:
        yield CheckResult("PySpark is installed")
    else:
        yield CheckResult("PySpark: pip install 'kafka-twin[spark]'", here)
