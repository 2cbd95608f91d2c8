"""The oracle, started once a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.runtime import jars
from tests.oracle.oracle import Oracle, compiled, javac


@pytest.fixture(scope="session")
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """Kafka's classes, ready to be asked."""
    java, kafka = jars.java(), jars.ensure("kafka")
    compiler = javac(java)
    if compiler is None:
        reason = "no javac: install a JDK (openjdk-17-jdk-headless), a JRE cannot compile"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    assert request.config.cache is not None
    cache = Path(request.config.cache.mkdir("oracle"))
    with Oracle(java, kafka, compiled(compiler, kafka, cache)) as started:
        yield started
