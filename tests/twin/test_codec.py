"""A state as bytes: it comes back as it was, and an upgrade costs only the tables that changed."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from tests.builders import NOW_MS, Log, Partition, a_state, empty
from tests.examples import examples
from tests.modules import module_of
from tests.reading import open_risks
from tests.simulator.shard import Shape, SimulatedShard
from twin.arrays.columns_in_arrow import object_array
from twin.builtin import CATALOG, catalog
from twin.declarations.declare import Alert, risk, rule
from twin.declarations.signature import Before
from twin.declarations.table import (
    NO_BROKER,
    Array,
    Column,
    Int32,
    Int64,
    KeyedTable,
    PartitionTable,
    ReplicaTable,
    SparseTable,
    Table,
    column,
)
from twin.engine import codec, frames
from twin.engine.catalog import Catalog
from twin.engine.codec import decode, encode, encode_parts
from twin.engine.frames import InvalidFrame
from twin.engine.risks import RiskStates
from twin.engine.shard_state import ShardState, concatenated
from twin.rules.partitions.growth import Growth
from twin.rules.partitions.leaders import Leaders
from twin.step import step
from twin.tables.state import Assignment, Partitions

SHAPE = Shape(topics=3, partitions=4, fetches=True, groups=2)


@cache
@cache
def simulated(made: Catalog = CATALOG, seed: int = 0, cycles: int = 4) -> ShardState:
    """A state with a history; made once, since it cannot be changed."""
    state = ShardState.empty(made, "sim", 0, 1)
    for observation in SimulatedShard(SHAPE, seed).run(cycles, NOW_MS):
        state, _ = step(state, observation, observation[0].header.observed_at_ms)
    return state


def differing(one: ShardState, other: ShardState, made: Catalog = CATALOG) -> set[str]:
    """Tables that are not the same in both, of those that the catalog stores."""
    pairs = [(t.kind, one[t], other[t]) for t in made.stored]
    pairs += [(f"before.{t.kind}", one.of_before(t), other.of_before(t)) for t in made.remembered]
    used = one[Assignment].broker != NO_BROKER
    assert np.array_equal(used, other[Assignment].broker != NO_BROKER)
    return {name for name, mine, theirs in pairs if not _same(mine, theirs, used)}


def _same(one: Table, other: Table, used: Array) -> bool:
    """Slots without a replica hold nothing that is sent."""
    by_slot = isinstance(one, ReplicaTable)
    return all(
        np.array_equal(
            mine[used] if by_slot else mine,
            theirs[used] if by_slot else theirs,
            equal_nan=mine.dtype.kind == "f",
        )
        for mine, theirs in zip(one.values(), other.values(), strict=True)
    )


def rewritten(
    message: bytes, change: Callable[[dict[str, str], pa.Table], pa.Table | None]
) -> bytes:
    """The message with frames changed: metadata in place, rows as returned, None for no frame."""
    written = []
    for metadata, rows in frames.streams(message):
        changed = change(metadata, rows)
        if changed is not None:
            sink = pa.BufferOutputStream()
            changed = changed.replace_schema_metadata(metadata)
            with pa.ipc.new_stream(sink, changed.schema) as writer:
                writer.write_table(changed)
            written.append(sink.getvalue().to_pybytes())
    return b"".join(written)


def upgraded(version: int) -> Catalog:
    """A catalog with four tables of its own, one of each shape; their columns changed once."""

    class PerPartition(PartitionTable, kind="per_partition_test", version=version):
        """[P] one number a partition."""

        number: Int64 if version == 1 else Int32 = column("a number")

    class PerReplica(ReplicaTable, kind="per_replica_test", version=version):
        """[P, R] one number a replica."""

        number: Int64 if version == 1 else Int32 = column("a number")

    class Few(SparseTable, kind="sparse_test", version=version):
        """[N] one number a partition that has any."""

        number: Int64 if version == 1 else Int32 = column("a number")

    class Keyed(KeyedTable, kind="keyed_test", version=version):
        """[1] one number."""

        number: Int64 if version == 1 else Int32 = column("a number")

    class OnDemand(SparseTable, kind="on_demand_test", version=version, on_demand="a test"):
        """[N] the leader's log end of every other partition."""

        number: Int64 if version == 1 else Int32 = column("a number")

    dtype = PerPartition.columns[0].dtype

    @rule
    def per_partition(leaders: Leaders, before: Before[PerPartition]) -> PerPartition:
        return PerPartition(leaders.log_end_offset.astype(dtype))

    @rule
    def per_replica(assignment: Assignment, before: Before[PerReplica]) -> PerReplica:
        return PerReplica(assignment.broker.astype(dtype))

    @rule
    def few(leaders: Leaders, before: Before[Few]) -> Few:
        row = np.arange(0, len(leaders.slot), 3, dtype=np.int32)
        return Few(row, leaders.log_end_offset[row].astype(dtype))

    @rule
    def keyed(partitions: Partitions, before: Before[Keyed]) -> Keyed:
        return Keyed(np.array([len(partitions.leader)], dtype))

    @rule
    def on_demand(leaders: Leaders, before: Before[OnDemand]) -> OnDemand:
        row = np.arange(0, len(leaders.slot), 2, dtype=np.int32)
        return OnDemand(row, leaders.log_end_offset[row].astype(dtype))

    module = module_of("elsewhere", PerPartition, PerReplica, Few, Keyed, OnDemand,
                       per_partition, per_replica, few, keyed, on_demand)  # fmt: skip
    return catalog(more=(module,))


