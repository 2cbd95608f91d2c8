"""From the bus into the archive and back: what is archived, what is a gap, what is asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from deltalake import write_deltalake

from streaming.bus.bus_topics import shard_of
from streaming.bus.record import key
from streaming.history.archive import delta, gap_filling
from streaming.history.archive.archive_past import ArchivePast
from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.row_layout import CYCLES, EVENTS, PARTITIONS, PLACE, REPLICAS, TABLES
from streaming.history.moment import MomentError
from tests.archive.bus import CLUSTER, SHARDS, Program, SimulatedBus
from tests.examples import ARE_FEW
from tests.history.archive.archived import BEFORE_A_QUARTER_MS, INTERVAL_MS, START_MS
from tests.history.archive.test_differences import columns
from twin.tables.state import Replicas


def assert_equal(past: ArchivePast, bus: SimulatedBus, cycle: int) -> None:
    """The decisions of all shards are those of the cycle."""
    found = past.view(bus.at_ms(cycle))
    assert (found.at_ms, found.complete) == (bus.at_ms(cycle), True)
    assert [state.shard for state in found.view.states] == list(range(SHARDS))
    for state in found.view.states:
        expected = columns(bus.states[cycle][state.shard], measurements=False)
        assert columns(state, measurements=False) == expected


def a_bus(cycles: int, start_ms: int = START_MS) -> SimulatedBus:
    bus = SimulatedBus(start_ms)
    for _ in range(cycles):
        bus.cycle()
    return bus


def rows_by_key(folder: Path, name: str) -> Counter[tuple[object, ...]]:
    keys = {PARTITIONS: ["topic", "partition"], REPLICAS: ["topic", "partition", "slot"]}
    names = ["at", "shard", *keys.get(name, [])]
    found = ArchiveTables(str(folder)).read(name, columns=names)
    assert found is not None
    return Counter(tuple(row.values()) for row in found.select(names).to_pylist())


def last_gap_ended(folder: Path, bus: SimulatedBus) -> int:
    """The cycle with which a gap of all shards ended for the last of them."""
    rows = ArchiveTables(str(folder)).read(CYCLES)
    assert rows is not None
    gaps = [row for row in rows.to_pylist() if row["missing_since"] is not None]
    assert sorted(row["shard"] for row in gaps) == [-1, 0, 1]
    ended_ms = max(int(row["at"].timestamp() * 1_000) for row in gaps)
    return (ended_ms - bus.at_ms(0)) // INTERVAL_MS


def test_every_cycle_but_the_newest_is_archived_and_answers(tmp_path: Path):
    bus = a_bus(16)
    program = Program(bus, tmp_path)
    for end in (7, 12, 30, None):
        program.run(end)
    past = program.past()
    assert (past.span.begin_ms, past.span.end_ms) == (bus.at_ms(0), bus.at_ms(14))
    for cycle in range(15):
        assert_equal(past, bus, cycle)
    own = past.view(bus.at_ms(12)).view.cluster
    assert own is not None
    assert own.observed_at_ms == bus.at_ms(12)
    with pytest.raises(MomentError, match="is after the end"):
        past.view(bus.at_ms(15))


@pytest.mark.parametrize("start_ms", [START_MS, BEFORE_A_QUARTER_MS])
@pytest.mark.parametrize("committed", range(4))
def test_a_kill_between_any_two_commits_leaves_nothing_twice_and_nothing_missing(
    tmp_path: Path, committed: int, start_ms: int
):
    bus = a_bus(9, start_ms)
    program = Program(bus, tmp_path)
    program.run()
    for _ in range(5):
        bus.cycle()
    program.run(only=committed)
    program.killed()
    program.run()
    for _ in range(8):
        bus.cycle()
    program.killed()
    program.run()
    for name in (CYCLES, PARTITIONS, REPLICAS):
        assert set(rows_by_key(tmp_path, name).values()) == {1}
    past = program.past()
    for cycle in (0, *range(6, 16), 20) if ARE_FEW else range(21):
        assert_equal(past, bus, cycle)
    measured = past.view(bus.at_ms(16)).view.states  # of a cycle that begins half a minute
    for state in measured:
        ends = bus.states[16][state.shard][Replicas].log_end_offset
        assert state[Replicas].log_end_offset.tolist() == ends.tolist()


def test_events_are_archived_once_however_often_they_come(tmp_path: Path):
    bus = a_bus(3)
    program = Program(bus, tmp_path)
    for event_id in ("a", "b", "a"):
        bus.event(event_id, bus.at_ms(1))
    program.run()
    bus.event("b", bus.at_ms(1))
    bus.event("c", bus.at_ms(2), "risk_closed")
    program.killed()
    program.run()
    rows = ArchiveTables(str(tmp_path)).read(EVENTS)
    assert rows is not None
    assert sorted(rows.column("id").to_pylist()) == ["a", "b", "c"]
    assert set(rows.column("partition").to_pylist()) == {3}
    counts = (
        program.past().changes.counted(program.past().span, bus.at_ms(0), bus.at_ms(2), 2).counts
    )
    assert (counts.leader, counts.risk_closed) == (2, 1)


def test_events_of_days_ago_that_are_read_again_are_not_archived_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delta, "_HOURS_COMPACTED", 1)
    bus = a_bus(12, START_MS)  # the second hour begins with cycle 10
    program = Program(bus, tmp_path)
    for event_id, cycle in (("old", 2), ("new", 10)):
        bus.event(event_id, bus.at_ms(cycle))
    program.run()
    program.killed()
    program.events_taken = 0
    bus.event("newest", bus.at_ms(11))
    program.run()
    rows = ArchiveTables(str(tmp_path)).read(EVENTS)
    assert rows is not None
    assert sorted(rows.column("id").to_pylist()) == ["new", "newest", "old"]


def test_an_archive_of_one_cluster_is_continued_as_that_of_a_fleet(tmp_path: Path):
    bus = a_bus(9)
    bus.event("a", bus.at_ms(1))
    Program(bus, tmp_path / "one").run()
    moved = tmp_path / "fleet" / f"cluster={CLUSTER}"
    moved.parent.mkdir()
    (tmp_path / "one").rename(moved)
    for _ in range(5):
        bus.cycle()
    program = Program(bus, moved, batch=1)  # of another query, which reads all of the bus again
    program.run()
    for name in (CYCLES, PARTITIONS, REPLICAS):
        assert set(rows_by_key(moved, name).values()) == {1}
    events = ArchiveTables(str(moved)).read(EVENTS)
    assert events is not None
    assert events.column("id").to_pylist() == ["a"]
    for cycle in range(13):
        assert_equal(program.past(), bus, cycle)


def test_cycles_whose_observations_expired_are_a_gap(tmp_path: Path):
    bus, program = a_gap(tmp_path, 24)
    del bus.observations[: 9 * SHARDS]
    program.run()
    assert "the bus does not keep the observations from" in program.not_filled()
    past = program.past()
    assert_equal(past, bus, 4)
    with pytest.raises(MomentError, match=r"is in a gap of the archive, from .* to "):
        past.view(bus.at_ms(20))
    for cycle in range(last_gap_ended(tmp_path, bus), 48):
        assert_equal(past, bus, cycle)


@pytest.mark.parametrize("keeps", ["all", "none"])
def test_a_cycle_that_the_query_took_with_the_next_one_is_computed_from_its_observations(
    tmp_path: Path, keeps: str
):
    bus = a_bus(4)
    bus.cycle(is_sent=False)
    for _ in range(6):
        bus.cycle()
    if keeps == "none":
        bus.observations.clear()
    program = Program(bus, tmp_path)
    program.run()
    past = program.past()
    for moment_ms in (bus.at_ms(4), bus.at_ms(5) - 1):
        found = past.view(moment_ms)
        if keeps == "none":
            assert (found.at_ms, found.complete, found.filled) == (bus.at_ms(3), False, False)
        else:
            assert_equal(past, bus, 4)
            assert (found.at_ms, found.filled) == (bus.at_ms(4), True)
    for cycle in (3, 5, 6):
        assert_equal(past, bus, cycle)
        assert not past.view(bus.at_ms(cycle)).filled


def a_gap(folder: Path, missed: int, start_ms: int = START_MS) -> tuple[SimulatedBus, Program]:
    """A program that has not read the snapshots of so many cycles, and will never do."""
    bus = a_bus(6, start_ms)
    program = Program(bus, folder)
    program.run()
    for _ in range(missed):
        bus.cycle()
    lost = len(bus.records)
    for _ in range(20):
        bus.cycle()
    bus.records[program.taken : lost] = []  # compacted before they were read
    return bus, program


@pytest.mark.parametrize("own_until", [18, 22])
def test_a_gap_is_filled_although_some_shards_have_snapshots_of_its_cycles(
    tmp_path: Path, own_until: int
):
    """Kafka compacts each partition of a topic at its own time.

    A shard's gap ends with its next whole state, in cycle 22: before that of the cluster's own
    shard, or just after it.
    """
    bus = a_bus(6)
    program = Program(bus, tmp_path)
    program.run()
    for _ in range(12):
        bus.cycle()
    first, lost = program.taken, len(bus.records)
    for _ in range(20):
        bus.cycle()
    kept, own = key(CLUSTER, 0), key(CLUSTER, -1)
    bus.records[first:lost] = [
        each for each in bus.records[first:lost] if (each.key or b"").startswith(kept)
    ]
    bus.records[:] = [
        each
        for each in bus.records
        if each.key != own or not bus.at_ms(6) <= each.timestamp_ms < bus.at_ms(own_until)
    ]
    program.run()
    assert program.gaps() == 0
    assert program.not_filled() == ""
    past = program.past()
    for cycle in range(0, 37, 2):
        assert_equal(past, bus, cycle)
    found = past.view(bus.at_ms(12)).view.cluster
    assert found is not None
    assert found.observed_at_ms == bus.at_ms(12)


def test_gaps_of_the_clusters_own_shard_are_filled_from_a_cycle_just_before(tmp_path: Path):
    """A busy query skips some, and a replay from the archive's last state takes minutes each."""
    bus = a_bus(6)
    program = Program(bus, tmp_path)
    program.run()
    for missed in (40, 60):
        while len(bus.states) < missed + 10:
            bus.cycle()
        first, last = bus.at_ms(missed), bus.at_ms(missed + 2)
        bus.records[program.taken :] = [
            each
            for each in bus.records[program.taken :]
            if not (first <= each.timestamp_ms <= last and each.key == key(CLUSTER, -1))
        ]
        program.run()
    assert program.not_filled() == ""
    # The state before the gap is taken with the one after it, when the shards are beyond it.
    assert program.read_from_ms == [bus.at_ms(38), bus.at_ms(58)]
    past = program.past()
    for cycle in (39, 41, 43, 61, 68):
        assert_equal(past, bus, cycle)
        own = past.view(bus.at_ms(cycle)).view.cluster
        assert own is not None
        assert own.observed_at_ms == bus.at_ms(cycle)


