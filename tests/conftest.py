"""The order of a whole run, by what disturbs whom and who waits for whom."""

from __future__ import annotations

import logging
import os
from typing import Final

import pytest
from hypothesis import settings

from streaming.runtime.jars import QUICK_SPARK

# What one test asks in the background is no word of the program that another one listens to.
logging.getLogger("httpx2").setLevel(logging.WARNING)

# Spark is started a dozen times, each for a minute or two.
os.environ.update(QUICK_SPARK | os.environ)

# How long an example takes says how busy the machine is; everywhere, as Hypothesis has it in CI.
settings.register_profile("unhurried", settings.default, deadline=None)
settings.load_profile("unhurried")

_STURDY: Final = ("bus", "collector", "exporter", "jmx", "local_cluster", "numbers", "rights")
"""Tests of tests/cluster that hold on a busy machine as well."""

_LAST: Final = ("tests/twin", "tests/exporter", "tests/collector")
"""Tests that compute all the time, or have deadlines: the demo has little left to do by then."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Containers and brokers, by themselves; then the demo, and while it plays all others."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder, _, file = item.nodeid.partition("::")[0].rpartition("/")
    if file == "test_demo.py":
        return 3 if item.get_closest_marker("first") else 9
    if file in {f"test_{name}.py" for name in _STURDY} and folder == "tests/cluster":
        return 5
    others = 6 + _LAST.index(folder) if folder in _LAST else 4
    return {"tests/containers": 1, "tests/cluster": 2}.get(folder, others)
