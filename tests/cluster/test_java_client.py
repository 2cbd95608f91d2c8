"""``kafka-twin check`` tries Kafka's Java client too, in a JVM of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streaming.checks.java_client import WITHOUT, of_java_client
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime import jars
from streaming.runtime.config import BusConfig, ClusterConfig, CollectorConfig, Config
from tests.linked_java import linked
from tests.waiting import patient_ms

pytestmark = pytest.mark.cluster

NOWHERE = "127.0.0.1:1"


def said(cluster: LocalCluster, client: dict[str, Any], bus: str = "") -> list[str]:
    config = Config(
        cluster=ClusterConfig(bootstrap=cluster.bootstrap, client=client),
        bus=BusConfig(bootstrap=bus),
        collector=CollectorConfig(deadline_ms=patient_ms(3_000)),
    )
    return [str(each) for each in of_java_client(config)]


def test_a_client_that_describes_the_cluster_is_answered(cluster: LocalCluster) -> None:
    assert said(cluster, {}) == ["ok: Java client of cluster: asked and answered"]


def test_with_a_bus_of_its_own_java_connects_to_nothing_else(cluster: LocalCluster) -> None:
    [line] = said(cluster, {}, bus=NOWHERE)
    assert line.startswith(f"missing: Java client of bus: bus.bootstrap {NOWHERE}: ")
    assert "no address in bootstrap answers" in line
    assert line.endswith(f" -> {WITHOUT}")


def test_what_the_java_client_cannot_be_given_names_the_setting(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "key.pem").write_text("no key\n")
    key = str(tmp_path / "key.pem")
    [line] = said(cluster, {"security_protocol": "SSL", "ssl_certfile": key, "ssl_keyfile": key})
    assert line.startswith(f"missing: Java client of cluster: ssl_keyfile: {key} ")


def test_a_jre_that_lacks_modules_is_said_in_one_line(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(linked(tmp_path, "java.base")))
    [line] = said(cluster, {})
    assert line.startswith("missing: Java client of cluster: Java ")
    assert "does not start Spark's JVM: FindException: Module " in line
    assert " not found" in line
    assert "\n" not in line


def test_without_java_it_is_not_tried_and_check_says_what_does_not_work(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    jars.java.cache_clear()
    try:
        [line] = said(cluster, {})
    finally:
        jars.java.cache_clear()
    assert line.startswith("missing: Java client of cluster: not tried: Java ")
    assert line.endswith(f" -> {WITHOUT}")