@pytest.mark.parametrize(
    ("is_restarted", "start_ms"), [(False, START_MS), (True, BEFORE_A_QUARTER_MS)]
)
def test_a_gap_is_filled_while_the_bus_keeps_the_observations(
    tmp_path: Path, is_restarted: bool, start_ms: int
):
    bus, program = a_gap(tmp_path, 24, start_ms)
    if is_restarted:
        program.seeded_from = program.taken  # what precedes the batch was compacted as well
        program.killed()
    program.run()
    assert program.not_filled() == ""
    past = program.past()
    filled = []
    for cycle in (*range(0, 49, 4), 48):
        assert_equal(past, bus, cycle)
        if past.view(bus.at_ms(cycle)).filled:
            filled.append(cycle)
    assert len(filled) >= 6
    assert filled == [*range(filled[0], filled[-1] + 1, 4)]
    for cycle in (filled[0], filled[-1]):
        own = past.view(bus.at_ms(cycle)).view.cluster
        assert own is not None
        assert columns(own, measurements=False) == columns(
            bus.states[cycle][-1], measurements=False
        )
    assert set(rows_by_key(tmp_path, CYCLES).values()) == {1}


@pytest.mark.parametrize(
    ("committed", "expired"), [(0, False), (1, False), (2, False), (3, False), (1, True), (2, True)]
)
def test_a_kill_while_a_gap_is_filled_leaves_nothing_twice_and_nothing_wrong(
    tmp_path: Path, committed: int, expired: bool
):
    bus, program = a_gap(tmp_path, 6)
    program.seeded_from = program.taken
    program.killed()
    program.run(only=committed)
    if expired:  # before the batch is repeated
        bus.observations.clear()
    program.killed()
    program.run()
    for _ in range(4):
        bus.cycle()
    program.run()
    for name in (CYCLES, PARTITIONS, REPLICAS):
        assert set(rows_by_key(tmp_path, name).values()) == {1}
    begins = last_gap_ended(tmp_path, bus) if expired else 5
    past = program.past()
    for cycle in (0, 4, *range(begins, 35, 4), 34):
        assert_equal(past, bus, cycle)


