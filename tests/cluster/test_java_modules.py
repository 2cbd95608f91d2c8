"""The query runs in a Java that has the modules of ``kafka-twin check``, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.checks.machine import MODULES, of_machine
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime import jars
from tests.cluster.pipeline import STARTS_WITHIN_S, Pipeline
from tests.linked_java import linked
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.losses]


def said_of_java(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of ``check`` on a Java."""
    monkeypatch.setenv("JAVA_HOME", str(home))
    jars.java.cache_clear()
    try:
        return str(next(of_machine())).splitlines()
    finally:
        jars.java.cache_clear()


def test_modules_that_are_missing_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = linked(tmp_path, *(module for module in MODULES if not module.startswith("java.")))
    said, mend = said_of_java(home, monkeypatch)
    assert said.startswith(f"missing: Java {home}/bin/java lacks java.desktop, ")
    assert "jdk." not in said.partition(" -> ")[0].partition(" lacks ")[2]
    assert mend == f"mend: jlink --add-modules {','.join(MODULES)} --output jre"


def test_the_query_runs_with_these_modules_alone(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = linked(tmp_path, *MODULES)
    assert said_of_java(home, monkeypatch) == [f"ok: Java: {home}/bin/java"]
    pipeline = Pipeline(cluster, tmp_path, "modules")
    try:
        pipeline.start("collector", "exporter")
        monkeypatch.setenv("JAVA_HOME", str(home))
        pipeline.start("query")
        until(pipeline.is_live, STARTS_WITHIN_S, "the query does not run")
    finally:
        pipeline.end()
