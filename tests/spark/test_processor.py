"""The stateful step as Spark runs it, in Spark's own tester: no JVM, no broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql import Row
from pyspark.sql.streaming import TwsTester

from streaming.bus.chains import Chain
from streaming.query.processor import Destination, TwinProcessor
from streaming.query.state import memory
from tests.builders import (
    NOW_MS,
    Log,
    Partition,
    SegmentEvent,
    a_state,
    brokers_frame,
    epochs_frame,
    partitions_frame,
    replicas_frame,
    segments_frame,
)
from twin.builtin import CATALOG, catalog
from twin.declarations.table import (
    Int64,
    KeyedTable,
    PartitionTable,
    ReplicaTable,
    SparseTable,
    Table,
    column,
)
from twin.engine import codec, updates
from twin.engine.frames import FrameHeader, encode, join, streams, write
from twin.engine.shard_state import ShardState
from twin.engine.updates import MOST_UPDATES, WHOLE_EVERY_CYCLES
from twin.proposals import PROPOSALS
from twin.proposals.kip1303 import Kip1303Leadership
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.partitions.growth import Growth
from twin.rules.replication.caught_up import CaughtUp
from twin.rules.tiering.lineage import Lineage
from twin.tables.enums import SegmentState
from twin.tables.state import Brokers, Partitions

LATER_MS = NOW_MS + 5_000


def a_tester(shards: int = 1) -> TwsTester:
    return TwsTester(
        TwinProcessor({"": Destination(shards, "snapshots", "events")}, tuple(PROPOSALS))
    )


def rows(*messages: bytes, first_offset: int = 0, key: str = "c/0") -> list[Row]:
    return [
        Row(
            key=key,
            value=value,
            topic="o",
            partition=3,
            offset=first_offset + i,
            timestamp_ms=NOW_MS,
        )
        for i, value in enumerate(messages)
    ]


_READERS: WeakKeyDictionary[TwsTester, Chain] = WeakKeyDictionary()


def batch(tester: TwsTester, *messages: bytes, key: str = "c/0", first_offset: int = 0):
    """(states that a reader has afterwards, events) that a batch gives."""
    out = written(tester, *messages, key=key, first_offset=first_offset)
    reader, states = _READERS.setdefault(tester, Chain()), []
    for row in out:
        if row.topic == "snapshots":
            take(reader, bytes(row.value))
            assert reader.state is not None
            assert not reader.is_behind
            states.append(reader.state)
    return states, [msgspec.json.decode(bytes(r.value)) for r in out if r.topic == "events"]


def written(tester: TwsTester, *messages: bytes, key: str = "c/0", first_offset: int = 0):
    """The rows that a batch gives."""
    # The tester makes a tuple of the key, as Spark does.
    return tester.test(key, rows(*messages, first_offset=first_offset, key=key))


def take(reader: Chain, message: bytes) -> None:
    link = updates.link_of(message)
    if link is None:
        reader.take_part(0, 1, codec.decode(message, CATALOG), message)
    else:
        reader.take_update(link, message)


def store_whole(tester: TwsTester, whole: bytes) -> None:
    """Let Spark's state hold that whole state, and nothing that follows it."""
    tester.updateValueState("state", "c/0", (whole,))
    tester.updateValueState("version", "c/0", (updates.id_of([whole]), 0, 1))


@pytest.fixture(autouse=True)
def a_new_worker() -> Iterator[None]:
    """Each test begins with a worker that knows no state."""
    memory.OF_THIS_PROCESS.forget()
    yield
    memory.OF_THIS_PROCESS.forget()


def a_cycle(at_ms: int = NOW_MS, **partition) -> list[bytes]:
    parts = [Partition(**partition)]
    frames = (brokers_frame(at_ms=at_ms), partitions_frame(parts, at_ms))
    return [encode(frame) for frame in (*frames, replicas_frame(parts, at_ms))]


def test_a_batch_gives_one_snapshot_a_shard_and_no_news_at_first():
    snapshots, events = batch(a_tester(), *a_cycle())
    assert [(s.observed_at_ms, s.partitions) for s in snapshots] == [(NOW_MS, 1)]
    assert events == []


def test_several_cycles_of_one_batch_are_stepped_in_order_and_snapshot_once():
    late_first = [*a_cycle(LATER_MS, leader=2, epoch=2), *a_cycle()]
    snapshots, events = batch(a_tester(), *late_first)
    assert [s.observed_at_ms for s in snapshots] == [LATER_MS]
    assert [e["text"] for e in events] == [
        "t-0 is led by 2, was 1",
        "t-0: leader 1 was lost; broker 2 leads, broker 2 was predicted",
    ]


