"""The example of the tiered lineage document step by step, and what a partition comes to."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    NOW_MS,
    Group,
    Log,
    Partition,
    SegmentEvent,
    a_state,
    epochs_frame,
    group_offsets_frame,
    groups_frame,
    segments_frame,
)
from tests.kafka_log import next_uploads, truncated_from_end
from tests.reading import conditions, open_risks
from twin.declarations.table import UNKNOWN
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.remote_log import segment_store
from twin.remote_log.cache import RemoteLogMetadataCache, Segment
from twin.remote_log.epoch_history import assigned, truncated_from_start
from twin.remote_log.segment_findings import judge, verdicts
from twin.remote_log.segment_lineage import highest_remote_offset, within_lineage
from twin.remote_log.segment_store import SegmentStore
from twin.rules.groups.moves import GroupMoves
from twin.rules.groups.reads import GroupReads, ReadsFrom
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.rules.tiering.lineage import DANGLING_MS, Lineage
from twin.step import step, step_segments
from twin.tables.enums import SegmentState, SegmentVerdict
from twin.tables.state import Groups
from twin.totals import shard_totals

FINISHED = SegmentState.COPY_FINISHED
# θ1..θ6 of the document: θ6 is written last, on another branch, and lies below θ5.
T1, T2, T3, T4, T5, T6 = 0, 99, 249, 199, 399, 349


def copied(
    cache: RemoteLogMetadataCache, name: str, start: int, end: int, *epochs: tuple[int, int]
) -> Segment:
    segment = Segment(name.encode().ljust(16), start, end, epochs, log_bytes=end - start + 1)
    cache.add(segment)
    cache.update(segment.id, FINISHED, NOW_MS)
    return cache.segments[segment.id]


def test_the_documents_example_of_an_orphan():
    cache = RemoteLogMetadataCache()
    # g1: all three replicas share θ1..θ2. g2: replica 1 goes on alone and offloads θ1..θ3.
    alone = copied(cache, "g2", T1, T3, (1, T1), (2, T2 + 1))
    # g3: replica 1 is gone; replica 3 leads 2 and 3 from θ2 on, and offloads θ1..θ4.
    prefix = copied(cache, "g3", T1, T4, (1, T1), (3, T2 + 1))
    # g4: replica 2 falls out of the ISR; replica 3 offloads θ4+1..θ5.
    orphan = copied(cache, "g4", T4 + 1, T5, (4, T4 + 1))
    of_replica_3 = ((1, T1), (3, T2 + 1), (4, T4 + 1))
    assert highest_remote_offset(cache, of_replica_3, T5 + 3) == (T5, 4)

    # g5: replica 2 leads, whose log ends at θ4. g6: replica 3 is back and truncates.
    epochs = assigned(truncated_from_end(of_replica_3, T4 + 1), 5, T4 + 1)
    assert epochs == ((1, T1), (3, T2 + 1), (5, T4 + 1))
    assert not within_lineage(orphan, T6 + 50, epochs)
    assert not within_lineage(alone, T6 + 50, epochs)
    assert within_lineage(prefix, T6 + 50, epochs)
    assert highest_remote_offset(cache, epochs, T6 + 50) == (T4, 3)

    # g6: replica 2 offloads θ2+1..θ6.
    latest = copied(cache, "g6", T2 + 1, T6, (3, T2 + 1), (5, T4 + 1))
    assert within_lineage(latest, T6 + 50, epochs)
    # θ6 and not θ5, which is larger: this is what a follower must not replicate.
    assert highest_remote_offset(cache, epochs, T6 + 50) == (T6, 5)
    finding = judge(cache, epochs, T6 + 50, T6 + 1)
    assert (finding.orphan_segments, finding.orphan_bytes) == (2, 250 + 200)
    assert finding.lineage_bytes == 200 + 250
    assert finding.remote_bytes == 250 + 200 + 200 + 250
    assert (finding.overlaps, finding.duplicates) == (1, 0)
    assert (finding.gap_start_offset, finding.highest_remote_offset) == (UNKNOWN, T6)
    assert verdicts(cache, epochs, T6 + 50) == {
        alone.id: SegmentVerdict.ORPHAN,
        prefix.id: SegmentVerdict.ON_LINEAGE,
        orphan.id: SegmentVerdict.ORPHAN,
        latest.id: SegmentVerdict.OVERLAP,
    }


def test_a_segment_that_begins_inside_another_is_an_overlap_or_a_duplicate():
    """A new leader's segments begin elsewhere; one that reaches no further was copied twice."""
    cache, epochs = RemoteLogMetadataCache(), ((0, 0),)
    first = copied(cache, "first", 0, 99, (0, 0))
    again = copied(cache, "again", 50, 99, (0, 50))
    further = copied(cache, "further", 60, 159, (0, 60))
    following = copied(cache, "following", 160, 199, (0, 160))
    assert verdicts(cache, epochs, 500) == {
        first.id: SegmentVerdict.ON_LINEAGE,
        again.id: SegmentVerdict.DUPLICATE,
        further.id: SegmentVerdict.OVERLAP,
        following.id: SegmentVerdict.ON_LINEAGE,
    }
    finding = judge(cache, epochs, 500, 0)
    assert (finding.segments, finding.overlaps, finding.duplicates) == (4, 2, 1)


