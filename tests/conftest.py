"""Settings of all tests."""

from __future__ import annotations

import logging
import os
from typing import Any

from hypothesis import HealthCheck, settings

from streaming.runtime.jars import QUICK_SPARK


def pytest_xdist_auto_num_workers(config: Any) -> int:
    """Processes for ``-n auto``: tests that start nothing wait half of the time for a deadline."""
    del config
    return 2 * len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


# The requests that tests make do not belong into the logs that other tests read.
logging.getLogger("httpx2").setLevel(logging.WARNING)

# Spark is started a dozen times, each for a minute or two.
os.environ.update(QUICK_SPARK | os.environ)

# How long an example takes, or its generation, depends on what else the machine does.
settings.register_profile(
    "no-clock", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no-clock")
