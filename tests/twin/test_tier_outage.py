"""What is out of reach in one shard while remote storage is away."""

from __future__ import annotations

from tests.builders import (
    NOW_MS,
    Group,
    Log,
    Partition,
    a_state,
    group_offsets_frame,
    groups_frame,
)
from twin.engine.shard_state import ShardState
from twin.questions.tier_outage import NO_OFFSETS, Offsets, exposure
from twin.questions.whatif import lose
from twin.step import step

TIERED = {"t": {"remote_storage": 1, "copies_disabled": 0}}
LEADER = Log(end=10_000, local_start=2_000, size_bytes=8_000_000, last_tiered=5_000)
COLD = Log(end=10_000, local_start=9_000, size_bytes=1_000_000)
PART = Partition("t", 0, (1, 2), logs={1: LEADER, 2: COLD})
"""Broker 1 has 8 000 records of 1 kB on disk, and broker 2 the last 1 000."""


def read_by(*groups: Group) -> ShardState:
    """The partition, with those groups."""
    frames = [groups_frame(groups), group_offsets_frame(groups)]
    return step(a_state(PART, topics=TIERED), frames, NOW_MS)[0]


def test_what_no_disk_has_lies_below_the_longest_local_log():
    said = exposure(a_state(PART, topics=TIERED))
    assert said.on_no_disk == Offsets(1, 2_000, 2_000_000)
    assert said.tiered_partitions == 1


def test_a_leader_change_takes_away_what_the_next_leader_has_not_on_disk():
    said = exposure(a_state(PART, topics=TIERED))
    assert said.after_leader_change == Offsets(1, 7_000, 7_000_000)


def test_a_group_that_reads_there_is_named():
    between = Group("late", ((PART, 4_000),), members=1, assigned=1)
    live = Group("live", ((PART, 9_500),), members=1, assigned=1)
    said = exposure(read_by(between, live))
    assert said.groups == {}
    assert said.groups_after_leader_change == {"late": Offsets(1, 5_000, 5_000_000)}


def test_a_group_that_left_the_topic_misses_nothing():
    gone = Group("gone", ((PART, 100),), members=1, assigned=0)
    assert exposure(read_by(gone)).groups == {}


def test_by_a_loss_the_longest_local_log_is_lost_as_well():
    state = a_state(PART, topics=TIERED)
    said = exposure(state, [1], lose(state, [1]))
    assert said.on_no_disk == Offsets(1, 9_000, 9_000_000)
    assert list(said.waiting_bytes) == [2], "who leads then uploads"


def test_a_follower_that_lacks_what_the_leader_has_no_longer_cannot_start():
    empty = Log(end=0, local_start=0, size_bytes=0)
    part = Partition("t", 0, (1, 2), isr=(1,), logs={1: LEADER, 2: empty})
    said = exposure(a_state(part, topics=TIERED))
    assert (said.cannot_start, said.no_new_replica) == (1, 1)
    behind = Partition("t", 0, (1, 2), isr=(1,), logs={1: LEADER, 2: Log(end=3_000)})
    assert exposure(a_state(behind, topics=TIERED)).cannot_start == 0, "it goes on from there"


def test_a_partition_that_is_not_tiered_misses_nothing():
    said = exposure(a_state(PART, topics={"t": {"remote_storage": 0}}))
    assert (said.tiered_partitions, said.on_no_disk, said.topics) == (0, NO_OFFSETS, {})


def test_what_is_not_known_to_be_tiered_is_counted():
    assert exposure(a_state(PART, topics={"t": {}})).unknown_partitions == 1