def test_the_state_carries_over_to_the_next_batch():
    tester = a_tester()
    batch(tester, *a_cycle())
    _, events = batch(tester, *a_cycle(LATER_MS, isr=(1, 2)))
    assert [e["text"] for e in events] == ["t-0: replica 3 left the ISR, [1, 2] stay"]


def test_a_shard_without_partitions_is_remembered_and_reports_what_changes():
    def empty(at_ms: int, **brokers) -> list[bytes]:
        frames = brokers_frame(at_ms=at_ms, **brokers), partitions_frame([], at_ms)
        return [encode(frame) for frame in frames]

    tester = a_tester()
    batch(tester, *empty(NOW_MS))
    _, events = batch(tester, *empty(NOW_MS + 1_000, fenced=[2]))
    assert [e["kind"] for e in events] == ["broker_fenced"]
    _, events = batch(tester, *a_cycle(LATER_MS))
    assert "t-0 was created" in [e["text"] for e in events]


def test_a_batch_that_runs_again_gives_the_same_events_again():
    cycles = [*a_cycle(), *a_cycle(LATER_MS, leader=2, epoch=2)]
    assert [e["id"] for e in batch(a_tester(), *cycles)[1]] == [
        e["id"] for e in batch(a_tester(), *cycles)[1]
    ]


def test_garbage_is_reported_with_its_place_and_the_rest_still_counts():
    snapshots, events = batch(a_tester(), b"garbage", *a_cycle(), first_offset=40)
    assert [s.partitions for s in snapshots] == [1]
    assert [e["kind"] for e in events] == ["observation_refused"]
    place = {k: events[0][k] for k in ("reason", "key", "partition", "offset")}
    assert place == {"reason": "bytes", "key": "c/0", "partition": 3, "offset": 40}


def test_one_bad_frame_of_a_cycle_does_not_take_the_others_along():
    twice = encode(partitions_frame([Partition(), Partition()]))
    snapshots, events = batch(a_tester(), twice, encode(replicas_frame([Partition()])))
    assert [s.partitions for s in snapshots] == [1]
    assert [(e["reason"], e["offset"]) for e in events] == [("rows", 0)]


def test_frames_under_another_key_or_of_other_shards_are_refused():
    for tester, key in ((a_tester(), "c/7"), (a_tester(shards=4), "c/0")):
        snapshots, events = batch(tester, *a_cycle(), key=key)
        assert snapshots == []
        assert {e["reason"] for e in events} == {"shard"}


def test_garbage_alone_leaves_no_state():
    tester = a_tester()
    assert batch(tester, b"garbage")[0] == []
    snapshots, events = batch(tester, *a_cycle())
    assert len(snapshots) == 1
    assert events == []


def test_what_was_seen_before_gives_no_snapshot():
    tester = a_tester()
    batch(tester, *a_cycle(LATER_MS))
    assert batch(tester, *a_cycle()) == ([], [])


def test_a_message_may_hold_all_frames_of_a_cycle():
    snapshots, _ = batch(a_tester(), join(a_cycle()))
    assert len(snapshots[0][Brokers].broker) == 3


def test_a_shard_without_partitions_is_known_and_its_first_topic_is_news():
    tester = a_tester()
    batch(tester, encode(brokers_frame()), encode(partitions_frame([])))
    _, events = batch(tester, *a_cycle(LATER_MS))
    assert [e["kind"] for e in events] == ["partition_created"]
    assert batch(tester, encode(partitions_frame([]))) == ([], [])  # a late one


def a_copy(name: str = "a", first_offset: int = 0, **frame) -> list[bytes]:
    began = SegmentEvent(SegmentState.COPY_STARTED, name, 0, 49, ((0, 0),))
    done = SegmentEvent(SegmentState.COPY_FINISHED, name)
    events = segments_frame(Partition(), [began, done], first_offset=first_offset, **frame)
    return [encode(epochs_frame(Partition(), ((0, 0),))), encode(events)]


def test_remote_segments_are_remembered_from_batch_to_batch():
    tester = a_tester()
    snapshots, _ = batch(tester, *a_cycle(), *a_copy())
    assert snapshots[0][Lineage].remote_bytes.tolist() == [50]
    snapshots, _ = batch(tester, *a_copy("b", first_offset=2))
    assert snapshots[0][Lineage].remote_bytes.tolist() == [100]
    assert batch(tester, *a_copy()) == ([], [])  # the same again


def test_segments_that_come_before_their_partition_is_listed_are_judged_once_it_is():
    tester = a_tester()
    assert batch(tester, *a_copy()) == ([], [])
    snapshots, _ = batch(tester, *a_cycle())
    assert snapshots[0][Lineage].remote_bytes.tolist() == [50]


