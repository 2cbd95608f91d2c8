"""Fixtures that the tests of Spark platforms share."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark_platform import machines


@pytest.fixture
def namespaces() -> None:
    """Mount namespaces can be had. Without them its tests are skipped, and fail in CI."""
    if why_not := machines.why_not():
        if os.environ.get("CI"):
            pytest.fail(why_not)
        pytest.skip(why_not)
