"""A frozen broker among the bootstrap addresses: connections are taken, and nothing is answered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from streaming.checks.cluster_checks import of_addresses
from streaming.collector.wire.connections import BrokerConnections
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import ClusterConfig, CollectorConfig, Config
from streaming.runtime.kafka import clients
from tests.waiting import patient_ms

pytestmark = [pytest.mark.cluster, pytest.mark.losses]

TRIES: Final = 8
"""By chance the frozen one of three would come first in one of them with 96 %."""

KINDS: Final[tuple[Callable[..., Any], ...]] = (KafkaAdminClient, KafkaConsumer, KafkaProducer)


@pytest.mark.parametrize("frozen", [1, 2, 3])
def test_programs_start_although_one_bootstrap_broker_is_frozen(
    whole: LocalCluster, frozen: int
) -> None:
    places = clients.places(whole.bootstrap)
    whole.pause(frozen)
    for _ in range(TRIES):
        with BrokerConnections(whole.bootstrap, {}, patient_ms(1_500)) as brokers:
            assert brokers.broker_ids()
    arguments = clients.arguments(whole.bootstrap, {}, "cluster")
    for kind in KINDS:
        for _ in range(TRIES):
            with closing(kind(bootstrap_timeout_ms=patient_ms(3_000), **arguments)):
                pass
    config = Config(
        cluster=ClusterConfig(bootstrap=whole.bootstrap),
        collector=CollectorConfig(deadline_ms=patient_ms(1_500)),
    )
    [finding] = of_addresses(config)
    assert str(finding).startswith(f"missing: cluster.bootstrap {places[frozen - 1]}: cannot be ")
