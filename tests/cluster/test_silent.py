"""A cluster of which no broker answers any more, while the twin's bus is elsewhere and goes on."""

from __future__ import annotations

import numpy as np
import pytest
from kafka import KafkaAdminClient

from streaming.bus.view import ClusterView, ShardView
from streaming.lab.cluster import LocalCluster
from streaming.questions.single_loss import single_loss
from tests.cluster.watching import watching
from tests.waiting import until
from twin.builtin import CATALOG
from twin.cluster import empty_cluster, reports, step_cluster
from twin.declarations.table import NO_BROKER
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.risks import OpenRisks
from twin.engine.state import ShardState
from twin.tables.state import Partitions
from twin.totals import shard_totals

pytestmark = pytest.mark.cluster


def are_silent(state: ShardState) -> bool:
    """Each partition with a leader has the open risk."""
    bit = np.int64(1) << np.int64(CATALOG.risk_names.index("leader_silent"))
    is_open = (state[OpenRisks].bits & bit) != 0
    led = state[Partitions].leader != NO_BROKER
    return bool(led.any() and is_open[led].all())


def sentence(state: ShardState) -> str:
    view = ClusterView(shards=(ShardView(state, shard_totals(state)),), shards_expected=1)
    return single_loss(view, ())["sentence"]


def test_a_cluster_that_stands_still_is_said_to_be_silent_and_then_to_be_back(
    whole: LocalCluster,
) -> None:
    spec = {"num_partitions": 3, "replication_factor": 3}
    with KafkaAdminClient(bootstrap_servers=whole.bootstrap) as admin:
        admin.create_topics({"silent": spec}, timeout_ms=20_000, wait_for_metadata=True)
    with watching(whole.bootstrap) as watch:
        own = empty_cluster(CATALOG, "real", 1)

        def looked() -> ShardState:
            nonlocal own
            state = watch.look()
            own, _ = step_cluster(own, reports(state))
            return state

        until(lambda: "silent" in looked().topic_names())
        for node in whole.status():
            whole.pause(node.id)
        state = until(lambda: (it := looked()) and are_silent(it) and it)
        assert own[ClusterRisks].brokers("cluster_silent") == [NO_BROKER]
        assert sentence(state).startswith("No broker has answered since ")
        for node in whole.status():
            whole.resume(node.id)

        def is_over() -> bool:
            state = looked()
            return not are_silent(state) and "answered" not in sentence(state)

        until(is_over)
        until(lambda: looked() is not None and own[ClusterRisks].brokers("cluster_silent") == [])