OLD, NEW = upgraded(1), upgraded(2)
OWN = {"per_partition_test", "per_replica_test", "sparse_test", "keyed_test"}
REMEMBERED = {f"before.{kind}" for kind in (*OWN, "on_demand_test")}


# ---------------------------------------------------------------- a round trip


def values_of(declared: Column, shape: int | tuple[int, ...]) -> st.SearchStrategy[Array]:
    """Arrays of everything that the column can hold."""
    if pa.types.is_dictionary(declared.arrow) and declared.dtype != object:  # numbers of risks
        numbers = st.integers(0, len(CATALOG.risk_names) - 1)
        return numpy_strategies.arrays(declared.dtype, shape, elements=numbers)
    if declared.dtype != object:
        return numpy_strategies.arrays(declared.dtype, shape)
    assert isinstance(shape, int)
    of_dictionary = pa.types.is_dictionary(declared.arrow)
    held = declared.arrow.value_type if of_dictionary else declared.arrow
    if pa.types.is_list(held):
        bits = held.value_type.bit_width
        whole = st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        several = st.lists(st.lists(whole, max_size=3), min_size=shape, max_size=shape)
        return several.map(object_array)
    element = {
        pa.string(): st.text(st.characters(codec="utf-8"), max_size=5),
        pa.binary(16): st.binary(min_size=16, max_size=16),
        pa.binary(): st.binary(max_size=5),
    }[held]
    return st.lists(element, min_size=shape, max_size=shape).map(object_array)


@st.composite
def tables(draw: st.DrawFn, table: type[Table], state: ShardState) -> Table:
    """Tables of that kind that fit the state."""
    if issubclass(table, PartitionTable):
        return table.from_values(draw(values_of(c, state.partitions)) for c in table.columns)
    if issubclass(table, ReplicaTable):
        shape = state.partitions, state.slots
        return table.from_values(draw(values_of(c, shape)) for c in table.columns)
    count = draw(st.integers(0, 4))
    values = [draw(values_of(c, count)) for c in table.columns]
    if issubclass(table, SparseTable):
        rows = st.lists(st.integers(0, state.partitions - 1), min_size=count, max_size=count)
        values[0] = np.array(sorted(draw(rows)), np.int32)
    return table.from_values(values)


STORED = [table for table in CATALOG.stored if table not in codec.SPINE]