def test_a_cycle_without_events_leaves_the_archive_alone():
    tester = a_tester()
    batch(tester, *a_cycle(), *a_copy())
    unreadable = (b"nobody reads this",)
    tester.updateValueState("archive", "c/0", unreadable)
    snapshots, events = batch(tester, *a_cycle(LATER_MS))
    assert snapshots[0][Lineage].remote_bytes.tolist() == [50]
    assert events == []
    assert tester.peekValueState("archive", "c/0") == unreadable


def test_an_event_that_cannot_be_does_not_take_the_others_along():
    bad = encode(segments_frame(Partition(), [SegmentEvent(9, "b")]))
    snapshots, events = batch(a_tester(), *a_cycle(), bad, *a_copy())
    assert snapshots[0][Lineage].remote_bytes.tolist() == [50]
    assert [(e["kind"], e["reason"]) for e in events] == [("observation_refused", "rows")]


def test_events_of_another_number_of_shards_are_refused():
    tester = a_tester(shards=4)
    assert {e["reason"] for e in batch(tester, *a_copy())[1]} == {"shard"}


def test_a_worker_reads_the_files_of_what_spark_holds_and_asks_spark_without_them(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    tester = a_tester()
    batch(tester, *numbered(0))
    batch(tester, *numbered(1, Partition(isr=(1, 2))))
    assert len([*(tmp_path / "kafka-twin").iterdir()]) == 2

    # What Spark would give is unreadable: only the files can have been read.
    whole = tester.peekValueState("state", "c/0")
    tester.updateValueState("state", "c/0", (b"from another version",))
    memory.OF_THIS_PROCESS.forget()
    _, events = batch(tester, *numbered(2))
    assert [e["kind"] for e in events] == ["isr_expanded"]

    tester.updateValueState("state", "c/0", whole)
    for file in (tmp_path / "kafka-twin").iterdir():
        file.unlink()
    memory.OF_THIS_PROCESS.forget()
    _, events = batch(tester, *numbered(3, Partition(isr=(1, 2), log=Log(end=130))))
    assert [e["text"] for e in events] == ["t-0: replica 3 left the ISR, [1, 2] stay"]


def test_a_worker_that_knows_the_state_reads_neither_files_nor_spark():
    tester = a_tester()
    batch(tester, *a_cycle())
    tester.updateValueState("state", "c/0", (b"from another version",))
    _, events = batch(tester, *a_cycle(LATER_MS, isr=(1, 2)))
    assert [e["text"] for e in events] == ["t-0: replica 3 left the ISR, [1, 2] stay"]


def test_a_batch_that_is_run_again_reads_nothing_of_the_first_run(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    tester = a_tester()
    batch(tester, *a_cycle())
    stored = {name: tester.peekValueState(name, "c/0") for name in ("state", "version")}
    first = written(tester, *a_cycle(LATER_MS, isr=(1, 2)))
    for name, value in stored.items():  # as after the failure of a task
        tester.updateValueState(name, "c/0", value)
    again = written(tester, *a_cycle(LATER_MS, isr=(1, 2)))
    assert "isr_shrank" in str([bytes(row.value) for row in again if row.topic == "events"])
    assert again == first


# ---------------------------------------------------------------- whole states and updates


def numbered(cycle: int, *parts: Partition) -> list[bytes]:
    """The cycle of that number, of a partition that is written unless others are given."""
    at_ms = NOW_MS + cycle * 5_000
    given = parts or (Partition(log=Log(end=100 + 10 * cycle)),)
    frames = (
        brokers_frame(at_ms=at_ms),
        partitions_frame(given, at_ms),
        replicas_frame(given, at_ms),
    )
    return [encode(replace(f, header=replace(f.header, cycle=cycle))) for f in frames]


def keys(out: Iterable[Row]) -> list[str]:
    return [row.key for row in out if row.topic == "snapshots"]


def test_a_whole_state_is_written_every_so_many_cycles_and_updates_between():
    tester = a_tester()
    sent = [key for cycle in range(20) for key in keys(written(tester, *numbered(cycle)))]
    chain = ["c/0", *(f"c/0@{number}" for number in range(1, WHOLE_EVERY_CYCLES))]
    assert sent == [*chain, *chain, *chain][:20]


def test_a_chain_has_an_end_also_without_new_cycles():
    tester = a_tester()
    written(tester, *numbered(0))
    message_id, _, whole_cycle = tester.peekValueState("version", "c/0")
    tester.updateValueState("version", "c/0", (message_id, MOST_UPDATES, whole_cycle))
    assert keys(written(tester, *numbered(1))) == ["c/0"]


def test_a_partition_that_comes_needs_a_whole_state():
    tester = a_tester()
    written(tester, *numbered(0))
    assert keys(written(tester, *numbered(1))) == ["c/0@1"]
    assert keys(written(tester, *numbered(2, Partition(), Partition("u")))) == ["c/0"]


def test_an_update_brings_nothing_of_the_whole_state_into_sparks_state_again():
    tester = a_tester()
    written(tester, *numbered(0))
    whole = tester.peekValueState("state", "c/0")
    written(tester, *numbered(1))
    assert tester.peekValueState("state", "c/0") == whole
    assert tester.peekValueState("version", "c/0")[1] == 1


def test_the_memory_of_a_worker_has_a_limit():
    known = memory.KnownStates(limit_bytes=1)
    decoded = codec.DecodedState(a_state(Partition()))
    known.put("c/0", b"id", decoded)
    assert known.get("c/0", b"id", CATALOG) is None
    known = memory.KnownStates()
    known.put("c/0", b"id", decoded)
    assert known.get("c/0", b"id", CATALOG) is not None
    assert known.get("c/0", b"other", CATALOG) is None
    assert known.get("c/0", b"id", catalog(())) is None


def test_a_state_of_the_build_that_stored_whole_states_only_is_continued():
    tester = a_tester()
    batch(tester, *numbered(0))
    whole = tester.peekValueState("state", "c/0")
    upgraded = a_tester()
    upgraded.updateValueState("state", "c/0", whole)
    out = written(upgraded, *numbered(1, Partition(isr=(1, 2))))
    assert keys(out) == ["c/0"]
    assert "isr_shrank" in str([bytes(row.value) for row in out if row.topic == "events"])
    assert keys(written(upgraded, *numbered(2))) == ["c/0@1"]


def test_a_state_whose_update_is_missing_is_built_anew_and_said():
    tester = a_tester()
    batch(tester, *a_cycle())
    batch(tester, *a_cycle(LATER_MS))
    memory.OF_THIS_PROCESS.forget()
    version = tester.peekValueState("version", "c/0")
    tester.updateValueState("version", "c/0", (b"x" * 16, 2, version[2]))
    _, events = batch(tester, *a_cycle(LATER_MS + 5_000))
    assert [e["kind"] for e in events] == ["state_discarded"]
    assert "update 2 of the state is not there" in events[0]["text"]


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path, monkeypatch):
    (tmp_path / "kafka-twin").write_text("a file, where a folder should be")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    tester = a_tester()
    batch(tester, *a_cycle())
    snapshots, events = batch(tester, *a_cycle(LATER_MS, isr=(1, 2)))
    assert len(snapshots) == 1
    assert [e["kind"] for e in events] == ["isr_shrank"]


def test_a_state_that_cannot_be_read_is_reported_and_built_anew():
    tester = a_tester()
    batch(tester, *a_cycle())
    store_whole(tester, b"from another version")
    tester.updateValueState("archive", "c/0", (b"from another version",))
    snapshots, events = batch(tester, *a_cycle(LATER_MS))
    assert [s.partitions for s in snapshots] == [1]
    assert [e["kind"] for e in events] == ["state_discarded"] * 2
    assert "built anew" in events[0]["text"]
    _, events = batch(tester, *a_cycle(LATER_MS + 5_000))
    assert events == []


# ---------------------------------------------------------------- upgrades


class OtherLeadership(PartitionTable, kind=Kip1303Leadership.kind, version=99):
    """[P] as another version has it."""

    other: Int64 = column("another column")


class OtherGrowth(PartitionTable, kind=Growth.kind, version=99):
    """[P] as another version has it."""

    other: Int64 = column("another column")


class OtherCaughtUp(ReplicaTable, kind=CaughtUp.kind, version=99):
    """[P, R] as another version has it."""

    other: Int64 = column("another column")


class OtherShrinks(SparseTable, kind=IsrShrinks.kind, version=99):
    """[N] as another version has it."""

    other: Int64 = column("another column")


class OtherBrokers(KeyedTable, kind=Brokers.kind, version=99):
    """[B] as another version has it."""

    other: Int64 = column("another column")


CHANGED = (
    (Kip1303Leadership, OtherLeadership),
    (Growth, OtherGrowth),  # remembered from cycle to cycle as well
    (CaughtUp, OtherCaughtUp),
    (IsrShrinks, OtherShrinks),
    (Brokers, OtherBrokers),
)
"""A table of each kind of rows, and one with other columns under its name."""


def written_by_another_version(
    state: ShardState, changed: type[Table], other: type[Table]
) -> bytes:
    """The state as a version writes it that has other columns in one table."""

    def instead(tables: Iterable[type[Table]]) -> tuple[type[Table], ...]:
        return tuple(other if table is changed else table for table in tables)

    shape = {PartitionTable: (state.partitions,), ReplicaTable: (state.partitions, state.slots)}
    (rows_of,) = {PartitionTable, ReplicaTable, SparseTable, KeyedTable} & {*other.__mro__}
    table = other.from_values([np.zeros(shape.get(rows_of, 1), c.dtype) for c in other.columns])
    theirs = replace(
        state,
        catalog=replace(
            CATALOG, stored=instead(CATALOG.stored), remembered=instead(CATALOG.remembered)
        ),
        before={**state.before, other: table},
    )
    return codec.encode(theirs.with_tables(table))


@pytest.mark.parametrize(("changed", "other"), CHANGED, ids=lambda table: table.kind)
def test_a_table_of_another_version_is_reported_and_discarded_alone(changed, other):
    tester = a_tester()
    batch(tester, *a_cycle(NOW_MS - 5_000, isr=(1, 2, 3)))
    [held], _ = batch(tester, *a_cycle(isr=(1, 3)))
    store_whole(tester, written_by_another_version(held, changed, other))
    snapshots, events = batch(tester, *a_cycle(LATER_MS, isr=(1, 3), leader=3, epoch=2))
    reported = [e for e in events if e["kind"] == "state_table_discarded"]
    wanted = [changed.kind] + [f"before.{changed.kind}"] * (changed in CATALOG.remembered)
    assert sorted(e["detail"] for e in reported) == sorted(
        f"{name}: version 99, this version has {changed.version}" for name in wanted
    )
    assert all(e["text"].startswith("a table of the state of c/0 was") for e in reported)
    assert "leader_moved" in {e["kind"] for e in events}, "the leader before it is remembered"
    assert snapshots[0][Partitions].leader.tolist() == [3]
    _, events = batch(tester, *a_cycle(LATER_MS + 5_000, isr=(1, 3), leader=3, epoch=2))
    assert events == []


@pytest.mark.parametrize(("changed", "other"), CHANGED, ids=lambda table: table.kind)
def test_everything_but_the_table_of_another_version_is_kept(changed, other):
    tester = a_tester()
    batch(tester, *a_cycle(NOW_MS - 5_000, isr=(1, 2, 3)), *a_copy())
    [held], _ = batch(tester, *a_cycle(isr=(1, 3)))
    decoded = codec.decode(written_by_another_version(held, changed, other), CATALOG).state
    for tables, kept in ((decoded.tables, held.tables), (decoded.before, held.before)):
        for table in kept.keys() - {changed}:
            if not (issubclass(table, SparseTable) and not len(kept[table])):
                pairs = zip(tables[table].values(), kept[table].values(), strict=True)
                for mine, theirs in pairs:
                    np.testing.assert_array_equal(mine, theirs, table.kind)
    assert changed not in decoded.tables


def test_frames_of_unknown_kinds_are_skipped_and_counted():
    header = FrameHeader("of_a_newer_collector", "c", 0, 1, NOW_MS, 1)
    unknown = write(header, pa.table({"column": [1, 2]}))
    tester = a_tester()
    cycle = a_cycle()
    snapshots, events = batch(tester, join([cycle[0], unknown, *cycle[1:]]))
    assert (snapshots[0].partitions, events) == (1, [])
    snapshots, events = batch(tester, unknown)
    counted = CATALOG.metric("kafka_twin_frames_skipped_total")
    assert snapshots[0].call(counted.compute, counted.reads) == {("of_a_newer_collector",): 2}
    assert events == []


# ---------------------------------------------------------------- proposals


def test_a_proposal_that_is_switched_off_leaves_nothing_in_the_state():
    tester = TwsTester(TwinProcessor({"": Destination(1, "snapshots", "events")}, ()))
    [row] = [r for r in tester.test("c/0", rows(*a_cycle())) if r.topic == "snapshots"]
    columns = {name for _, rows in streams(bytes(row.value)) for name in rows.column_names}
    assert "next_leader.leader" in columns
    assert not {name for name in columns if "kip1303" in name or "kip501" in name}
    decoded = codec.decode(bytes(row.value), CATALOG)
    assert decoded.discarded == ()
    without = {t.kind for t in catalog(proposals=()).stored}
    of_proposals = {t.kind for t in CATALOG.stored} - without
    assert of_proposals >= {"kip1303_leadership", "kip501_handovers"}
    assert not of_proposals & {table.kind for table in decoded.state.tables}