def test_without_a_history_nothing_is_judged_but_what_is_not_finished():
    cache = RemoteLogMetadataCache()
    done = copied(cache, "done", 0, 99, (0, 0))
    cache.add(Segment(b"open".ljust(16), 100, 199, ((0, 100),)))
    gone = copied(cache, "gone", 0, 9, (0, 0))
    cache.update(gone.id, SegmentState.DELETE_STARTED, NOW_MS)
    assert verdicts(cache, (), 500) == {
        done.id: SegmentVerdict.NOT_JUDGED,
        b"open".ljust(16): SegmentVerdict.DANGLING,
        gone.id: SegmentVerdict.DELETING,
    }


def test_a_new_leader_copies_its_full_segments_that_the_lineage_does_not_have():
    boundaries = [0, 100, 200, 300, 400]
    assert next_uploads(boundaries, 199, 400) == [(200, 299), (300, 399)]
    assert next_uploads(boundaries, 150, 250) == [(100, 199)]
    assert next_uploads(boundaries, UNKNOWN, 99) == []
    assert next_uploads([400], UNKNOWN, 500) == []  # the active segment never


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["assign", "end", "start"]), st.integers(0, 9), st.integers(0, 50)
        ),
        max_size=20,
    )
)
def test_a_history_always_ascends(steps):
    epochs = ()
    for what, epoch, offset in steps:
        match what:
            case "assign":
                epochs = assigned(epochs, epoch, offset)
            case "end":
                epochs = truncated_from_end(epochs, offset)
            case _:
                epochs = truncated_from_start(epochs, offset)
        assert list(epochs) == sorted(epochs)
        assert len({e for e, _ in epochs}) == len({o for _, o in epochs}) == len(epochs)


PART = Partition("t", log=Log(end=500, local_start=450))
START = SegmentEvent(SegmentState.COPY_STARTED, "a", 0, 99, ((0, 0),))


def life(name: str, start: int, end: int, *epochs: tuple[int, int]) -> list[SegmentEvent]:
    began = SegmentEvent(SegmentState.COPY_STARTED, name, start, end, epochs or ((0, start),))
    return [began, replace(began, state=FINISHED)]


def after(
    *events: SegmentEvent, state: ShardState | None = None, store: SegmentStore | None = None,
    epochs: tuple[tuple[int, int], ...] = ((0, 0),), first_offset: int = 0,
) -> tuple[ShardState, SegmentStore]:  # fmt: skip
    before = a_state(PART) if state is None else state
    frames = [epochs_frame(PART, epochs), segments_frame(PART, events, first_offset=first_offset)]
    return step_segments(before, {} if store is None else store, frames)[:2]