class TestRoundTrip:
    @pytest.mark.parametrize("table", STORED, ids=lambda table: table.kind)
    @examples(20)
    @given(draw=st.data())
    def test_every_stored_table_comes_back_whatever_its_columns_hold(self, table, draw):
        state = simulated()
        held = draw.draw(tables(table, state))
        decoded = decode(encode(state.with_tables(held)), CATALOG)
        assert decoded.discarded == ()
        assert differing(state.with_tables(held), decoded.state) == set()
        assert [v.dtype for v in decoded.state[table].values()] == [c.dtype for c in table.columns]

    @pytest.mark.parametrize("table", CATALOG.remembered, ids=lambda table: table.kind)
    @examples(20)
    @given(draw=st.data())
    def test_every_remembered_table_comes_back_whatever_its_columns_hold(self, table, draw):
        held = draw.draw(tables(table, simulated()))
        state = simulated()
        state = replace(state, before={**state.before, table: held})
        assert differing(state, decode(encode(state), CATALOG).state) == set()

    def test_what_is_no_table_comes_back(self):
        state = simulated()
        again = decode(encode(state), CATALOG).state
        for name in ("cluster", "shard", "shards", "observed_at_ms", "prev_observed_at_ms",
                     "cycle", "listing"):  # fmt: skip
            assert getattr(again, name) == getattr(state, name), name
        assert again.topic_names().tolist() == state.topic_names().tolist()

    @given(parts=st.frozensets(st.integers(0, 300)))
    def test_the_parts_of_a_listing_that_arrived_come_back(self, parts):
        listing = replace(empty().listing, at_ms=NOW_MS, parts_seen=parts)
        state = replace(empty(), listing=listing)
        assert decode(encode(state), CATALOG).state.listing == listing

    def test_an_empty_shard_comes_back(self):
        decoded = decode(encode(empty("c", 3, 7)), CATALOG)
        assert decoded.discarded == ()
        state = decoded.state
        assert (state.partitions, state.slots, state.shard, state.shards) == (0, 1, 3, 7)

    def test_encoding_again_gives_the_same_bytes(self):
        message = encode(simulated())
        assert encode(decode(message, CATALOG).state) == message


