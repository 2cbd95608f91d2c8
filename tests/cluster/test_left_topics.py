"""A group that has left a topic has left it, also while it rebalances."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest
from kafka import KafkaAdminClient

from streaming.lab.local_cluster import LocalCluster
from tests.cluster.broker_client import await_in_sync
from tests.cluster.groups import commit, consuming, states_of, watching_groups
from tests.cluster.topics import produce
from tests.cluster.watching import keys
from tests.versions.releases import OWN, Release
from tests.waiting import until
from twin.engine.shard_state import ShardState
from twin.rules.groups.moves import GroupLags
from twin.tables.state import GroupOffsets, Groups

pytestmark = [pytest.mark.cluster, pytest.mark.losses]

GROUP, READ, LEFT = "mover", "groups-read", "groups-left"
SLOW_HEARTBEAT = {
    "group_protocol": "classic",
    "heartbeat_interval_ms": "9000",
    "session_timeout_ms": "30000",
}
"""A member hears of a rebalance by its next heartbeat; the group waits for it until then."""


def in_use(state: ShardState) -> dict[str, bool]:
    """By topic that the group committed to, or is assigned: the twin takes it to be in use."""
    offsets, used = state[GroupOffsets], state[GroupLags].in_use.tolist()
    mine = state[Groups].group[offsets.group_index] == GROUP
    topics = [keys(state)[row][0] for row in offsets.row.tolist()]
    return {topic: is_used for topic, is_used, own in zip(topics, used, mine, strict=True) if own}


def test_a_rebalance_takes_no_topic_for_used_that_the_group_left(cluster: LocalCluster) -> None:
    classpath = Release(OWN).tools(cluster.jars())
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        one = {"num_partitions": 1, "replication_factor": 3}
        admin.create_topics({READ: one, LEFT: one}, timeout_ms=20_000, wait_for_metadata=True)
    await_in_sync(cluster)
    for topic in (READ, LEFT):
        produce(cluster, topic, 10)
    commit(cluster.bootstrap, GROUP, {(LEFT, 0): 3})

    def member() -> AbstractContextManager[None]:
        return consuming(classpath, cluster.bootstrap, READ, GROUP, **SLOW_HEARTBEAT)

    with watching_groups(cluster.bootstrap) as watch, member():

        def state_is(*names: str) -> bool:
            status = states_of(watch.look_at_groups()).get(GROUP)
            return status is not None and status.state in names

        until(lambda: state_is("Stable"), 60, "the member did not join", pause_s=0.3)
        until(lambda: READ in in_use(watch.look_at_groups()), 60, "it read nothing", pause_s=0.3)
        assert in_use(watch.state) == {READ: True, LEFT: False}
        with member():
            until(
                lambda: state_is("PreparingRebalance", "CompletingRebalance"),
                60,
                "the group did not rebalance",
                pause_s=0.1,
            )
            assert in_use(watch.state) == {READ: True, LEFT: False}