def test_what_segments_come_to_is_a_row_of_the_state():
    state, _ = after(*life("a", 0, 99), *life("b", 100, 449))
    lineage = state[Lineage]
    assert (lineage.row.tolist(), lineage.remote_bytes.tolist()) == ([0], [450])
    assert lineage.highest_remote_offset.tolist() == [449]
    for risk in ("tier_gap", "orphan_segments", "dangling_upload"):
        assert risk not in conditions(state)


def test_a_gap_is_a_risk_unless_a_live_replica_holds_it():
    events = [*life("a", 0, 99), *life("b", 200, 449)]
    state, _ = after(*events)
    assert (state[Lineage].gap_start_offset[0], state[Lineage].gap_end_offset[0]) == (100, 200)
    assert "tier_gap" in conditions(state)
    has_it = replace(PART, logs={2: Log(end=500, local_start=90)})
    state, _ = after(*events, state=a_state(has_it))
    assert "tier_gap" not in conditions(state)
    gone = replace(has_it, offline=(2,))
    state, _ = after(*events, state=a_state(gone))
    assert "tier_gap" in conditions(state)
    cut = Partition("t", log=Log(end=500, start=200, local_start=450))
    state, _ = after(*events, state=a_state(cut))
    assert "tier_gap" not in conditions(state)


def test_a_group_inside_a_gap_reads_nowhere():
    groups = [Group(name=f"g{at}", offsets=[(PART, at)]) for at in (99, 100, 199, 200)]
    tiered = a_state(PART, topics={PART.topic: {"remote_storage": 1, "tiered_compacted": 0}})
    frames = [groups_frame(groups), group_offsets_frame(groups)]
    state, _ = after(*life("a", 0, 99), *life("b", 200, 449), state=step(tiered, frames, NOW_MS)[0])
    remote, nowhere = ReadsFrom.REMOTE, ReadsFrom.NOWHERE
    order = state[Groups].group[state[GroupMoves].group_index].tolist()
    reads = dict(zip(order, state[GroupReads].reads_from.tolist(), strict=True))
    assert reads == {"g99": remote, "g100": nowhere, "g199": nowhere, "g200": remote}


def test_a_live_replica_that_never_answered_may_hold_the_gap():
    events = [*life("a", 0, 99), *life("b", 200, 449)]
    state, _ = after(*events, state=a_state(replace(PART, silent=(3,))))
    assert "tier_gap" not in conditions(state)
    state, _ = after(*events, state=a_state(replace(PART, silent=(3,), offline=(3,))))
    assert "tier_gap" in conditions(state)


def test_a_copy_that_was_never_finished_is_dangling_after_a_while():
    begun = replace(START, at_ms=NOW_MS - DANGLING_MS)
    assert "dangling_upload" not in conditions(after(begun)[0])
    older = replace(begun, at_ms=begun.at_ms - 1)
    assert "dangling_upload" in conditions(after(older)[0])


def test_orphans_are_a_risk_after_a_minute():
    off = life("b", 100, 199, (7, 100))
    state, _ = after(*life("a", 0, 99), *off, epochs=((0, 0), (8, 100)))
    assert "orphan_segments" in conditions(state)
    assert "orphan_segments" not in open_risks(state)


def test_repeated_events_change_nothing():
    events = [*life("a", 0, 99), *life("b", 100, 199)]
    state, store = after(*events)
    again, same, changes = step_segments(
        state, store, [epochs_frame(PART, ((0, 0),)), segments_frame(PART, events)]
    )
    assert again is state
    assert same is store
    assert changes == []


def test_forbidden_transitions_are_dropped_and_counted():
    deleted = SegmentEvent(SegmentState.DELETE_FINISHED, "a")
    again = SegmentEvent(SegmentState.COPY_STARTED, "b", 100, 199, ((0, 100),))
    state, store = after(START, deleted, again, replace(again, state=FINISHED), again)
    assert state[Lineage].refused_transitions.tolist() == [2]
    assert [int(s.state) for s in store[PART.id, 0].cache.segments.values()] == [0, 1]


