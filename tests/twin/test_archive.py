"""The archive against a simulated tier, and what must hold for any events."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin.archive import CLOCKS_MS, Archive
from twin.fleet import Fleet

from tests.builders import (
    NOW_MS,
    Log,
    Partition,
    Told,
    a_fleet,
    epochs_frame,
    segments_frame,
)
from tests.simulator.shard import Shape, SimulatedShard
from twin import archive as archives
from twin import fleet as fleets
from twin import frames
from twin.frames import Frame, FrameRefused
from twin.rules.lineage import without_empty_epochs
from twin.step import step, step_archive
from twin.tables import UNKNOWN, SegmentState

STARTED, FINISHED, DELETING, DELETED = SegmentState
PART = Partition("t", log=Log(end=500, local_start=450))


def after(*told: Frame, fleet: Fleet | None = None, archive: Archive | None = None):
    """The fleet and the archive after these frames."""
    known = a_fleet(PART) if fleet is None else fleet
    return step_archive(known, {} if archive is None else archive, told)[:2]


def life(name: str, start: int, end: int, *epochs: tuple[int, int]) -> list[Told]:
    began = Told(STARTED, name, start, end, epochs or ((0, start),))
    return [began, replace(began, state=FINISHED)]


def simulated(cycles: int, seed: int) -> tuple[Fleet, Archive]:
    shard = SimulatedShard(Shape(topics=2, partitions=4, tier=True), seed=seed)
    fleet, archive = fleets.empty("sim", 0, 1), {}
    for told in shard.run(cycles, NOW_MS):
        events = [frame for frame in told if frame.stamp.kind in archives.KINDS]
        assert [frame.stamp.kind for frame in events] == ["segments", "epochs"]
        others = [frame for frame in told if frame.stamp.kind not in archives.KINDS]
        fleet, _ = step(fleet, others, others[0].stamp.observed_at_ms)
        fleet, archive, _ = step_archive(fleet, archive, events)
    return fleet, archive


@pytest.mark.parametrize("seed", [2, 3])
def test_the_tier_of_a_simulated_shard_reaches_as_far_as_its_leaders_copied(seed):
    fleet, _ = simulated(60, seed)
    of = fleet.lineage
    assert of.row.tolist() == list(range(8))
    end = fleet.of_leader(fleet.log_end_offset)
    led = fleet.leader >= 0
    assert (of.highest_remote_offset[led] < end[led]).all()
    assert (end[led] - of.highest_remote_offset[led] <= 1_501).all()
    assert (of.refused_transitions == 0).all()
    assert (of.gap_start_offset == UNKNOWN).all()
    assert (of.remote_log_start_offset == 0).all()
    assert (of.lineage_bytes <= of.remote_bytes).all()
    assert of.orphan_segments.sum() > 0
    assert of.dangling_segments.sum() > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_findings_are_those_of_the_events_however_they_are_spread_over_messages(seed):
    fleet, archive = simulated(20, seed)
    again, same, _ = step_archive(fleet, archives.decode(archives.encode(archive)), [])
    assert again is fleet
    forgotten = replace(fleet, lineage=type(fleet.lineage).none())
    anew, _, _ = step_archive(forgotten, same, [])
    for name in ("orphan_segments", "lineage_bytes", "highest_remote_offset", "overlaps"):
        assert getattr(anew.lineage, name).tolist() == getattr(fleet.lineage, name).tolist()


names = st.sampled_from("abcd")


@st.composite
def events(draw: st.DrawFn) -> list[Told]:
    told = []
    for _ in range(draw(st.integers(1, 15))):
        state = draw(st.sampled_from(list(SegmentState)))
        if state is STARTED:
            start = draw(st.integers(0, 200))
            end = start + draw(st.integers(0, 100))
            told.append(Told(state, draw(names), start, end, ((draw(st.integers(0, 2)), start),)))
        else:
            told.append(Told(state, draw(names)))
    return told


@given(told=events(), cut=st.integers(0, 15))
def test_a_log_of_events_that_is_read_again_from_any_place_changes_nothing(told, cut):
    frame = segments_frame(PART, told)
    once = after(frame)
    repeated = segments_frame(PART, told[cut:], first_offset=cut)
    fleet, archive = after(repeated, frame, fleet=once[0], archive=once[1])
    assert fleet is once[0]
    assert archive is once[1]


@given(told=events(), cut=st.integers(0, 15))
def test_events_in_one_frame_or_in_two_come_to_the_same(told, cut):
    whole = after(segments_frame(PART, told))[1]
    first = segments_frame(PART, told[:cut])
    parts = after(first, segments_frame(PART, told[cut:], first_offset=cut))[1]
    assert archives.encode(whole) == archives.encode(parts)


@given(
    told=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), min_size=1, max_size=8),
    order=st.randoms(),
)
def test_a_history_ascends_in_whatever_order_its_rows_stand(told, order):
    shuffled = list(dict(told).items())
    order.shuffle(shuffled)
    archive = after(epochs_frame(PART, shuffled))[1]
    epochs = archive[PART.id, 0].epochs
    assert epochs == after(epochs_frame(PART, sorted(shuffled)))[1][PART.id, 0].epochs
    assert without_empty_epochs(epochs) == epochs


@given(histories=st.permutations([((0, 0),), ((0, 0), (2, 50)), ((0, 0), (3, 40))]))
def test_of_histories_told_at_the_same_time_the_same_one_holds(histories):
    archive = after(*(epochs_frame(PART, epochs) for epochs in histories))[1]
    assert archive[PART.id, 0].epochs == ((0, 0), (3, 40))


def test_a_deleted_segment_does_not_come_back_with_an_old_event():
    gone = [*life("a", 0, 99), Told(DELETING, "a"), Told(DELETED, "a")]
    fleet, archive = after(segments_frame(PART, gone))
    assert archive[PART.id, 0].references.segments == {}
    assert after(segments_frame(PART, gone[:2]), fleet=fleet, archive=archive)[1] is archive


def test_a_topic_that_is_gone_is_dropped_once_a_whole_listing_tells():
    _, archive = after(segments_frame(PART, life("a", 0, 99)))
    other = Partition("other")
    # A listing may lack a topic that is younger, and clocks differ.
    told_before = a_fleet(other, at_ms=NOW_MS + CLOCKS_MS)
    assert after(fleet=told_before, archive=archive)[1] is archive
    assert after(fleet=a_fleet(other, at_ms=NOW_MS + CLOCKS_MS + 1), archive=archive)[1] == {}


def test_a_copy_beyond_the_sampled_log_end_is_no_orphan():
    fleet, _ = after(
        epochs_frame(PART, ((0, 0),)),
        segments_frame(PART, [*life("a", 0, 99), *life("b", 100, 549)]),
    )
    assert (fleet.lineage.orphan_segments[0], fleet.lineage.highest_remote_offset[0]) == (0, 549)


def test_a_copy_below_the_log_start_waits_for_its_deletion_and_is_no_orphan():
    """A leader cuts its history at the log start; the twin was told of it before that moved."""
    part = replace(PART, log=Log(end=500, start=100, local_start=450))
    fleet, _ = after(
        epochs_frame(part, ((0, 0), (1, 100))),
        segments_frame(part, [*life("a", 0, 99), *life("b", 100, 449, (1, 100))]),
        fleet=a_fleet(part),
    )
    of = fleet.lineage
    assert (of.orphan_segments[0], of.remote_bytes[0], of.lineage_bytes[0]) == (0, 450, 350)


def test_a_copy_of_a_later_epoch_than_the_history_has_is_no_orphan_yet():
    late = segments_frame(PART, [*life("a", 0, 99), *life("b", 100, 199, (5, 100))])
    fleet, archive = after(epochs_frame(PART, ((0, 0),)), late)
    assert fleet.lineage.orphan_segments[0] == 0
    cut_off = epochs_frame(PART, ((0, 0), (6, 100)), at_ms=NOW_MS + 1)
    fleet, _ = after(cut_off, fleet=fleet, archive=archive)
    assert fleet.lineage.orphan_segments[0] == 1


def test_what_a_deposed_leader_copied_of_shared_epochs_leaves_no_gap():
    events = [
        *life("a", 0, 49, (1, 0)),
        *life("b", 50, 149, (1, 50), (2, 100)),  # its second half was cut off
        *life("c", 100, 449, (3, 100)),
    ]
    fleet, _ = after(epochs_frame(PART, ((1, 0), (3, 100))), segments_frame(PART, events))
    of = fleet.lineage
    assert (of.gap_start_offset[0], of.orphan_segments[0]) == (UNKNOWN, 1)


@pytest.mark.parametrize(
    ("epochs", "match"),
    [(((2, 0), (1, 50)), "epochs"), (((1, 50), (2, 20)), "epochs"), (((1, 300),), "epochs")],
)
def test_epochs_of_a_segment_that_do_not_ascend_within_it_are_refused(epochs, match):
    with pytest.raises(FrameRefused, match=match):
        archives.told({}, segments_frame(PART, [Told(STARTED, "a", 0, 99, epochs)]))


def test_an_event_without_a_place_in_its_log_is_refused():
    with pytest.raises(FrameRefused, match="metadata offset"):
        archives.told({}, segments_frame(PART, life("a", 0, 9), first_offset=UNKNOWN))


def test_an_archive_that_contradicts_itself_is_refused():
    _, archive = after(segments_frame(PART, life("a", 0, 99)))
    partitions, segments = frames.decode(archives.encode(archive))
    without = Frame(partitions.stamp, partitions.rows.slice(0, 0))
    state = segments.rows.schema.get_field_index("state")
    unknown = segments.rows.set_column(
        state, segments.rows.schema.field(state), pa.array([9], pa.int8())
    )
    for told in ((without, segments), (partitions, Frame(segments.stamp, unknown))):
        with pytest.raises(FrameRefused, match="rows"):
            archives.decode(frames.join(map(frames.encode, told)))


def test_a_message_that_is_no_archive_is_refused():
    whole = archives.encode({})
    for message in (b"", b"garbage", whole[: len(whole) // 2], fleets.encode(a_fleet(PART))):
        with pytest.raises(FrameRefused):
            archives.decode(message)