def test_an_archive_of_before_gaps_were_filled_is_read(tmp_path: Path):
    bus = a_bus(6)
    program = Program(bus, tmp_path)
    program.run()
    table = ArchiveTables(str(tmp_path)).read(CYCLES)
    assert table is not None
    location = ArchiveTables(str(tmp_path)).location(CYCLES)
    older = table.drop_columns(["is_filled"])
    write_deltalake(location, older, mode="overwrite", schema_mode="overwrite")
    others = ArchiveTables(str(tmp_path)).read(TABLES)
    assert others is not None
    write_deltalake(
        ArchiveTables(str(tmp_path)).location(TABLES),
        others.drop_columns([PLACE]),
        mode="overwrite",
        schema_mode="overwrite",
    )
    assert_equal(program.past(), bus, 4)
    assert not program.past().view(bus.at_ms(4)).filled


def test_a_gap_that_would_take_too_long_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gap_filling, "MOST_REPLICAS_STEPPED", 100)
    _, program = a_gap(tmp_path, 6)
    program.run()
    assert "are too many" in program.not_filled()


def test_a_shard_that_is_missing_is_unknown_and_the_view_is_incomplete(tmp_path: Path):
    bus = a_bus(8)
    for _ in range(8):
        bus.cycle(of=[0])
    program = Program(bus, tmp_path)
    program.run()
    assert_equal(program.past(), bus, 5)
    found = program.past().view(bus.at_ms(14))
    assert not found.complete
    assert [state.shard for state in found.view.states] == [0]
    assert found.view.shards_expected == SHARDS
    for shard in range(SHARDS):
        topic = next(each for each in map(str, range(99)) if shard_of(each, SHARDS) == shard)
        before = program.past().view(bus.at_ms(5), topic)
        assert [state.shard for state in before.view.states] == [shard]
        assert (before.at_ms, before.complete) == (bus.at_ms(5), True)
        expected = columns(bus.states[5][shard], measurements=False)
        assert columns(before.view.states[0], measurements=False) == expected
        later = program.past().view(bus.at_ms(14), topic)
        assert [state.shard for state in later.view.states] == ([0] if shard == 0 else [])
        assert (later.at_ms, later.complete) == (found.at_ms, False)


def test_what_is_written_for_a_cycle_without_changes_is_little(tmp_path: Path):
    bus = a_bus(12)
    program = Program(bus, tmp_path)
    program.run()
    rows = ArchiveTables(str(tmp_path)).read(TABLES, columns=["table", "at"])
    assert rows is not None
    states = [row for row in rows.to_pylist() if row["table"] == "state"]
    assert len(states) == (SHARDS + 1) * 2  # when it began, and with the new hour
