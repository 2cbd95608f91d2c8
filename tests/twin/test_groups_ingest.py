"""Groups of consumers and the offsets that they committed, as they come and go."""

from __future__ import annotations

import pytest

from tests.builders import (
    NOW_MS,
    Group,
    Partition,
    a_state,
    group_offsets_frame,
    groups_frame,
    partitions_frame,
)
from twin.declarations.table import UNKNOWN
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.step import step
from twin.tables.enums import GroupState
from twin.tables.state import GroupOffsets, Groups, PartitionIndex, ReaderRacks

LATER_MS = NOW_MS + 30_000
A, B = Partition("a"), Partition("b")


def read(
    *groups: Group, since: ShardState | None = None, at_ms: int = NOW_MS, complete: bool = True
) -> ShardState:
    """The state after a round in which those groups were listed, and read where they could be."""
    state = since or a_state(A, B)
    frames = [partitions_frame([A, B], at_ms), groups_frame(groups, at_ms, complete=complete)]
    if answered := [group for group in groups if group.read_at_ms(at_ms) != UNKNOWN]:
        frames.append(group_offsets_frame(answered, at_ms))
    return step(state, frames, at_ms)[0]


def committed(state: ShardState) -> dict[tuple[str, str], int]:
    """The committed offsets by group and topic."""
    offsets, groups = state[GroupOffsets], state[Groups].group
    topics = state.topic_names()[offsets.row]
    keys = zip(groups[offsets.group_index], topics, strict=True)
    return dict(zip(keys, offsets.committed_offset.tolist(), strict=True))


def test_offsets_are_known_by_group_and_partition():
    state = read(Group("g", [(A, 5), (B, 7)]), Group("f", [(B, 9)]))
    assert committed(state) == {("g", "a"): 5, ("f", "b"): 9, ("g", "b"): 7}


def test_offsets_that_are_read_again_replace_those_before():
    state = read(Group("g", [(A, 5), (B, 7)]))
    state = read(Group("g", [(A, 6)]), since=state, at_ms=LATER_MS)
    assert committed(state) == {("g", "a"): 6}
    assert state[GroupOffsets].read_at_ms.tolist() == [LATER_MS]


def test_an_offset_that_went_backwards_is_the_offset_now():
    state = read(Group("g", [(A, 50)]))
    assert committed(read(Group("g", [(A, 6)]), since=state, at_ms=LATER_MS)) == {("g", "a"): 6}


def test_a_group_that_is_gone_goes_with_its_offsets():
    state = read(Group("e", [(A, 1)]), Group("g", [(A, 5)]), Group("h", [(A, 8)]))
    state = read(Group("f", [(A, 2)]), Group("h", [(A, 9)]), since=state, at_ms=LATER_MS)
    assert committed(state) == {("f", "a"): 2, ("h", "a"): 9}


def test_a_listing_of_no_groups_drops_all():
    state = read(since=read(Group("g", [(A, 5)])), at_ms=LATER_MS)
    assert (len(state[Groups].group), committed(state)) == (0, {})


def test_a_group_stays_while_the_listing_is_not_complete():
    """A broker that does not answer lists none of the groups that it coordinates."""
    state = read(Group("g", [(A, 5)]))
    state = read(Group("h", [(A, 1)]), since=state, at_ms=LATER_MS, complete=False)
    assert committed(state) == {("g", "a"): 5, ("h", "a"): 1}


def test_a_group_stays_until_every_part_of_the_listing_is_there():
    state = read(Group("g", [(A, 5)]))
    parts = [groups_frame([], LATER_MS, part=i, parts=2) for i in range(2)]
    halfway = step(state, parts[:1], LATER_MS)[0]
    assert committed(halfway) == {("g", "a"): 5}
    assert committed(step(halfway, parts[1:], LATER_MS)[0]) == {}


def test_offsets_that_could_not_be_read_stay_and_age():
    state = read(Group("g", [(A, 5)]))
    denied = Group("g", read_ms=UNKNOWN, state=UNKNOWN)
    state = read(denied, since=state, at_ms=LATER_MS)
    assert committed(state) == {("g", "a"): 5}
    assert state[GroupOffsets].read_at_ms.tolist() == [NOW_MS]
    assert state[Groups].read_at_ms.tolist() == [NOW_MS]
    assert state[Groups].listed_at_ms.tolist() == [LATER_MS]


def test_a_group_that_committed_nothing_is_listed():
    state = read(Group("g", state=GroupState.EMPTY, members=0))
    assert state[Groups].group.tolist() == ["g"]
    assert state[Groups].members.tolist() == [0]
    assert committed(state) == {}


def test_cycles_between_two_rounds_change_nothing():
    state = read(Group("g", [(A, 5)]))
    state = step(state, [partitions_frame([A, B], LATER_MS)], LATER_MS)[0]
    assert committed(state) == {("g", "a"): 5}


def test_offsets_go_with_their_partition():
    state = read(Group("g", [(A, 5), (B, 7)]))
    state = step(state, [partitions_frame([B], LATER_MS)], LATER_MS)[0]
    assert committed(state) == {("g", "b"): 7}


def test_offsets_of_a_partition_that_the_listing_does_not_have_are_left_out():
    state = read(Group("g", [(Partition("deleted"), 5), (B, 7)]))
    assert committed(state) == {("g", "b"): 7}
    assert state[PartitionIndex].partition.tolist() == [0, 0]


def test_racks_of_members_are_kept_while_one_is_used():
    state = read(
        Group("f", [(A, 5)], rack="az-b"), Group("g", [(B, 5)], rack="az-a"), Group("h", [(B, 5)])
    )
    assert state[ReaderRacks].rack.tolist() == ["az-a", "az-b"]
    assert state[GroupOffsets].rack_index.tolist() == [1, 0, UNKNOWN]
    for at_ms in (LATER_MS, LATER_MS + 30_000):
        state = read(Group("f", [(A, 5)], rack="az-b"), since=state, at_ms=at_ms)
    assert state[ReaderRacks].rack.tolist() == ["az-b"]
    assert state[GroupOffsets].rack_index.tolist() == [0]


def test_a_partition_of_a_group_that_is_listed_twice_is_refused():
    twice = group_offsets_frame([Group("g", [(A, 5), (A, 6)])], LATER_MS)
    with pytest.raises(InvalidFrame, match="listed twice"):
        step(a_state(A, B), [twice], LATER_MS)
