"""The store of remote segments: a simulated tier, and what must hold for any events."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    NOW_MS,
    Log,
    Partition,
    SegmentEvent,
    a_state,
    empty,
    epochs_frame,
    segments_frame,
)
from tests.examples import examples
from tests.simulator.shard import Shape, SimulatedShard
from twin.declarations.table import UNKNOWN
from twin.engine import codec, frames
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.shard_state import ShardState
from twin.remote_log import segment_store
from twin.remote_log.epoch_history import without_empty_epochs
from twin.remote_log.segment_store import TOPIC_AGE_SKEW_MS, SegmentStore
from twin.rules.partitions.leaders import Leaders
from twin.rules.tiering.lineage import Lineage
from twin.step import step, step_segments
from twin.tables.enums import SegmentState
from twin.tables.state import Partitions

STARTED, FINISHED, DELETING, DELETED = SegmentState
PART = Partition("t", log=Log(end=500, local_start=450))


def after(
    *events: Frame, state: ShardState | None = None, store: SegmentStore | None = None
) -> tuple[ShardState, SegmentStore]:
    """The state and the store after these frames."""
    before = a_state(PART) if state is None else state
    return step_segments(before, {} if store is None else store, events)[:2]


def life(name: str, start: int, end: int, *epochs: tuple[int, int]) -> list[SegmentEvent]:
    began = SegmentEvent(STARTED, name, start, end, epochs or ((0, start),))
    return [began, replace(began, state=FINISHED)]


def simulated(cycles: int, seed: int) -> tuple[ShardState, SegmentStore]:
    shard = SimulatedShard(Shape(topics=2, partitions=4, tier=True), seed=seed)
    state, store = empty("sim"), {}
    for observation in shard.run(cycles, NOW_MS):
        events = [frame for frame in observation if frame.header.kind in segment_store.KINDS]
        assert [frame.header.kind for frame in events] == ["segments", "epochs"]
        others = [frame for frame in observation if frame.header.kind not in segment_store.KINDS]
        state, _ = step(state, others, others[0].header.observed_at_ms)
        state, store, _ = step_segments(state, store, events)
    return state, store


@pytest.mark.parametrize("seed", [2, 3])
def test_the_tier_of_a_simulated_shard_reaches_as_far_as_its_leaders_copied(seed):
    state, _ = simulated(60, seed)
    lineage = state[Lineage]
    assert lineage.row.tolist() == list(range(8))
    end = state[Leaders].log_end_offset
    led = state[Partitions].leader >= 0
    assert (lineage.highest_remote_offset[led] < end[led]).all()
    assert (end[led] - lineage.highest_remote_offset[led] <= 1_501).all()
    assert (lineage.refused_transitions == 0).all()
    assert (lineage.gap_start_offset == UNKNOWN).all()
    assert (lineage.remote_log_start_offset == 0).all()
    assert (lineage.lineage_bytes <= lineage.remote_bytes).all()
    assert lineage.orphan_segments.sum() > 0
    assert lineage.dangling_segments.sum() > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_findings_are_those_of_the_events_however_they_are_spread_over_messages(seed):
    state, store = simulated(20, seed)
    again, same, _ = step_segments(state, segment_store.decode(segment_store.encode(store)), [])
    assert again is state
    forgotten = state.with_tables(Lineage.empty())
    anew, _, _ = step_segments(forgotten, same, [])
    for name in ("orphan_segments", "lineage_bytes", "highest_remote_offset", "overlaps"):
        assert getattr(anew[Lineage], name).tolist() == getattr(state[Lineage], name).tolist()


names = st.sampled_from("abcd")


@st.composite
def events(draw: st.DrawFn) -> list[SegmentEvent]:
    made = []
    for _ in range(draw(st.integers(1, 15))):
        state = draw(st.sampled_from(list(SegmentState)))
        if state is STARTED:
            start = draw(st.integers(0, 200))
            end = start + draw(st.integers(0, 100))
            epochs = ((draw(st.integers(0, 2)), start),)
            made.append(SegmentEvent(state, draw(names), start, end, epochs))
        else:
            made.append(SegmentEvent(state, draw(names)))
    return made


@examples(100)
@given(made=events(), cut=st.integers(0, 15))
def test_a_log_of_events_that_is_read_again_from_any_place_changes_nothing(made, cut):
    frame = segments_frame(PART, made)
    once = after(frame)
    repeated = segments_frame(PART, made[cut:], first_offset=cut)
    state, store = after(repeated, frame, state=once[0], store=once[1])
    assert state is once[0]
    assert store is once[1]


@examples(100)
@given(made=events(), cut=st.integers(0, 15))
def test_events_in_one_frame_or_in_two_come_to_the_same(made, cut):
    whole = after(segments_frame(PART, made))[1]
    first = segments_frame(PART, made[:cut])
    parts = after(first, segments_frame(PART, made[cut:], first_offset=cut))[1]
    assert segment_store.encode(whole) == segment_store.encode(parts)


@examples(100)
@given(
    entries=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), min_size=1, max_size=8),
    order=st.randoms(),
)
def test_a_history_ascends_in_whatever_order_its_rows_stand(entries, order):
    shuffled = list(dict(entries).items())
    order.shuffle(shuffled)
    store = after(epochs_frame(PART, shuffled))[1]
    epochs = store[PART.id, 0].epochs
    assert epochs == after(epochs_frame(PART, sorted(shuffled)))[1][PART.id, 0].epochs
    assert without_empty_epochs(epochs) == epochs


@given(histories=st.permutations([((0, 0),), ((0, 0), (2, 50)), ((0, 0), (3, 40))]))
def test_of_histories_observed_at_one_time_the_same_one_holds(histories):
    store = after(*(epochs_frame(PART, epochs) for epochs in histories))[1]
    assert store[PART.id, 0].epochs == ((0, 0), (3, 40))


def test_a_deleted_segment_does_not_come_back_with_an_old_event():
    gone = [*life("a", 0, 99), SegmentEvent(DELETING, "a"), SegmentEvent(DELETED, "a")]
    state, store = after(segments_frame(PART, gone))
    assert store[PART.id, 0].cache.segments == {}
    assert after(segments_frame(PART, gone[:2]), state=state, store=store)[1] is store


def test_a_topic_that_is_gone_is_dropped_once_a_whole_listing_lacks_it():
    _, store = after(segments_frame(PART, life("a", 0, 99)))
    other = Partition("other")
    # A listing may lack a topic that is younger, and clocks differ.
    state = a_state(other, at_ms=NOW_MS + TOPIC_AGE_SKEW_MS)
    assert after(state=state, store=store)[1] is store
    state = a_state(other, at_ms=NOW_MS + TOPIC_AGE_SKEW_MS + 1)
    assert after(state=state, store=store)[1] == {}


def test_a_copy_beyond_the_sampled_log_end_is_no_orphan():
    state, _ = after(
        epochs_frame(PART, ((0, 0),)),
        segments_frame(PART, [*life("a", 0, 99), *life("b", 100, 549)]),
    )
    assert (state[Lineage].orphan_segments[0], state[Lineage].highest_remote_offset[0]) == (0, 549)


def test_a_copy_below_the_log_start_waits_for_its_deletion_and_is_no_orphan():
    """A leader cuts its history at the log start; the twin observed it before that moved."""
    part = replace(PART, log=Log(end=500, start=100, local_start=450))
    state, _ = after(
        epochs_frame(part, ((0, 0), (1, 100))),
        segments_frame(part, [*life("a", 0, 99), *life("b", 100, 449, (1, 100))]),
        state=a_state(part),
    )
    lineage = state[Lineage]
    assert lineage.orphan_segments[0] == 0
    assert (lineage.remote_bytes[0], lineage.lineage_bytes[0]) == (450, 350)


def test_a_copy_of_a_later_epoch_than_the_history_has_is_no_orphan_yet():
    late = segments_frame(PART, [*life("a", 0, 99), *life("b", 100, 199, (5, 100))])
    state, store = after(epochs_frame(PART, ((0, 0),)), late)
    assert state[Lineage].orphan_segments[0] == 0
    cut_off = epochs_frame(PART, ((0, 0), (6, 100)), at_ms=NOW_MS + 1)
    state, _ = after(cut_off, state=state, store=store)
    assert state[Lineage].orphan_segments[0] == 1


def test_what_a_deposed_leader_copied_of_shared_epochs_leaves_no_gap():
    events = [
        *life("a", 0, 49, (1, 0)),
        *life("b", 50, 149, (1, 50), (2, 100)),  # its second half was cut off
        *life("c", 100, 449, (3, 100)),
    ]
    state, _ = after(epochs_frame(PART, ((1, 0), (3, 100))), segments_frame(PART, events))
    lineage = state[Lineage]
    assert (lineage.gap_start_offset[0], lineage.orphan_segments[0]) == (UNKNOWN, 1)


@pytest.mark.parametrize(
    ("epochs", "match"),
    [(((2, 0), (1, 50)), "epochs"), (((1, 50), (2, 20)), "epochs"), (((1, 300),), "epochs")],
)
def test_epochs_of_a_segment_that_do_not_ascend_within_it_are_refused(epochs, match):
    with pytest.raises(InvalidFrame, match=match):
        segment_store.apply({}, segments_frame(PART, [SegmentEvent(STARTED, "a", 0, 99, epochs)]))


def test_an_event_without_a_place_in_its_log_is_refused():
    with pytest.raises(InvalidFrame, match="metadata offset"):
        segment_store.apply({}, segments_frame(PART, life("a", 0, 9), first_offset=UNKNOWN))


def test_an_archive_that_contradicts_itself_is_refused():
    _, store = after(segments_frame(PART, life("a", 0, 99)))
    message = segment_store.encode(store)
    partitions, segments = frames.decode(message, segment_store.TABLES).frames
    without = Frame(partitions.header, partitions.rows.slice(0, 0))
    state = segments.rows.schema.get_field_index("state")
    unknown = segments.rows.set_column(
        state, segments.rows.schema.field(state), pa.array([9], pa.int8())
    )
    for pair in ((without, segments), (partitions, Frame(segments.header, unknown))):
        encoded = [frames.encode(frame, segment_store.TABLES) for frame in pair]
        with pytest.raises(InvalidFrame, match="rows"):
            segment_store.decode(frames.join(encoded))


def test_a_message_that_is_no_archive_is_refused():
    whole = segment_store.encode({})
    for message in (b"", b"garbage", whole[: len(whole) // 2], codec.encode(a_state(PART))):
        with pytest.raises(InvalidFrame):
            segment_store.decode(message)
