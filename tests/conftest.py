"""Settings of all tests."""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from streaming.lab import class_archive
from streaming.runtime.errors import forget_secrets
from tests.examples import examples
from tests.marks import can_match, marks_written, names_in
from tests.runner import inside


def pytest_configure(config: pytest.Config) -> None:
    """Note CPU times, and show stacks, if the runner of all tests asks for it."""
    inside.register(config)


def pytest_xdist_auto_num_workers(config: Any) -> int:
    """Processes for ``-n auto``: tests that start nothing wait half of the time for a deadline."""
    del config
    return 2 * len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files that can have tests which ``-m`` selects."""
    if not collection_path.match("test_*.py"):
        return None
    matches = can_match(config.option.markexpr, marks_written(collection_path))
    return None if matches else True


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection, which saves 4 % of the CPU time."""
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a test with a mark that ``pytest_ignore_collect`` does not see."""
    selecting = names_in(item.config.option.markexpr)
    marks = selecting & {mark.name for mark in item.iter_markers()}
    if unseen := marks - marks_written(item.path):
        raise pytest.UsageError(f"{item.nodeid}: write pytest.mark.{min(unseen)} in its file")


def pytest_runtest_teardown() -> None:
    """The passwords of one test may be words in messages of the next."""
    forget_secrets()


# The requests that tests make do not belong into the logs that other tests read.
logging.getLogger("httpx2").setLevel(logging.WARNING)

# Spark is started a dozen times, each for a minute or two.
os.environ.update(class_archive.quick_spark() | os.environ)

# How long an example takes, or its generation, depends on what else the machine does.
settings.register_profile(
    "no-clock", examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no-clock")