def test_a_copy_whose_start_was_compacted_away_hides_no_gap_and_makes_none():
    """KIP-1266, or a finite retention of the log of metadata."""
    ends = [*life("a", 0, 99), SegmentEvent(FINISHED, "b"), *life("c", 200, 299)]
    state, store = after(*ends)
    lineage = state[Lineage]
    assert (lineage.undescribed_segments.tolist(), lineage.segments.tolist()) == ([1], [3])
    assert lineage.refused_transitions.tolist() == [0]
    assert lineage.gap_start_offset.tolist() == [UNKNOWN]
    assert lineage.highest_remote_offset.tolist() == [UNKNOWN]
    assert "tier_gap" not in conditions(state)
    restored = segment_store.decode(segment_store.encode(store))
    assert restored[PART.id, 0].undescribed == store[PART.id, 0].undescribed

    deleted = [
        SegmentEvent(SegmentState.DELETE_STARTED, "b"),
        SegmentEvent(SegmentState.DELETE_FINISHED, "b"),
    ]
    state, store = after(*deleted, state=state, store=store, first_offset=len(ends))
    assert state[Lineage].undescribed_segments.tolist() == [0]
    assert state[Lineage].gap_start_offset.tolist() == [100]


def test_a_tier_that_is_compacted_is_not_judged():
    """KIP-1272: compaction leaves gaps, and copies that other copies replace."""
    events = [*life("a", 0, 99), *life("b", 200, 299), *life("c", 200, 299)]
    topics = {"t": {"remote_storage": UNKNOWN, "compacted": 1, "tiered_compacted": 1,
                    "eligible_local_log_ms": 60_000}}  # fmt: skip
    risks = {"tier_gap", "duplicate_segments", "orphan_segments"}
    ordinary, _ = after(*events, state=a_state(PART))
    compacted, _ = after(*events, state=a_state(PART, topics=topics))
    assert risks & set(conditions(ordinary)) == {"tier_gap", "duplicate_segments"}
    assert risks & set(conditions(compacted)) == set()
    assert set(compacted[ReplicaCoverage].coverage[0].tolist()) == {Coverage.NOT_JUDGED}
    assert shard_totals(compacted)["kafka_twin_partitions_tiered_compacted"] == {(): 1}


def test_a_record_that_describes_a_finished_copy_is_enough():
    finished = SegmentEvent(FINISHED, "a", 0, 99, ((0, 0),))
    state, _ = after(SegmentEvent(FINISHED, "a"), finished, finished)
    assert state[Lineage].undescribed_segments.tolist() == [0]
    assert state[Lineage].remote_bytes.tolist() == [100]
    assert state[Lineage].refused_transitions.tolist() == [0]


def test_segments_of_a_partition_that_is_listed_later_are_found_then():
    _, store = after(*life("a", 0, 99), state=a_state(Partition("other")))
    state, _, _ = step_segments(a_state(PART), store, [])
    assert state[Lineage].remote_bytes.tolist() == [100]


def test_an_older_history_does_not_replace_a_newer_one():
    _, store = after(epochs=((0, 0), (3, 50)))
    late = epochs_frame(PART, ((0, 0),), at_ms=NOW_MS - 1)
    assert segment_store.apply(store, late) == (store, frozenset())


def test_the_archive_is_what_it_was_after_a_round_trip():
    begun = replace(START, name="c", start=200, end=300, epochs=((2, 200),))
    events = [*life("a", 0, 99), *life("b", 100, 199, (0, 100), (2, 150)),
              SegmentEvent(SegmentState.DELETE_STARTED, "a"), begun]  # fmt: skip
    _, store = after(*events)
    again = segment_store.decode(segment_store.encode(store))
    assert segment_store.encode(again) == segment_store.encode(store)
    _, one = after(SegmentEvent(FINISHED, "c"), store=store, first_offset=10)
    _, other = after(SegmentEvent(FINISHED, "c"), store=again, first_offset=10)
    assert segment_store.encode(one) == segment_store.encode(other)


@pytest.mark.parametrize(
    "event",
    [replace(START, epochs=()), replace(START, start=5, end=4), replace(START, state=9)],
)
def test_an_event_that_cannot_be_is_refused(event):
    with pytest.raises(InvalidFrame, match="segment"):
        segment_store.apply({}, segments_frame(PART, [event]))
