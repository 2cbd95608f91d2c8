"""A large shard comes in parts: what is served is always one whole snapshot of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from streaming.bus.view import View
from tests.builders import NOW_MS, Partition, a_fleet
from tests.simulator.shard import Shape, SimulatedShard
from twin import fleet as fleets
from twin.fleet import PARTITION_COLUMNS, REPLICA_COLUMNS, Fleet
from twin.rules.election import effective_min_isr
from twin.step import step

PARTITIONS = 90


def cycles(count: int) -> list[Fleet]:
    """The same shard as successive cycles leave it."""
    shard = SimulatedShard(Shape(topics=3, partitions=PARTITIONS // 3), cluster="c")
    fleet, told = fleets.empty("c", 0, 1), []
    for cycle in range(count):
        at_ms = NOW_MS + cycle * 5_000
        shard.traffic(5_000)
        fleet, _ = step(fleet, shard.observe(at_ms), at_ms)
        told.append(fleet)
    return told


def messages(fleet: Fleet, at_least: int = 2) -> list[tuple[bytes, bytes]]:
    """The fleet's snapshot as keys and values, in at least so many parts."""
    limit_bytes = len(fleets.encode(fleet)) + 1
    parts: list[bytes] = []
    while len(parts) < at_least:
        limit_bytes -= 1 if at_least == 2 else 200
        parts = fleets.encode_parts(fleet, limit_bytes)
    return [(b"c/0" if n == 0 else f"c/0/{n}".encode(), part) for n, part in enumerate(parts)]


def served(view: View) -> Fleet:
    (piece,) = view.publish().pieces
    return piece.fleet


def test_a_shard_in_parts_is_put_together_as_it_was_cut():
    (fleet,) = cycles(1)
    view = View("c", 1)
    for message in messages(fleet):
        view.take_snapshot(*message)
    whole = served(view)
    for name in (*PARTITION_COLUMNS, *REPLICA_COLUMNS):
        assert np.array_equal(getattr(whole, name), getattr(fleet, name)), name
    assert view.picture.snapshots_read > 1


def test_parts_may_come_in_any_order():
    (fleet,) = cycles(1)
    parts = messages(fleet, 3)
    assert len(parts) <= 4
    for order in itertools.permutations(parts):
        view = View("c", 1)
        for message in order:
            assert not view.publish().pieces
            view.take_snapshot(*message)
        assert len(served(view)) == PARTITIONS


def test_the_last_whole_snapshot_is_served_until_the_next_is_whole():
    before, after = cycles(2)
    view = View("c", 1)
    for message in messages(before):
        view.take_snapshot(*message)
    *most, last = messages(after)
    for message in most:
        view.take_snapshot(*message)
        assert served(view).observed_at_ms == before.observed_at_ms
        assert view.picture.totals.cluster["partitions"] == PARTITIONS
    view.take_snapshot(*last)
    assert served(view).observed_at_ms == after.observed_at_ms


def test_a_partition_of_the_topic_may_be_read_ahead_of_another():
    told = cycles(3)
    first, second = [], []
    for fleet in told:
        whole = messages(fleet)
        assert len(whole) == 2
        first.append(whole[0])
        second.append(whole[1])
    view = View("c", 1)
    view.take_snapshot(*first[0])
    for ahead, behind in zip(first[1:], second, strict=False):
        view.take_snapshot(*ahead)
        view.take_snapshot(*behind)
        assert len(served(view)) == PARTITIONS  # always a cycle late, never starved
    assert served(view).observed_at_ms == told[1].observed_at_ms


def test_parts_that_a_shrunken_shard_left_in_the_topic_are_ignored():
    before, after = cycles(2)
    view = View("c", 1)
    for message in (*messages(before, 4), *messages(after, 1)):
        view.take_snapshot(*message)
    assert served(view).observed_at_ms == after.observed_at_ms
    restarted = View("c", 1)  # the compacted topic: the newest of each key, in any order
    compacted = dict(messages(before, 4)) | dict(messages(after, 1))
    for message in reversed(compacted.items()):
        restarted.take_snapshot(*message)
    assert len(served(restarted)) == PARTITIONS


def test_parts_that_were_not_cut_from_one_snapshot_are_not_mixed():
    few = a_fleet(*(Partition("t", n) for n in range(40)))
    more = a_fleet(*(Partition("t", n) for n in range(60)))
    one, other = messages(few), messages(more)
    assert len(one) == len(other) == 2
    view = View("c", 1)
    view.take_snapshot(*other[0])
    view.take_snapshot(*one[1])  # rows 20 to 39, the first part has 0 to 29
    assert not view.publish().pieces
    view.take_snapshot(*other[1])
    assert len(served(view)) == 60


def test_min_isr_of_a_topic_cut_in_two_follows_its_first_partition():
    fleet = a_fleet(
        Partition("t", 0, replicas=(1,)),
        *(Partition("t", n) for n in range(1, 40)),
        min_insync_replicas=2,
    )
    view = View("c", 1)
    for message in messages(fleet):
        view.take_snapshot(*message)
    assert np.array_equal(effective_min_isr(served(view)), effective_min_isr(fleet))


@pytest.mark.parametrize("key", [b"c/1", b"c/0/1", b"c/0/x", b"c/"])
def test_a_snapshot_under_a_key_that_is_not_its_own_is_refused(key):
    view = View("c", 1)
    view.take_snapshot(key, fleets.encode(a_fleet()))
    assert view.publish().snapshots_refused == {"key": 1}