class TestParts:
    @pytest.mark.parametrize("own", [False, True])
    @examples(30)
    @given(seed=st.integers(0, 3), share=st.floats(0.8, 1.0))
    def test_parts_put_together_are_the_whole(self, own, seed, share):
        made = OLD if own else CATALOG
        state = simulated(made, seed)
        messages = encode_parts(state, int(len(encode(state)) * share))
        decoded = [decode(message, made) for message in messages]
        assert all(each.discarded == () for each in decoded)
        assert sum(each.state.partitions for each in decoded) == state.partitions
        whole = concatenated([each.state for each in decoded])
        assert differing(state, whole, made) == set()
        assert encode(whole) == encode(state)

    @pytest.mark.parametrize("own", [False, True])
    @examples(30)
    @given(cuts=st.lists(st.integers(0, 12), max_size=4), seed=st.integers(0, 3))
    def test_a_state_that_is_cut_anywhere_and_put_together_is_the_whole(self, own, cuts, seed):
        made = OLD if own else CATALOG
        state = simulated(made, seed)
        rows = np.split(np.arange(state.partitions), sorted(cuts))
        parts = [decode(encode(state.take(each)), made).state for each in rows]
        assert encode(concatenated(parts)) == encode(state)

    def test_a_message_says_which_part_it_is(self):
        messages = encode_parts(simulated(), len(encode(simulated())) * 3 // 4)
        headers = [frames.header_of(m) for each in messages for m, _ in frames.streams(each)]
        assert {header.parts for header in headers} == {len(messages)}
        assert {header.part for header in headers} == set(range(len(messages)))

    @examples(10)
    @given(seed=st.integers(0, 3), share=st.floats(0.3, 0.9))
    def test_parts_back_to_back_are_read_as_the_whole(self, seed, share):
        state = simulated(CATALOG, seed)
        messages = encode_parts(state, int(len(encode(state)) * share))
        assert len(messages) > 1
        decoded = decode(b"".join(messages), CATALOG)
        assert decoded.discarded == ()
        assert encode(decoded.state) == encode(state)

    def test_a_part_that_is_missing_between_others_is_refused(self):
        messages = encode_parts(simulated(), len(encode(simulated())) // 3)
        with pytest.raises(InvalidFrame, match="parts: of"):
            decode(messages[0] + messages[2], CATALOG)

    def test_the_number_of_parts_depends_on_the_state_alone(self):
        state = simulated()
        limit = len(encode(state)) // 2
        again = decode(b"".join(encode_parts(state, limit)), CATALOG).state
        assert encode_parts(again, limit) == encode_parts(state, limit)

    def test_a_state_below_the_limit_is_one_message(self):
        assert encode_parts(simulated()) == [encode(simulated())]


# ---------------------------------------------------------------- upgrades


def names(discarded: tuple[str, ...]) -> set[str]:
    return {sentence.partition(":")[0] for sentence in discarded}


def of_version_99(table: type[Table]) -> bytes:
    """The simulated state as if another version of the table had been in it."""

    def change(metadata: dict[str, str], rows: pa.Table) -> pa.Table:
        if metadata["kind"] == f"state.{table.kind}":
            metadata["version"] = "99"
        metadata["tables"] = ",".join(
            f"{table.kind}=99" if entry.startswith(f"{table.kind}=") else entry
            for entry in metadata.get("tables", "").split(",")
        )
        return rows

    return rewritten(encode(simulated()), change)


class TestUpgrades:
    def test_tables_of_another_catalog_come_back_too(self):
        state = simulated(OLD)
        decoded = decode(encode(state), OLD)
        assert decoded.discarded == ()
        assert differing(state, decoded.state, OLD) == set()
        assert {table.kind for table in decoded.state.tables} >= OWN

    def test_a_table_whose_version_changed_is_discarded_alone(self):
        state = simulated(OLD)
        decoded = decode(encode(state), NEW)
        assert names(decoded.discarded) == OWN | REMEMBERED
        assert "sparse_test: version 1, this version has 2" in decoded.discarded
        assert differing(state, decoded.state, CATALOG) == set()
        for table in (*NEW.stored, *NEW.remembered):
            if table.kind in OWN:
                blank = ShardState.empty(NEW, "", 0, 1).take(np.full(state.partitions, -1))
                blank = blank.with_slot_capacity(state.slots)
                for mine, theirs in zip(
                    decoded.state[table].values(), blank[table].values(), strict=True
                ):
                    assert np.array_equal(mine, theirs)
                    assert mine.dtype == theirs.dtype

    def test_the_next_cycle_makes_a_discarded_table_anew(self):
        state = decode(encode(simulated(OLD)), NEW).state
        shard = SimulatedShard(SHAPE, 0)
        observation = list(shard.run(5, NOW_MS))[-1]
        at_ms = observation[0].header.observed_at_ms
        upgraded_state, _ = step(state, observation, at_ms)
        fresh, _ = step(simulated(NEW), observation, at_ms)
        # The new rule made the table on demand before that cycle began.
        remembered = REMEMBERED - {"before.on_demand_test"}
        assert differing(upgraded_state, fresh, NEW) == remembered

    @pytest.mark.parametrize("table", STORED, ids=lambda table: table.kind)
    def test_the_next_cycle_goes_on_whichever_table_was_discarded(self, table):
        decoded = decode(of_version_99(table), CATALOG)
        is_wide = issubclass(table, PartitionTable | ReplicaTable)
        sent = is_wide or len(simulated()[table].values()[0])
        with_it = {other.kind for other in STORED if table in other.counts_in}
        assert names(decoded.discarded) == ({table.kind} | with_it if sent else set())
        observation = list(SimulatedShard(SHAPE, 0).run(5, NOW_MS))[-1]
        at_ms = observation[0].header.observed_at_ms
        state, _ = step(decoded.state, observation, at_ms)
        expected, _ = step(simulated(), observation, at_ms)
        assert state.topic_names().tolist() == expected.topic_names().tolist()
        assert np.array_equal(state[Assignment].broker, expected[Assignment].broker)
        assert np.array_equal(state[Partitions].leader, expected[Partitions].leader)

    def test_a_table_that_the_message_does_not_have_is_blank(self):
        state = simulated()
        decoded = decode(encode(state), OLD)
        assert decoded.discarded == ()
        assert differing(state, decoded.state, CATALOG) == set()
        for table in OLD.stored:
            if table.kind in OWN - {"keyed_test", "sparse_test"}:
                assert (decoded.state[table].number == -1).all()
                assert (decoded.state.of_before(table).number == -1).all()
            elif table.kind in OWN:
                assert len(decoded.state[table].number) == 0

    def test_tables_that_this_version_does_not_have_are_named_and_left_out(self):
        state = simulated(OLD)
        decoded = decode(encode(state), CATALOG)
        assert names(decoded.discarded) == OWN | REMEMBERED
        assert all("this version does not have it" in each for each in decoded.discarded)
        assert differing(state, decoded.state, CATALOG) == set()
        assert encode(decoded.state) == encode(simulated())

    def test_a_proposal_that_was_switched_off_since_is_named(self):
        fewer = catalog(proposals=())
        decoded = decode(encode(simulated()), fewer)
        assert "kip1303_leadership" in names(decoded.discarded)
        assert differing(simulated(), decoded.state, fewer) == set()

    @pytest.mark.parametrize("table", codec.SPINE, ids=lambda table: table.kind)
    def test_another_version_of_the_spine_refuses_the_whole(self, table):
        message = of_version_99(table)
        with pytest.raises(InvalidFrame, match=f"{table.kind}: version 99, this") as refusal:
            decode(message, CATALOG)
        assert refusal.value.reason == "version"

    @pytest.mark.parametrize("kind", [
        codec.PER_PARTITION, codec.PER_REPLICA, "state.topics", "state.listing",
    ])  # fmt: skip
    def test_a_message_without_a_frame_that_every_state_has_is_refused(self, kind):
        def change(metadata: dict[str, str], rows: pa.Table) -> pa.Table | None:
            return None if metadata["kind"] == kind else rows

        with pytest.raises(InvalidFrame, match=kind) as refusal:
            decode(rewritten(encode(simulated()), change), CATALOG)
        assert refusal.value.reason == "kind"


class TestColumnsThatDiffer:
    """Though the version is the same: a table is read as it was declared, or not at all."""

    @staticmethod
    def without(kind: str, name: str) -> bytes:
        def change(metadata: dict[str, str], rows: pa.Table) -> pa.Table:
            return rows.drop_columns([name]) if metadata["kind"] == kind else rows

        return rewritten(encode(simulated()), change)

    @pytest.mark.parametrize(
        ("kind", "name", "table"),
        [
            (codec.PER_PARTITION, "growth.appended_records_per_s", "growth"),
            (codec.PER_PARTITION, "before.leader_ends.offset", "before.leader_ends"),
            (codec.PER_REPLICA, "caught_up.caught_up_at_ms", "caught_up"),
            ("state.brokers", "rack", "brokers"),
            ("state.follower_states", "log_end_offset", "follower_states"),
        ],
    )
    def test_a_table_without_one_of_its_columns_is_discarded_alone(self, kind, name, table):
        decoded = decode(self.without(kind, name), CATALOG)
        (sentence,) = decoded.discarded
        tables = (*CATALOG.stored, *CATALOG.remembered)
        stored = {made.kind: made.version for made in tables}
        version = stored[table.removeprefix("before.")]
        assert sentence == f"{table}: its columns are not those of version {version}"
        assert differing(simulated(), decoded.state) == {table}

    def test_a_column_of_another_type_or_one_too_many_discards_its_table(self):
        def narrowed(metadata: dict[str, str], rows: pa.Table) -> pa.Table:
            if metadata["kind"] != codec.PER_PARTITION:
                return rows
            name = "growth.appended_records_per_s"
            place = rows.schema.get_field_index(name)
            return rows.set_column(place, name, rows.column(name).cast(pa.float32()))

        def widened(metadata: dict[str, str], rows: pa.Table) -> pa.Table:
            if metadata["kind"] != codec.PER_PARTITION:
                return rows
            return rows.append_column("growth.more", pa.nulls(rows.num_rows, pa.int64()))

        for change in (narrowed, widened):
            decoded = decode(rewritten(encode(simulated()), change), CATALOG)
            assert names(decoded.discarded) == {Growth.kind}

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            (codec.PER_PARTITION, "partition_index.partition"),
            (codec.PER_REPLICA, "assignment.broker"),
            ("state.topics", "topic_id"),
        ],
    )
    def test_the_spine_with_other_columns_refuses_the_whole(self, kind, name):
        with pytest.raises(InvalidFrame, match="its columns are not those of version 1"):
            decode(self.without(kind, name), CATALOG)

    def test_the_number_of_slots_is_needed(self):
        with pytest.raises(InvalidFrame, match=codec.SLOTS_USED) as refusal:
            decode(self.without(codec.PER_PARTITION, codec.SLOTS_USED), CATALOG)
        assert refusal.value.reason == "columns"


