"""Clients and programs that go on while their logins end, and clients that cannot log in."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.kafka import clients
from tests.cluster.pipeline import STARTS_WITHIN_S, Pipeline
from tests.waiting import patient_ms, until


@contextmanager
def running(broker: tuple[LocalCluster, str]) -> Iterator[tuple[LocalCluster, str]]:
    """A broker that is started, and the address at which it wants logins."""
    local, _ = broker
    try:
        local.start()
        yield broker
    finally:
        local.wipe()


@contextmanager
def live(
    broker: tuple[LocalCluster, str], folder: Path, prefix: str, client: Mapping[str, Any]
) -> Iterator[Pipeline]:
    """All programs, on a broker with that login."""
    local, address = broker
    pipeline = Pipeline(local, folder, prefix, address, client)
    try:
        pipeline.start("collector", "query", "exporter")
        until(pipeline.is_live, STARTS_WITHIN_S, "the programs are not live")
        yield pipeline
    finally:
        pipeline.end()


def go_on_for_s(pipeline: Pipeline, seconds: float) -> None:
    """All programs live for so long, and observe."""
    began_s = time.monotonic()
    while time.monotonic() < began_s + seconds:
        since_s = time.time()
        until(lambda: pipeline.observed_since(since_s), 30, "nothing is observed")  # noqa: B023
        assert all(pipeline.alive(name) for name in pipeline.programs)
        time.sleep(5)


def asks_for_s(address: str, client: Mapping[str, Any], seconds: float) -> None:
    """A client of the collector's kind asks each second, for so long."""
    arguments = clients.arguments(address, client, "cluster")
    with closing(KafkaAdminClient(**arguments)) as admin:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            admin.list_topics()
            time.sleep(1)


def asks_again_after_s(address: str, client: Mapping[str, Any], seconds: float) -> None:
    """It asks, is idle for so long, and asks again."""
    arguments = clients.arguments(address, client, "cluster")
    with closing(KafkaAdminClient(**arguments)) as admin:
        admin.list_topics()
        time.sleep(seconds)
        admin.list_topics()


def why_not(address: str, client: Mapping[str, Any]) -> str:
    """The one line in which it says why it cannot connect."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - clients raise many kinds
        KafkaAdminClient(
            **clients.arguments(address, client, "cluster"), bootstrap_timeout_ms=patient_ms(4_000)
        ).close()
    return clients.one_line(caught.value)
