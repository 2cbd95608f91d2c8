"""Checks what the query needs on this machine: Java, PySpark, and a user that has a name."""

from __future__ import annotations

import importlib.util
import os
import pwd
from collections.abc import Iterator

from streaming.checks.finding import CheckResult
from streaming.runtime.jars import JarError, java


def of_machine() -> Iterator[CheckResult]:
    """Check Java, PySpark and the user. The other programs run without them."""
    here = "kafka-twin query, run and demo on this machine"
    try:
        yield CheckResult(f"Java: {java()}")
    except JarError as error:
        yield CheckResult(str(error), here)
    if importlib.util.find_spec("pyspark") is not None:
        yield CheckResult("PySpark is installed")
    else:
        yield CheckResult("PySpark: pip install 'kafka-twin[spark]'", here)
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        yield CheckResult(
            f"user {os.geteuid()} has no name here: give it one in /etc/passwd, as the images do "
            "at their start",
            f"{here}: Hadoop's login of Spark needs one",
        )