class TestRowsThatDoNotFit:
    @staticmethod
    def changed(kind: str, change: Callable[[pa.Table], pa.Table]) -> bytes:
        return rewritten(
            encode(simulated()),
            lambda metadata, rows: change(rows) if metadata["kind"] == kind else rows,
        )

    @staticmethod
    def with_value(rows: pa.Table, name: str, value: int) -> pa.Table:
        """The rows with another value in the last row of a column."""
        values = rows.column(name).to_pylist()
        made = pa.array([*values[:-1], value], rows.schema.field(name).type)
        return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), made)

    @pytest.mark.parametrize(
        ("kind", "change"),
        [
            (codec.PER_REPLICA, lambda rows: rows.slice(1)),
            (codec.PER_PARTITION, lambda rows: rows.slice(1)),
            ("state.listing", lambda rows: rows.slice(1)),
            ("state.listing", lambda rows: rows.drop_columns(["listed_parts"])),
        ],
    )
    def test_rows_that_are_missing(self, kind, change):
        with pytest.raises(InvalidFrame) as refusal:
            decode(self.changed(kind, change), CATALOG)
        assert refusal.value.reason == "rows"

    @pytest.mark.parametrize("value", [-1, 12, 2**31 - 1])
    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            ("state.follower_states", "row"),
            (codec.PER_PARTITION, "partition_index.topic_index"),
        ],
    )
    def test_a_row_that_names_what_is_not_there(self, kind, name, value):
        message = self.changed(kind, lambda rows: self.with_value(rows, name, value))
        with pytest.raises(InvalidFrame) as refusal:
            decode(message, CATALOG)
        assert refusal.value.reason == "rows"

    @examples(300)
    @given(noise=st.binary(max_size=40), at=st.integers(0, 2**16), cut=st.booleans(),
           plain=st.booleans())  # fmt: skip
    def test_no_bytes_crash_the_reader(self, noise, at, cut, plain):
        # Compressed as it is sent, or plain, so that a change reaches the columns themselves.
        whole = (
            rewritten(encode(simulated()), lambda _, rows: rows) if plain else encode(simulated())
        )
        at %= len(whole)
        message = whole[:at] + noise + (b"" if cut else whole[at + len(noise) :])
        with contextlib.suppress(InvalidFrame):
            decode(message, CATALOG)


