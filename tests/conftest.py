"""The order of a whole run, by what disturbs whom and who waits for whom."""

from __future__ import annotations

import logging
from typing import Final

import pytest

# What one test asks in the background is no word of the program that another one listens to.
logging.getLogger("httpx2").setLevel(logging.WARNING)

_STURDY: Final = ("bus", "collector", "exporter", "jmx", "local_cluster", "numbers", "rights")
"""Tests of tests/cluster that hold on a busy machine as well."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What measures times, containers, brokers; then the demo, and while it plays all others."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder, _, file = item.nodeid.partition("::")[0].rpartition("/")
    if file == "test_demo.py":
        return 3 if item.get_closest_marker("first") else 6
    if file in {f"test_{name}.py" for name in _STURDY} and folder == "tests/cluster":
        return 5
    return {"tests/bench": 0, "tests/containers": 1, "tests/cluster": 2}.get(folder, 4)
