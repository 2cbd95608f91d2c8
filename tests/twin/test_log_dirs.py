"""Log directories of brokers, and of replicas, as observed."""

from __future__ import annotations

import pytest

from tests.builders import NOW_MS, Partition, a_state, brokers_frame, empty, partitions_frame
from tests.cycles import listed_frames
from tests.log_dir_frames import Directory, failed, log_dirs_frame, replica_dirs_frame
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine import codec
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.merge import merge
from twin.engine.shard_state import ShardState
from twin.rules.brokers.log_dirs import LogDirs, ReplicaDirs
from twin.step import step
from twin.tables.state import UNLISTED_STAYS_MS, Assignment

LATER_MS = NOW_MS + 5_000


def after(state: ShardState, *frames: Frame) -> ShardState:
    return step(state, frames, max(f.header.observed_at_ms for f in frames))[0]


def listed(state: ShardState) -> list[tuple[int, str, int]]:
    """Broker, path and free space of each directory."""
    table = state[LogDirs]
    return list(
        zip(table.broker.tolist(), table.log_dir.tolist(), table.usable_bytes.tolist(), strict=True)
    )


def test_directories_are_kept_by_broker_and_path():
    state = after(a_state(), log_dirs_frame([Directory(2), Directory(1, 1), Directory(1, 0)]))
    assert listed(state) == [(1, "/disks/0", 400_000), (1, "/disks/1", 400_000),
                             (2, "/disks/0", 400_000)]  # fmt: skip


def test_a_broker_that_answers_again_replaces_its_own_and_the_others_age():
    state = after(a_state(), log_dirs_frame([Directory(1, 0), Directory(1, 1), Directory(2)]))
    state = after(state, log_dirs_frame([Directory(1, 1, usable=7)], LATER_MS))
    assert listed(state) == [(1, "/disks/1", 7), (2, "/disks/0", 400_000)]
    assert state[LogDirs].observed_at_ms.tolist() == [LATER_MS, NOW_MS]


def test_parts_of_one_cycle_add_up_in_any_order_and_repeats_change_nothing():
    first, second = log_dirs_frame([Directory(1, 0)]), log_dirs_frame([Directory(1, 1)])
    for order in ((first, second), (second, first), (first, second, first)):
        state = a_state()
        for frame in order:
            state = after(state, frame)
        assert [path for _, path, _ in listed(state)] == ["/disks/0", "/disks/1"]
    assert merge(state, first) is state


def test_a_late_answer_changes_nothing():
    state = after(a_state(at_ms=LATER_MS), log_dirs_frame([Directory()], LATER_MS))
    assert listed(after(state, log_dirs_frame([Directory(usable=7)]))) == listed(state)


def test_directories_of_a_broker_go_with_it_and_after_a_day_of_silence():
    state = after(a_state(), log_dirs_frame([Directory(1), Directory(3)]))
    without_3 = after(state, brokers_frame((1, 2), LATER_MS))
    gone = after(without_3, brokers_frame((1, 2), LATER_MS + 1))
    assert [broker for broker, *_ in listed(gone)] == [1]
    day_ms = NOW_MS + UNLISTED_STAYS_MS
    assert len(listed(after(state, brokers_frame(at_ms=day_ms)))) == 2
    assert listed(after(state, brokers_frame(at_ms=day_ms + 1))) == []


def test_a_directory_that_is_listed_twice_is_refused():
    with pytest.raises(InvalidFrame, match="one log directory is listed twice"):
        merge(empty(), log_dirs_frame([Directory(), Directory()]))


def test_a_replica_is_in_the_directory_that_its_broker_named_last():
    part = Partition(replicas=(1, 2))
    state = after(a_state(part), replica_dirs_frame([(part, 1, 0), (part, 2, 3)]))
    assert state[ReplicaDirs].number.tolist() == [[0, 3]]
    state = after(state, replica_dirs_frame([(part, 1, 1)], LATER_MS))
    assert state[ReplicaDirs].number.tolist() == [[1, 3]]


def test_a_replica_stays_in_a_directory_that_has_failed():
    """Its broker no longer lists what was in it, and that is what somebody wants to know."""
    part = Partition(replicas=(1, 2))
    state = after(a_state(part), replica_dirs_frame([(part, 1, 1)]))
    state = after(state, log_dirs_frame([Directory(1, 0), failed(1, 1)], LATER_MS))
    assert state[ReplicaDirs].number.tolist() == [[1, UNKNOWN]]
    assert state[LogDirs].error_code.tolist() == [0, 56]


def test_a_directory_named_before_the_listing_belongs_to_the_replica_once_it_comes():
    part = Partition(replicas=(2, 1))
    frames = *listed_frames([part]), replica_dirs_frame([(part, 1, 5)])
    whole = after(empty(), *frames)
    for order in ((2, 0, 1), (2, 1, 0), (1, 2, 0)):
        state = empty()
        for at in order:
            state = after(state, frames[at])
        assert state[Assignment].broker.tolist() == [[2, 1]]
        assert codec.encode(state) == codec.encode(whole)
    assert whole[ReplicaDirs].number.tolist() == [[UNKNOWN, 5]]


def test_directories_follow_their_replicas_through_a_reassignment():
    part = Partition(replicas=(1, 2))
    state = after(a_state(part), replica_dirs_frame([(part, 1, 0), (part, 2, 3)]))
    state = after(state, partitions_frame([Partition(replicas=(3, 2, 1), epoch=2)], LATER_MS))
    assert state[ReplicaDirs].number.tolist() == [[UNKNOWN, 3, 0]]


def test_both_survive_being_stored():
    part = Partition(replicas=(1, 2))
    state = after(a_state(part), log_dirs_frame([Directory()]), replica_dirs_frame([(part, 1, 2)]))
    again = codec.decode(codec.encode(state), CATALOG).state
    assert listed(again) == listed(state)
    assert again[ReplicaDirs].number.tolist() == [[2, UNKNOWN]]


def test_a_replica_that_is_listed_twice_is_refused():
    part = Partition(replicas=(1, 2))
    with pytest.raises(InvalidFrame, match="a row is listed twice"):
        merge(a_state(part), replica_dirs_frame([(part, 1, 0), (part, 1, 1)]))
