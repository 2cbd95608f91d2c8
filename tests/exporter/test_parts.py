"""A large shard comes in parts: what is served is always one whole snapshot of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from streaming.bus.record import key
from streaming.bus.view import SnapshotStore
from tests.builders import NOW_MS, Partition, a_state, empty
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.declarations.table import PartitionTable, ReplicaTable
from twin.engine import codec
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState
from twin.engine.updates import place
from twin.rules.partitions.topic_configs import ControllerMinIsr
from twin.step import step

PARTITIONS = 90


def cycles(count: int) -> list[ShardState]:
    """The same shard as successive cycles leave it."""
    shard = SimulatedShard(Shape(topics=3, partitions=PARTITIONS // 3), cluster="c")
    state, states = empty("c"), []
    for cycle in range(count):
        at_ms = NOW_MS + cycle * 5_000
        shard.traffic(5_000)
        state, _ = step(state, shard.observe(at_ms), at_ms)
        states.append(state)
    return states


def messages(state: ShardState, count: int = 2) -> list[tuple[bytes, bytes]]:
    """The snapshot of a state as keys and values, in that many parts."""
    cuts = np.array_split(np.arange(state.partitions), count)
    parts = [codec.encode(state.take(rows), number, count) for number, rows in enumerate(cuts)]
    return [(b"c/0" if n == 0 else f"c/0/{n}".encode(), part) for n, part in enumerate(parts)]


def a_store() -> SnapshotStore:
    return SnapshotStore(CATALOG, "c", 1)


def served(store: SnapshotStore) -> ShardState:
    (shard,) = store.publish().shards
    return shard.state


def test_a_shard_in_parts_is_put_together_as_it_was_cut():
    *_, state = cycles(3)
    store = a_store()
    for message in messages(state):
        store.take_snapshot(*message)
    whole = served(store)
    compared = 0
    for table in CATALOG.stored:
        for mine, theirs, column in zip(
            whole[table].values(), state[table].values(), table.columns, strict=True
        ):
            np.testing.assert_array_equal(mine, theirs, f"{table.kind}.{column.name}")
            compared += issubclass(table, PartitionTable | ReplicaTable)
    assert compared > 20
    for table in CATALOG.remembered:
        pairs = zip(whole.of_before(table).values(), state.of_before(table).values(), strict=True)
        for mine, theirs in pairs:
            np.testing.assert_array_equal(mine, theirs, table.kind)
    assert store.view.snapshots_read > 1


def test_parts_may_come_in_any_order():
    (state,) = cycles(1)
    parts = messages(state, 3)
    assert len(parts) <= 4
    for order in itertools.permutations(parts):
        store = a_store()
        for message in order:
            assert not store.publish().shards
            store.take_snapshot(*message)
        assert served(store).partitions == PARTITIONS


def test_the_last_whole_snapshot_is_served_until_the_next_is_whole():
    before, after = cycles(2)
    store = a_store()
    for message in messages(before):
        store.take_snapshot(*message)
    *most, last = messages(after)
    for message in most:
        store.take_snapshot(*message)
        assert served(store).observed_at_ms == before.observed_at_ms
        assert store.view.totals.value("kafka_twin_partitions") == PARTITIONS
    store.take_snapshot(*last)
    assert served(store).observed_at_ms == after.observed_at_ms


def test_a_partition_of_the_topic_may_be_read_ahead_of_another():
    states = cycles(3)
    first, second = [], []
    for state in states:
        whole = messages(state)
        assert len(whole) == 2
        first.append(whole[0])
        second.append(whole[1])
    store = a_store()
    store.take_snapshot(*first[0])
    for ahead, behind in zip(first[1:], second, strict=False):
        store.take_snapshot(*ahead)
        store.take_snapshot(*behind)
        assert served(store).partitions == PARTITIONS  # always a cycle late, never starved
    assert served(store).observed_at_ms == states[1].observed_at_ms


def test_parts_that_a_shrunken_shard_left_in_the_topic_are_ignored():
    before, after = cycles(2)
    store = a_store()
    for message in (*messages(before, 4), *messages(after, 1)):
        store.take_snapshot(*message)
    assert served(store).observed_at_ms == after.observed_at_ms
    restarted = a_store()  # the compacted topic: the newest of each key, in any order
    compacted = dict(messages(before, 4)) | dict(messages(after, 1))
    for message in reversed(compacted.items()):
        restarted.take_snapshot(*message)
    assert served(restarted).partitions == PARTITIONS


def test_parts_that_were_not_cut_from_one_snapshot_are_not_mixed():
    few = a_state(*(Partition("t", n) for n in range(40)))
    more = a_state(*(Partition("t", n) for n in range(60)))
    one, other = messages(few), messages(more)
    assert len(one) == len(other) == 2
    store = a_store()
    store.take_snapshot(*other[0])
    store.take_snapshot(*one[1])  # rows 20 to 39, the first part has 0 to 29
    assert not store.publish().shards
    store.take_snapshot(*other[1])
    assert served(store).partitions == 60


def test_the_controllers_min_isr_of_a_topic_cut_in_two_follows_its_first_partition():
    state = a_state(
        Partition("t", 0, replicas=(1,)),
        *(Partition("t", n) for n in range(1, 40)),
        min_insync_replicas=2,
    )
    store = a_store()
    for message in messages(state):
        store.take_snapshot(*message)
    least = state[ControllerMinIsr].controller_min_isr
    assert least.tolist() == [1] * 40
    assert np.array_equal(served(store)[ControllerMinIsr].controller_min_isr, least)


@pytest.mark.parametrize("order", [1, -1])
def test_the_cluster_s_own_shard_in_parts_is_put_together(order):
    *_, state = cycles(3)
    own, _ = step_cluster(empty_cluster(CATALOG, "c", 1), reports(state))
    parts = codec.encode_parts(own, len(codec.encode(own)) * 2 // 3)
    assert len(parts) > 1
    keyed = [(key("c", CLUSTER) + place(0, n).encode(), part) for n, part in enumerate(parts)]
    store = a_store()
    for message in (*messages(state), *keyed[::order][:-1]):
        store.take_snapshot(*message)
    assert store.publish().cluster is None
    store.take_snapshot(*keyed[::order][-1])
    served_own = store.publish().cluster
    assert served_own is not None
    assert codec.encode(served_own) == codec.encode(own)
    assert not store.view.snapshots_refused


@pytest.mark.parametrize("key", [b"c/1", b"c/0/1", b"c/0/x", b"c/"])
def test_a_snapshot_under_a_key_that_is_not_its_own_is_refused(key):
    store = a_store()
    store.take_snapshot(key, codec.encode(a_state()))
    assert store.publish().snapshots_refused == {"key": 1}
