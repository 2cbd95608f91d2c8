"""Checks what the query needs on this machine: Java, PySpark, and a user that has a name."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import subprocess
from collections.abc import Iterator
from typing import Final

from streaming.checks.finding import CheckResult
from streaming.runtime.jars import JarError, java

MODULES: Final = (
    "java.desktop", "java.management", "java.sql", "jdk.crypto.ec", "jdk.incubator.vector",
    "jdk.security.auth", "jdk.unsupported",
)  # fmt: skip
"""Modules of Java that the query needs, also for TLS. ``jlink`` adds those that these require.

Found with runtimes of ``jlink`` that lacked one of them each. A test runs the query with these
alone (``tests/cluster/test_java_modules.py``).
"""

_OF_BASE: Final = {"jdk.crypto.ec": 22}
"""Modules whose classes are in java.base from that release of Java on."""

_LISTS_WITHIN_S: Final = 30


def of_machine() -> Iterator[CheckResult]:
    """Check Java, PySpark and the user. The other programs run without them."""
    here = "kafka-twin query, run and demo on this machine"
    try:
        yield _of_java(java(), here)
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


def _of_java(path: str, here: str) -> CheckResult:
    """Whether this Java has all modules, as one that was linked for other programs may not."""
    try:
        listed = subprocess.run(
            [path, "--list-modules"], capture_output=True, text=True, timeout=_LISTS_WITHIN_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult(f"Java {path} does not list its modules: {error}", here)
    modules = dict(re.findall(r"^([\w.]+)@(\d+)", listed, re.MULTILINE))
    release = int(modules.get("java.base", 0))
    lacking = [m for m in MODULES if m not in modules and release < _OF_BASE.get(m, release + 1)]
    if not lacking:
        return CheckResult(f"Java: {path}")
    return CheckResult(
        f"Java {path} lacks {', '.join(lacking)}: use a whole JRE, or link it with these modules",
        here,
        mend=f"jlink --add-modules {','.join(MODULES)} --output jre",
    )
