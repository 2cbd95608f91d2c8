"""Tables: their columns, blank rows, and changes of their rows and slots."""

from enum import IntEnum, IntFlag
from typing import Annotated

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from twin.arrays.columns_in_arrow import to_arrow, to_numpy
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Bool,
    Float64,
    Int8,
    Int32,
    Int32List,
    Int64,
    KeyedTable,
    Observation,
    PartitionTable,
    ReplicaTable,
    SegmentId,
    SparseTable,
    Table,
    Text,
    UInt8,
    Uuid,
    blank,
    column,
)


class Mood(IntEnum):
    CALM = 0
    BUSY = 1


class Marks(IntFlag):
    NEW = 1
    OLD = 2


class Loads(PartitionTable, kind="loads", version=3, api="load"):
    """[P] how busy each partition is.

    A second paragraph.
    """

    bytes_per_s: Float64 = column("bytes a second", source="a test", fill=float("nan"))
    mood: Int8 = column("how it is", enum=Mood)
    at_ms: Int64 = column("when", in_api=False)


class Sizes(ReplicaTable, kind="sizes", on_demand="it is cheap"):
    """[P, R] how large each replica is."""

    size: Int64 = column("bytes")
    broker: Int32 = column("broker id", fill=NO_BROKER)
    marks: UInt8 = column("marks", fill=0, flags=Marks)
    is_open: Bool = column("it is open", fill=False)


class Notes(SparseTable, kind="notes"):
    """[N] a few words about few partitions."""

    words: Text = column("any text", fill="")
    number: Int64 = column("a number")


class Ports(KeyedTable, kind="ports"):
    """[K] ports of brokers."""

    broker: Int32 = column("broker id")
    port: Int32 = column("port")


class PortKey(Table):
    """Columns that several tables have in common."""

    port: Int32 = column("port")


class PortsFrame(Observation, PortKey, kind="ports", event=True):
    """One row a port."""

    protocol: Text = column("protocol", fill="")
    ids: Int32List = column("ids", fill=())


class TestDeclaration:
    def test_columns_are_read_from_the_class(self):
        bytes_per_s, mood, at_ms = Loads.columns
        assert (bytes_per_s.name, bytes_per_s.dtype, bytes_per_s.arrow) == (
            "bytes_per_s",
            np.dtype(np.float64),
            pa.float64(),
        )
        assert (bytes_per_s.meaning, bytes_per_s.source) == ("bytes a second", "a test")
        assert (mood.enum, mood.fill, mood.in_api, at_ms.in_api) == (Mood, UNKNOWN, True, False)
        assert Sizes.columns[2].flags is Marks

    def test_class_arguments_say_what_becomes_of_it(self):
        assert (Loads.kind, Loads.version, Loads.api, Loads.stored) == ("loads", 3, "load", True)
        assert (Sizes.version, Sizes.api, Sizes.stored) == (1, None, False)
        assert Sizes.why_on_demand == "it is cheap"
        assert Loads.meaning() == "[P] how busy each partition is."

    def test_a_row_of_a_sparse_table_begins_with_its_partition(self):
        assert [c.name for c in Notes.columns] == ["row", "words", "number"]

    def test_columns_of_a_base_come_first_and_only_its_subclass_has_a_kind(self):
        assert [c.name for c in PortsFrame.columns] == ["port", "protocol", "ids"]
        assert (PortKey.kind, PortsFrame.kind) == ("", "ports")

    def test_an_observation_says_whether_its_rows_are_events(self):
        assert PortsFrame.event
        assert not type("Plain", (Observation,), {}, kind="plain").event

    def test_the_schema_has_arrow_types_and_no_nulls(self):
        assert Notes.schema() == pa.schema(
            [
                pa.field("row", pa.int32(), nullable=False),
                pa.field("words", pa.dictionary(pa.int32(), pa.string()), nullable=False),
                pa.field("number", pa.int64(), nullable=False),
            ]
        )
        ids = PortsFrame.schema().field("ids").type
        assert ids == pa.list_(pa.field("item", pa.int32(), nullable=False))

    def test_a_number_may_be_written_in_another_arrow_type_than_its_own(self):
        named = pa.dictionary(pa.int32(), pa.string())

        class Named(PartitionTable, kind="named"):
            """[P] numbers with names."""

            number: Annotated[NDArray[np.int16], named] = column("a number")

        assert Named.columns[0].dtype == np.int16
        assert Named.schema().field("number").type == named

    def test_tables_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            Loads.blank(1).mood = np.zeros(1, np.int8)

    def test_its_memory_is_that_of_its_arrays(self):
        assert Loads.blank(10).nbytes() == 10 * (8 + 1 + 8)


