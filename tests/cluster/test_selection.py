"""Where real leaders send consumers, against where the twin says they do (KIP-392)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from streaming.lab.local_cluster import LocalCluster
from tests.cluster.broker_client import EARLIEST_LOCAL, LATEST, LATEST_TIERED, BrokerClient
from tests.cluster.topics import TIERED, produce
from tests.cluster.watching import Watch, keys, watching
from tests.reading import conditions
from tests.waiting import until
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.brokers.racks import rack_names
from twin.rules.partitions.leaders import Roles
from twin.rules.reading.cold_reads import ColdReads, ReadsCold
from twin.rules.reading.selection import (
    SelectorViews,
    candidates_at,
    is_warm_at,
    replica_views,
    select,
    select_warm,
)
from twin.tables.enums import ReplicaSelector
from twin.tables.state import Assignment, Brokers, Replicas

pytestmark = pytest.mark.cluster

TOPIC = "selection"
RECORDS = 400
LEADER, COLD = 1, 3
RACKS = {1: "az-a", 2: "az-b", 3: "az-c"}


@pytest.fixture(scope="module")
def watch(cluster: LocalCluster, client: BrokerClient) -> Iterator[Watch]:
    """A twin of a partition whose third replica has joined with next to nothing on its disk."""
    client.create(TOPIC, [[1, 2]], TIERED | {"local.retention.bytes": "200000"})
    produce(cluster, TOPIC, RECORDS)
    until(lambda: uploads_ended(client), 60, "uploads have not ended")
    client.reassign(TOPIC, 0, [1, 2, 3])
    until(lambda: client.partition(1, TOPIC).isr == {1, 2, 3}, 60, "not all are in sync")
    with watching(cluster.bootstrap) as twin:
        yield twin


def uploads_ended(client: BrokerClient) -> bool:
    """Only the active segment is left to upload, and local retention has cut the rest."""
    offset = client.offsets_by_kind(LEADER, TOPIC, 0)
    tiered = offset[LATEST_TIERED]
    return 0 < offset[EARLIEST_LOCAL] < tiered and offset[LATEST] - tiered <= 20


def sent_to(client: BrokerClient, rack: str, offset: int) -> int:
    """The broker from which the leader lets a consumer of that rack read; itself if it says so."""
    answer = client.fetch(LEADER, TOPIC, offset, rack)
    assert answer.error_code == 0, (rack, offset, answer.error_code)
    return LEADER if answer.preferred_read_replica == -1 else int(answer.preferred_read_replica)


def predicted(state: ShardState, rack: str, offset: int, *, tier_aware: bool = False) -> int:
    assignment, replicas, roles = state[Assignment], state[Replicas], state[Roles]
    place = list(rack_names(state[Brokers])).index(rack) if rack else UNKNOWN
    asked = np.full(state.partitions, offset)
    views = replica_views(assignment, replicas, roles, state[SelectorViews])
    candidates = candidates_at(asked, replicas, roles)
    if tier_aware:
        chosen = select_warm(views, candidates, is_warm_at(asked, replicas), place)
    else:
        chosen = select(views, candidates, place)
    return int(chosen[keys(state).index((TOPIC, 0))])


def test_consumers_of_every_rack_are_sent_where_the_twin_says(
    watch: Watch, client: BrokerClient
) -> None:
    # A leader answers for itself until each follower has fetched from it.
    until(lambda: sent_to(client, RACKS[COLD], 0) == COLD, 30, "the leader sends nobody")
    state = watch.look()
    row = keys(state).index((TOPIC, 0))
    replicas = state[Replicas]
    local, end = replicas.local_log_start_offset[row], int(replicas.log_end_offset[row].min())
    offsets = sorted({0, *local.tolist(), *(local - 1).tolist(), end - 1, end})
    answers = {
        (rack, o): sent_to(client, rack, o) for rack in (*RACKS.values(), "") for o in offsets
    }
    assert answers == {(rack, offset): predicted(state, rack, offset) for rack, offset in answers}
    assert {answers[rack, 0] for rack in RACKS.values()} == {1, 2, 3}


def test_the_selector_of_every_broker_is_read(watch: Watch) -> None:
    state = watch.look()
    assert state[Brokers].replica_selector.tolist() == [ReplicaSelector.RACK_AWARE] * 3
    [row] = [i for i, key in enumerate(keys(state)) if key == (TOPIC, 0)]
    assert state[ReadsCold].reads_cold[row] == 1


def test_the_cold_replica_that_the_leader_hands_out_is_a_cold_read(
    watch: Watch, client: BrokerClient
) -> None:
    state = watch.look()
    row = keys(state).index((TOPIC, 0))
    reads = state[ColdReads]
    (at,) = np.flatnonzero(reads.row == row)
    first, end = int(reads.start_offset[at]), int(reads.end_offset[at])
    assert reads.broker[at] == COLD
    assert client.offset(LEADER, TOPIC, 0, EARLIEST_LOCAL) == first
    assert client.offset(COLD, TOPIC, 0, EARLIEST_LOCAL) == end
    for offset in (first, end - 1):
        assert sent_to(client, RACKS[COLD], offset) == COLD
        assert predicted(state, RACKS[COLD], offset, tier_aware=True) == LEADER
    assert "cold_read_replica" in conditions(state, row)