# ---------------------------------------------------------------- risks by name


class TestRisksOfAnotherCatalog:
    @staticmethod
    def with_risks(*ranks: int) -> Catalog:
        """A catalog with a risk of each rank, which is open wherever broker 1 leads."""

        def leads(partitions: Partitions):
            return partitions.leader == 1

        for i in ranks:
            risk(f"rank_{i}", rank=i, severity="info", sentence="broker 1 leads", source="",
                 alert=Alert("", "", "0s", "0s"))(leads)  # fmt: skip
        return catalog(more=(module_of("elsewhere", leads),))

    @staticmethod
    def state(made: Catalog) -> ShardState:
        """Some open risks: the leader of a is cold, and nobody leads b."""
        parts = [
            Partition("a", log=Log(local_start=1, size_bytes=1)),
            Partition("b", leader=NO_BROKER),
        ]
        state = a_state(
            *parts, since=ShardState.empty(made, "c", 0, 1), eligible_local_log_bytes=100
        )
        assert "leader_cold" in open_risks(state, 0) - open_risks(state, 1)
        assert "partition_offline" in open_risks(state, 1) - open_risks(state, 0)
        return state

    def test_they_are_matched_by_name_where_the_numbers_differ(self):
        more = self.with_risks(-1, 75)
        assert more.risk_names.index("leader_cold") != CATALOG.risk_names.index("leader_cold")
        before = self.state(CATALOG)
        decoded = decode(encode(before), more)
        assert decoded.discarded == ()
        for row in (0, 1):
            assert open_risks(decoded.state, row) == open_risks(before, row)

    def test_those_that_this_catalog_does_not_have_are_over_and_the_others_stay(self):
        before = self.state(self.with_risks(-1, 75))
        own = {"rank_-1", "rank_75"}
        assert open_risks(before, 0) > own
        decoded = decode(encode(before), CATALOG)
        assert decoded.discarded == ()
        for row in (0, 1):
            assert open_risks(decoded.state, row) == open_risks(before, row) - own
        assert encode(decoded.state) == encode(self.state(CATALOG))

    def test_timers_go_on_under_another_number(self):
        warm = Partition("a", log=Log(size_bytes=1_000)), Partition("b", leader=NO_BROKER)
        state = a_state(*warm, at_ms=NOW_MS + 5_000, since=self.state(self.with_risks(-1)))
        assert (0, "leader_cold", True, NOW_MS + 5_000) in self.timers(state)
        again = decode(encode(state), self.with_risks(75)).state
        assert self.timers(again) == {each for each in self.timers(state) if each[1] != "rank_-1"}

    @staticmethod
    def timers(state: ShardState) -> set[tuple[int, str, bool, int]]:
        """Row, name, whether it is open, and since when it waits."""
        held = state[RiskStates]
        risks = [state.catalog.risk_names[number] for number in held.risk]
        columns = held.row.tolist(), risks, held.is_open.tolist(), held.since_ms.tolist()
        return set(zip(*columns, strict=True))