class TestBlank:
    def test_a_blank_table_holds_what_columns_hold_before_anything_is_known(self):
        loads = Loads.blank(2)
        assert np.isnan(loads.bytes_per_s).all()
        assert loads.mood.tolist() == loads.at_ms.tolist() == [UNKNOWN] * 2
        sizes = Sizes.blank(2, 3)
        assert sizes.size.tolist() == [[UNKNOWN] * 3] * 2
        assert sizes.broker.dtype == np.int32
        assert sizes.marks.tolist() == [[0] * 3] * 2
        assert not sizes.is_open.any()

    def test_an_empty_table_has_no_rows_and_its_types(self):
        assert len(Notes.empty()) == 0
        assert [v.dtype for v in Notes.empty().values()] == [c.dtype for c in Notes.columns]
        assert len(Ports.empty().broker) == 0

    def test_a_blank_list_is_an_empty_one(self):
        assert blank(PortsFrame.columns[2], 2).tolist() == [(), ()]


class TestRows:
    loads = Loads(np.array([0.5, 1.5, 2.5]), np.array([0, 1, 0], np.int8), np.array([5, 6, 7]))

    def test_taken_rows_are_the_old_ones_and_blank_where_there_was_none(self):
        taken = self.loads.take(np.array([2, UNKNOWN, 0]))
        assert taken.bytes_per_s[[0, 2]].tolist() == [2.5, 0.5]
        assert np.isnan(taken.bytes_per_s[1])
        assert taken.mood.tolist() == [0, UNKNOWN, 0]
        assert taken.at_ms.tolist() == [7, UNKNOWN, 5]
        assert [v.dtype for v in taken.values()] == [c.dtype for c in Loads.columns]
        assert len(self.loads.take(np.zeros(0, np.intp)).mood) == 0

    def test_taken_rows_of_replicas_keep_their_slots(self):
        sizes = Sizes.blank(2, 2)
        sizes.size[:] = [[1, 2], [3, 4]]
        assert sizes.take(np.array([1, UNKNOWN])).size.tolist() == [[3, 4], [UNKNOWN] * 2]

    @given(rows=st.lists(st.integers(-1, 2), max_size=6), then=st.data())
    def test_taking_twice_is_taking_once(self, rows, then):
        first = np.array(rows, np.intp)
        second = np.array(then.draw(st.lists(st.integers(-1, len(rows) - 1), max_size=6)), np.intp)
        both = np.array([UNKNOWN if i < 0 else rows[i] for i in second], np.intp)
        one, other = self.loads.take(first).take(second), self.loads.take(both)
        for mine, theirs in zip(one.values(), other.values(), strict=True):
            assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")


class TestSlots:
    sizes = Sizes(
        np.array([[10, 20], [30, 40]]),
        np.array([[1, 2], [3, 4]], np.int32),
        np.array([[0, 1], [2, 3]], np.uint8),
        np.array([[True, False], [False, True]]),
    )

    def test_a_wider_table_has_blank_slots_behind(self):
        wide = self.sizes.with_slot_capacity(4)
        assert wide.size.tolist() == [[10, 20, UNKNOWN, UNKNOWN], [30, 40, UNKNOWN, UNKNOWN]]
        assert wide.marks.tolist() == [[0, 1, 0, 0], [2, 3, 0, 0]]
        assert wide.is_open.tolist() == [[True, False, False, False], [False, True, False, False]]

    def test_replicas_move_to_other_slots_in_the_named_rows_alone(self):
        moved = self.sizes.with_slots(np.array([1]), np.array([[1, UNKNOWN]]))
        assert moved.size.tolist() == [[10, 20], [40, UNKNOWN]]
        assert moved.broker.tolist() == [[1, 2], [4, NO_BROKER]]
        assert moved.marks.tolist() == [[0, 1], [3, 0]]
        assert moved.is_open.tolist() == [[True, False], [True, False]]
        assert [v.dtype for v in moved.values()] == [c.dtype for c in Sizes.columns]
        assert self.sizes.size.tolist() == [[10, 20], [30, 40]], "the old table is as it was"


def notes(*rows: tuple[int, str, int]) -> Notes:
    row, words, number = zip(*rows, strict=True) if rows else ((), (), ())
    return Notes(np.array(row, np.int32), np.array(words, object), np.array(number, np.int64))


