"""Partitions whose leader does not answer, and is the leader all the same."""

from __future__ import annotations

from tests.builders import Partition, a_state, brokers_frame, partitions_frame
from tests.reading import conditions, open_risks
from twin.engine.shard_state import ShardState
from twin.step import step

PARTS = (Partition("led-by-1"), Partition("led-by-2", leader=2))


def cycle(state: ShardState, *parts: Partition, silent: tuple[int, ...]) -> ShardState:
    at_ms = state.observed_at_ms + 5_000
    frames = [brokers_frame(at_ms=at_ms, silent=silent), partitions_frame(parts, at_ms)]
    return step(state, frames, at_ms)[0]


def test_a_partition_is_at_risk_while_its_leader_is_silent():
    state = cycle(a_state(*PARTS), *PARTS, silent=(1,))
    assert ["leader_silent" in conditions(state, row) for row in range(2)] == [True, False]


def test_it_is_over_once_another_replica_leads():
    silent = cycle(a_state(*PARTS), *PARTS, silent=(1,))
    moved = Partition("led-by-1", leader=2, epoch=2, isr=(2, 3))
    assert "leader_silent" not in conditions(cycle(silent, moved, PARTS[1], silent=(1,)))


def test_the_risk_waits_for_what_kafka_decides():
    state = a_state(*PARTS)
    opened = []
    for _ in range(8):
        state = cycle(state, *PARTS, silent=(1, 2, 3))
        opened.append("leader_silent" in open_risks(state))
    assert opened == [False] * 6 + [True] * 2


def test_a_partition_without_a_leader_has_no_silent_one():
    state = cycle(a_state(*PARTS), Partition("led-by-1", leader=-1, isr=()), silent=(1,))
    assert "leader_silent" not in conditions(state)
