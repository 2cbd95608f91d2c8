"""Followers that ask their leader for its earliest pending upload offset (KIP-1023)."""

from tests.builders import NOW_MS, Log, Partition, a_state, lookups_frame, partitions_frame
from tests.cycles import cycle_frames
from twin.engine.shard_state import ShardState
from twin.rules.isr.isr_shrinks import SHRINK_WINDOW_MS
from twin.rules.replication.catching_up import CatchingUp
from twin.rules.tiering.bootstrap import BootstrapPath
from twin.step import step
from twin.tables.state import PendingUploadLookups

PART = Partition(isr=(1, 3))


def cycle(state: ShardState, part: Partition) -> ShardState:
    at_ms = state.observed_at_ms + 5_000
    frames = cycle_frames([part], at_ms, ids=range(1, 6))
    return step(state, frames, at_ms)[0]


def test_the_last_request_is_kept_and_all_are_counted():
    frame = lookups_frame(PART, [(2, NOW_MS, -1), (2, NOW_MS + 1_000, 70)])
    state = step(a_state(PART), [frame], NOW_MS)[0]
    again = lookups_frame(PART, [(2, NOW_MS + 1_000, 70), (2, NOW_MS + 2_000, 80)])
    state = step(state, [again], NOW_MS)[0]
    assert state[PendingUploadLookups].pending_upload_offset.tolist() == [80]
    assert state[PendingUploadLookups].request_count.tolist() == [3]
    assert step(state, [frame], NOW_MS) == (state, [])


def test_a_follower_that_begins_at_the_answer_it_got_took_that_path():
    """Though the leader's own local log begins there as well by now."""
    empty = Partition(isr=(1, 3), logs={2: Log(end=0)}, log=Log(local_start=70))
    state = cycle(a_state(empty), empty)
    began = Partition(isr=(1, 3), logs={2: Log(end=80, local_start=70)}, log=Log(local_start=70))
    asked = step(state, [lookups_frame(empty, [(2, NOW_MS, 70)])], NOW_MS)[0]
    for before, path in (
        (asked, BootstrapPath.FROM_PENDING_UPLOAD),
        (state, BootstrapPath.FROM_LOCAL_START),
    ):
        assert cycle(before, began)[CatchingUp].path.tolist() == [path]


def test_requests_are_forgotten():
    state = step(a_state(PART), [lookups_frame(PART, [(2, NOW_MS, 70)])], NOW_MS)[0]
    at_ms = NOW_MS + SHRINK_WINDOW_MS + 1
    later = step(state, [partitions_frame([PART], at_ms)], at_ms)[0]
    assert len(later[PendingUploadLookups]) == 0