def listed(table: Notes) -> list[tuple[int, str, int]]:
    return list(zip(*(value.tolist() for value in table.values()), strict=True))


some_notes = st.lists(
    st.tuples(st.integers(0, 5), st.text(max_size=3), st.integers(-9, 9)), max_size=8
).map(lambda rows: sorted(rows, key=lambda row: row[0]))


class TestSparseRows:
    def test_rows_follow_their_partitions_and_go_with_them(self):
        table = notes((0, "a", 1), (1, "b", 2), (1, "c", 3), (3, "d", 4))
        moved = table.renumbered(np.array([2, 0, UNKNOWN, UNKNOWN]))
        assert listed(moved) == [(0, "b", 2), (0, "c", 3), (2, "a", 1)]
        assert moved.row.dtype == np.int32

    def test_rows_of_two_tables_are_in_the_order_of_partitions(self):
        both = notes((0, "a", 1), (2, "b", 2)).with_rows(notes((1, "c", 3), (2, "d", 4)))
        assert listed(both) == [(0, "a", 1), (1, "c", 3), (2, "b", 2), (2, "d", 4)]
        assert both.row.dtype == np.int32

    def test_rows_are_picked_by_mask_or_index(self):
        table = notes((0, "a", 1), (2, "b", 2), (3, "c", 3))
        assert listed(table.pick(table.number > 1)) == [(2, "b", 2), (3, "c", 3)]
        assert listed(table.pick(np.array([0, 2]))) == [(0, "a", 1), (3, "c", 3)]

    @given(rows=some_notes, order=st.permutations(range(6)), gone=st.sets(st.integers(0, 5)))
    def test_renumbered_rows_ascend_and_none_is_lost_but_those_that_are_gone(
        self, rows, order, gone
    ):
        new_row = np.array([UNKNOWN if i in gone else order[i] for i in range(6)])
        moved = listed(notes(*rows).renumbered(new_row))
        kept = [(order[row], *rest) for row, *rest in rows if row not in gone]
        assert moved == sorted(kept, key=lambda row: row[0])

    @given(one=some_notes, other=some_notes)
    def test_the_rows_of_both_are_those_of_one_and_of_the_other(self, one, other):
        both = listed(notes(*one).with_rows(notes(*other)))
        assert both == sorted([*one, *other], key=lambda row: row[0])


class TestKeyedRows:
    @staticmethod
    def ports(held: dict[int, int]) -> Ports:
        return Ports(np.array(list(held), np.int32), np.array(list(held.values()), np.int32))

    def test_the_other_tables_rows_win_where_keys_are_the_same(self):
        both = self.ports({1: 10, 3: 30}).with_rows(self.ports({2: 21, 3: 31}), "broker")
        assert (both.broker.tolist(), both.port.tolist()) == ([1, 2, 3], [10, 21, 31])

    @given(
        one=st.dictionaries(st.integers(0, 9), st.integers(0, 9)),
        other=st.dictionaries(st.integers(0, 9), st.integers(0, 9)),
    )
    def test_they_are_as_dictionaries_are(self, one, other):
        both = self.ports(one).with_rows(self.ports(other), "broker")
        merged = sorted({**one, **other}.items())
        assert list(zip(both.broker.tolist(), both.port.tolist(), strict=True)) == merged
        assert [v.dtype for v in both.values()] == [c.dtype for c in Ports.columns]


class TestArrow:
    @given(words=st.lists(st.text(st.characters(codec="utf-8"))))
    def test_text_comes_back_whatever_it_is(self, words):
        made = to_arrow(Notes.columns[1], np.array([*words, ""], object)[:-1])
        assert made.type == pa.dictionary(pa.int32(), pa.string())
        assert to_numpy(made).tolist() == words

    @given(ids=st.lists(st.binary(min_size=16, max_size=16)))
    def test_ids_come_back_as_sixteen_bytes(self, ids):
        class Ids(Observation, kind="ids"):
            """One row an id."""

            topic_id: Uuid = column("topic id", fill=b"")
            segment_id: SegmentId = column("segment id", fill=b"")

        values = np.array([*ids, b""], object)[:-1]
        for declared in Ids.columns:
            assert to_numpy(to_arrow(declared, values)).tolist() == ids

    @given(lists=st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4), max_size=4))
    def test_lists_come_back_also_when_all_are_of_one_length(self, lists):
        values = np.fromiter(lists, object, len(lists))
        made = to_arrow(PortsFrame.columns[2], values)
        assert made.type == PortsFrame.columns[2].arrow
        assert [list(each) for each in to_numpy(made)] == lists
