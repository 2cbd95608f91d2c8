"""A cluster of which no broker answers any more, or no controller, while the bus is elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from kafka import KafkaAdminClient

from streaming.bus.view import ClusterView, ShardView
from streaming.lab.local_cluster import LocalCluster
from streaming.questions.loss import lose
from streaming.questions.single_loss import single_loss
from tests.cluster.broker_client import BrokerClient, Key, await_in_sync
from tests.cluster.watching import watching
from tests.waiting import until
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.declarations.table import NO_BROKER
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.risks import OpenRisks
from twin.engine.shard_state import ShardState
from twin.questions import gate
from twin.questions.gate import Reason
from twin.tables.state import ControllerQuorum, Partitions
from twin.totals import cluster_totals, shard_totals

pytestmark = [pytest.mark.cluster, pytest.mark.losses]


def are_silent(state: ShardState) -> bool:
    """Each partition with a leader has the open risk."""
    bit = np.int64(1) << np.int64(CATALOG.risk_names.index("leader_silent"))
    is_open = (state[OpenRisks].bits & bit) != 0
    led = state[Partitions].leader != NO_BROKER
    return bool(led.any() and is_open[led].all())


def view_of(state: ShardState, own: ShardState | None = None) -> ClusterView:
    shards = (ShardView(state, shard_totals(state)),)
    totals = cluster_totals(CATALOG, [shard.totals for shard in shards])
    return ClusterView(shards=shards, shards_expected=1, cluster=own, totals=totals)


def sentence(state: ShardState, own: ShardState | None = None) -> str:
    return single_loss(view_of(state, own), ())["sentence"]


def leaders_of(cluster: LocalCluster, node: int, keys: Iterable[Key]) -> dict[Key, int]:
    """The leaders of those partitions, as that broker knows them."""
    leaders = BrokerClient(cluster).leaders(node)
    return {key: leaders[key] for key in keys}


def active_controller(state: ShardState) -> int:
    """The node; 0 while nobody is known to be active."""
    quorum = state[ControllerQuorum]
    return int(quorum.node[quorum.is_active].max(initial=0))


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


def test_a_cluster_without_a_majority_of_its_controllers_elects_nobody(whole: LocalCluster) -> None:
    """Two of three nodes are frozen: the third goes on with the leaders that it knows.

    The third is the active controller. One that was frozen while it is active may go on as such,
    and takes the brokers whose heartbeats it missed for lost.
    """
    spec = {"num_partitions": 6, "replication_factor": 3}
    with KafkaAdminClient(bootstrap_servers=whole.bootstrap) as admin:
        admin.create_topics({"elects": spec}, timeout_ms=20_000, wait_for_metadata=True)
    with watching(whole.bootstrap) as watch:
        own = empty_cluster(CATALOG, "real", 1)

        def looked() -> ShardState:
            nonlocal own
            state = watch.look()
            own, _ = step_cluster(own, reports(state))
            return state

        def is_lost() -> bool:
            return own[ClusterRisks].brokers("quorum_lost") == [NO_BROKER]

        until(lambda: "elects" in looked().topic_names())
        await_in_sync(whole)
        third = until(lambda: active_controller(looked()))
        lost, back = (node.id for node in whole.status() if node.id != third)
        view = view_of(looked(), own)
        one = lose.data(view, {"broker": [lost]})
        assert one["elects"] is True
        assert lose.data(view, {"broker": [lost, back]})["elects"] is False
        for node in (lost, back):
            whole.pause(node)
        state = until(lambda: (it := looked()) and is_lost() and it)
        assert sentence(state, own).startswith("No controller has answered since ")
        assert single_loss(view_of(state, own), ())["can_be_lost"] == []
        assert lose.data(view_of(state, own), {"broker": [third]})["elects"] is False
        assert Reason.QUORUM_UNKNOWN in gate.reasons([state], [third], gate.Terms())
        # A majority is back: it elects whom the twin named for the loss of the other one.
        whole.kill(lost)
        whole.resume(back)
        predicted = {
            (row["topic"], row["partition"]): row["next_leaders"]["kafka"]["leader"]
            for row in one["partitions"]
            if row["leader"] == lost and row["topic"] == "elects"
        }
        assert predicted
        until(lambda: leaders_of(whole, third, predicted) == predicted, 60, "others lead")
        until(lambda: looked() is not None and not is_lost())
    whole.start()
    await_in_sync(whole)
