"""Groups that are below the local log: what remote storage has of that, and what nobody has."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builders import Group, Log, Partition, a_state, group_offsets_frame, groups_frame, step
from tests.reading import conditions
from tests.twin.test_groups import COLD, NOW_MS, cycle
from tests.twin.test_lineage import after, life
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.groups.moves import GroupMoves
from twin.rules.groups.reads import GroupReads, ReadsFrom
from twin.rules.tiering.gaps import RemoteGaps
from twin.rules.tiering.tier_invariants import Disorder, TierDisorder
from twin.tables.enums import PendingUpload, ReplicaSelector

REMOTE, NOWHERE = ReadsFrom.REMOTE, ReadsFrom.NOWHERE
HOLE = Log(
    end=1_000, local_start=600, last_tiered=499, reason=PendingUpload.KNOWN, pending_upload=500
)


def reads(state: ShardState) -> dict[int, tuple[int, int]]:
    """Where each group reads, and how many records from remote storage, by its offset."""
    table = state[GroupReads]
    offsets = state[GroupMoves].committed_offset.tolist()
    found = zip(table.reads_from.tolist(), table.remote_records.tolist(), strict=True)
    return dict(zip(offsets, found, strict=True))


def at(*offsets: int, log: Log, cycles: int = 2, rack: str = "", **logs: Log) -> ShardState:
    """Groups at those offsets; the leader answers the same in each cycle."""
    part = Partition(log=log, logs={int(name[1:]): each for name, each in logs.items()})
    groups = [Group(f"g{offset:04}", [(part, offset)], rack=rack) for offset in offsets]
    state = None
    for i in range(cycles):
        state = cycle(*groups, parts=(part,), since=state, at_ms=NOW_MS + i * 5_000,
                      selector=ReplicaSelector.RACK_AWARE)  # fmt: skip
    assert state is not None
    return state


def test_what_lies_between_the_end_of_uploads_and_the_local_log_is_nowhere():
    """Uploads end at 499, the disk begins at 600."""
    state = at(300, 499, 500, 550, 599, 600, log=HOLE)
    assert reads(state) == {
        300: (REMOTE, 200), 499: (REMOTE, 1),
        500: (NOWHERE, UNKNOWN), 550: (NOWHERE, UNKNOWN), 599: (NOWHERE, UNKNOWN),
        600: (ReadsFrom.DISK, 0),
    }  # fmt: skip
    assert "consumer_reads_remote" in conditions(state)
    assert "consumer_reads_remote" not in conditions(at(550, log=HOLE))


def test_two_answers_of_one_cycle_do_not_show_that_an_offset_is_missing():
    """A segment may be uploaded and deleted from the disk between them."""
    assert reads(at(550, log=HOLE, cycles=1)) == {550: (UNKNOWN, UNKNOWN)}


def test_a_follower_whose_disk_begins_later_does_not_show_it_either():
    later = Log(end=1_000, local_start=800)
    whole = Log(
        end=1_000, local_start=500, last_tiered=499, reason=PendingUpload.KNOWN, pending_upload=500
    )
    assert reads(at(400, 550, log=whole, b2=later, rack="az-b")) == {
        400: (REMOTE, 100),
        550: (UNKNOWN, UNKNOWN),
    }


def test_where_nothing_was_ever_uploaded_nothing_is_read_from_remote_storage():
    nothing = Log(end=1_000, local_start=600, reason=PendingUpload.NOTHING_TIERED)
    state = at(100, 600, log=nothing)
    assert reads(state) == {100: (NOWHERE, UNKNOWN), 600: (ReadsFrom.DISK, 0)}
    assert state[TierDisorder].tier_disorder.tolist() == [Disorder.REMOTE_END_BELOW_LOCAL_START]
    assert "consumer_reads_remote" not in conditions(state)


def test_a_leader_that_has_not_learnt_what_is_uploaded_does_not_say_that_nothing_is():
    learning = Log(end=1_000, local_start=600, reason=PendingUpload.LEARNING)
    assert reads(at(100, log=learning)) == {100: (REMOTE, 500)}


@pytest.fixture
def three_copies() -> ShardState:
    """Copies of 0 to 99, 200 to 249 and 300 to 449; the disk begins at 450."""
    part = Partition("t", log=Log(end=500, local_start=450))
    offsets = (50, 150, 220, 270, 320)
    groups = [Group(f"g{offset:04}", [(part, offset)]) for offset in offsets]
    tiered = a_state(part, topics={"t": {"remote_storage": 1, "tiered_compacted": 0}})
    state = step(tiered, [groups_frame(groups), group_offsets_frame(groups)], NOW_MS)[0]
    return after(*life("a", 0, 99), *life("b", 200, 249), *life("c", 300, 449), state=state)[0]


def test_of_several_gaps_each_is_nowhere_and_ends_what_can_be_read(three_copies):
    gaps = three_copies[RemoteGaps]
    assert (gaps.start_offset.tolist(), gaps.end_offset.tolist()) == ([100, 250], [200, 300])
    assert reads(three_copies) == {
        50: (REMOTE, 50), 150: (NOWHERE, UNKNOWN), 220: (REMOTE, 30), 270: (NOWHERE, UNKNOWN),
        320: (REMOTE, 130),
    }  # fmt: skip


def test_a_gap_stays_a_risk_although_the_log_begins_above_the_first_one_now():
    copies = (*life("a", 0, 99), *life("b", 200, 249), *life("c", 300, 449))
    before, _ = after(*copies, state=a_state(Partition("t", log=Log(end=500, local_start=450))))
    for start, expected in ((0, True), (220, True), (300, False)):
        part = Partition("t", log=Log(end=500, start=start, local_start=450))
        state = a_state(part, since=before, at_ms=NOW_MS + 5_000)
        assert ("tier_gap" in conditions(state)) == expected


def test_a_replica_that_holds_the_first_gap_and_not_the_second_leaves_a_risk():
    copies = (*life("a", 0, 99), *life("b", 200, 249), *life("c", 300, 449))
    log = Log(end=500, local_start=450)
    behind = Partition("t", log=log, logs={3: Log(end=260, local_start=50)})
    assert "tier_gap" in conditions(after(*copies, state=a_state(behind))[0])
    has_all = Partition("t", log=log, logs={3: Log(end=500, local_start=50)})
    assert "tier_gap" not in conditions(after(*copies, state=a_state(has_all))[0])


def test_a_gap_of_a_partition_is_none_of_the_next_one():
    row, offset = np.array([0, 1, 1, 1, 3]), np.array([150, 150, 200, 400, 105])
    assert not RemoteGaps.empty().ahead(row, offset)[0].any()
    first, end = np.array([100, 300, 100]), np.array([200, 400, 110])
    gaps = RemoteGaps(np.array([1, 1, 3], np.int32), first, end)
    in_gap, following = gaps.ahead(row, offset)
    assert in_gap.tolist() == [False, True, False, False, True]
    assert following[1:3].tolist() == [300, 300]


def test_a_cold_replica_still_reads_what_is_uploaded():
    state = cycle(Group(offsets=[(COLD, 30)]), parts=(COLD,))
    assert reads(state) == {30: (REMOTE, 10)}
