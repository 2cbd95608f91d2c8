"""A function's parameters say what it reads: what each of them gets, and what is refused."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from tests.builders import NOW_MS, Log, Partition, a_state, empty, partitions_frame, replicas_frame
from tests.cycles import listed_frames
from tests.modules import module_of
from twin.builtin import catalog
from twin.declarations.declare import event, rule
from twin.declarations.signature import (
    Before,
    Cycle,
    DeclarationError,
    Earlier,
    Lazy,
    NowMs,
    Parameter,
    Reads,
    TableGroup,
    makes,
    parameters,
    without_groups,
)
from twin.declarations.table import UNKNOWN, Int64, PartitionTable, column
from twin.engine.shard_state import ShardState
from twin.rules.partitions.leaders import LeaderEnds, Leaders
from twin.step import step
from twin.tables.state import Partitions

LATER_MS = NOW_MS + 5_000


class Ends(PartitionTable, kind="ends"):
    """[P] numbers made of log ends."""

    number: Int64 = column("a number")


@dataclass(frozen=True)
class EndsAndTime(TableGroup):
    """A group of two parameters."""

    before: Before[LeaderEnds]
    now_ms: NowMs


def the_parameter(function):
    (parameter,) = parameters(function)
    return parameter


class TestKindsOfParameters:
    def test_a_table(self):
        def read(ends: LeaderEnds) -> Ends: ...

        assert the_parameter(read) == Parameter("ends", Reads.TABLE, LeaderEnds)

    def test_the_table_as_the_previous_cycle_left_it(self):
        def read(ends: Before[LeaderEnds]) -> Ends: ...

        assert the_parameter(read) == Parameter("ends", Reads.BEFORE, LeaderEnds)

    def test_the_table_as_the_last_step_left_it(self):
        def read(ends: Earlier[LeaderEnds]) -> Ends: ...

        assert the_parameter(read) == Parameter("ends", Reads.EARLIER, LeaderEnds)

    def test_a_table_that_may_not_be_needed(self):
        def read(ends: Lazy[LeaderEnds]) -> Ends: ...

        assert the_parameter(read) == Parameter("ends", Reads.LAZY, LeaderEnds)

    def test_time_and_cycle_have_no_table(self):
        def read(now_ms: NowMs, cycle: Cycle) -> Ends: ...

        assert parameters(read) == (
            Parameter("now_ms", Reads.TIME),
            Parameter("cycle", Reads.CYCLE),
        )

    def test_a_group_of_tables_has_a_parameter_for_each_field(self):
        def read(both: EndsAndTime) -> Ends: ...

        fields = Parameter("before", Reads.BEFORE, LeaderEnds), Parameter("now_ms", Reads.TIME)
        group = the_parameter(read)
        assert group == Parameter("both", Reads.GROUP, group=EndsAndTime, parts=fields)
        assert without_groups([group]) == fields

    def test_annotations_may_be_text(self):
        def read(ends: "Before[LeaderEnds]") -> "Ends": ...

        assert the_parameter(read) == Parameter("ends", Reads.BEFORE, LeaderEnds)
        assert makes(read) is Ends

    def test_a_function_without_parameters_reads_nothing(self):
        def read() -> Ends: ...

        assert parameters(read) == ()


class TestRefusals:
    @pytest.mark.parametrize(
        "hint",
        [int, "int", Ends | None, list[Ends], Annotated[Ends, "text"], Before[int], Lazy[int],
         Before[Lazy[Ends]], Annotated[Ends, Reads.BEFORE, "more"], PartitionTable],
        ids=str,
    )  # fmt: skip
    def test_a_parameter_that_is_no_table(self, hint):
        def read(ends) -> Ends: ...

        read.__annotations__["ends"] = hint
        with pytest.raises(DeclarationError, match=r"test_signature\.read: parameter ends must"):
            parameters(read)

    def test_a_field_of_a_group_that_is_no_table(self):
        @dataclass(frozen=True)
        class Numbers(TableGroup):
            number: int

        def read(numbers: Numbers) -> Ends: ...

        with pytest.raises(DeclarationError, match=r"Numbers: parameter number must be a table"):
            parameters(read)

    def test_a_parameter_without_an_annotation(self):
        def read(ends) -> Ends: ...

        with pytest.raises(DeclarationError, match="parameter ends must be a table"):
            rule(read)

    @pytest.mark.parametrize("hint", [None, int, PartitionTable, list[Ends]], ids=str)
    def test_a_rule_that_returns_no_table_of_a_kind(self, hint):
        def read(ends: LeaderEnds): ...

        read.__annotations__["return"] = hint
        with pytest.raises(DeclarationError, match="must return a table with a kind"):
            rule(read)

    def test_a_rule_that_does_not_say_what_it_returns(self):
        def read(ends: LeaderEnds): ...

        with pytest.raises(DeclarationError, match="must return a table with a kind"):
            makes(read)


# ---------------------------------------------------------------- what they get


def with_rule(*declared) -> ShardState:
    made = catalog(more=(module_of("elsewhere", *declared),))
    return ShardState.empty(made, "c", 0, 1)


def ending_at(end: int) -> Partition:
    return Partition(replicas=(1,), log=Log(end=end))


def cycle(state: ShardState, end: int, at_ms: int, now_ms: int | None = None) -> ShardState:
    part = ending_at(end)
    frames = listed_frames([part], at_ms)
    return step(state, frames, at_ms if now_ms is None else now_ms)[0]


class TestWhatTheyGet:
    def test_before_is_what_the_previous_cycle_left_however_many_steps_this_one_takes(self):
        @rule
        def previous(before: Before[LeaderEnds]) -> Ends:
            return Ends(before.offset)

        state = cycle(with_rule(Ends, previous), 100, NOW_MS)
        assert state[Ends].number.tolist() == [UNKNOWN]
        part = ending_at(140)
        for frame in listed_frames([part], LATER_MS):
            state, _ = step(state, [frame], LATER_MS)
            assert state[Ends].number.tolist() == [100]
        assert cycle(state, 150, LATER_MS + 1)[Ends].number.tolist() == [140]

    def test_a_table_can_be_summed_up_over_cycles_by_its_own_rule(self):
        @rule
        def total(ends: LeaderEnds, before: Before[Ends]) -> Ends:
            return Ends(np.maximum(before.number, 0) + ends.offset)

        state = with_rule(Ends, total)
        for i, end in enumerate((1, 10, 100)):
            state = cycle(state, end, NOW_MS + i * 5_000)
        assert state[Ends].number.tolist() == [111]
        assert state.of_before(Ends).number.tolist() == [11]

    def test_before_follows_its_partition_to_another_row(self):
        @rule
        def previous(before: Before[LeaderEnds]) -> Ends:
            return Ends(before.offset)

        state = cycle(with_rule(Ends, previous), 100, NOW_MS)
        parts = [Partition("a"), ending_at(120)]
        state, _ = step(state, [partitions_frame(parts, LATER_MS)], LATER_MS)
        assert state.topic_names().tolist() == ["a", "t"]
        assert state[Ends].number.tolist() == [UNKNOWN, 100]

    def test_earlier_is_what_the_last_step_left_also_within_a_cycle(self):
        @rule
        def steps(earlier: Earlier[Ends]) -> Ends:
            return Ends(np.maximum(earlier.number, 0) + 1)

        state = cycle(with_rule(Ends, steps), 100, NOW_MS)
        assert state[Ends].number.tolist() == [1]
        for count in (2, 3):
            state, _ = step(state, [replicas_frame([ending_at(100)], LATER_MS)], LATER_MS)
            assert state[Ends].number.tolist() == [count]

    def test_a_lazy_table_is_made_once_it_is_asked_for(self):
        class Calls(PartitionTable, kind="calls", on_demand="a test"):
            """[P] made on demand."""

            number: Int64 = column("a number")

        made = []

        @rule
        def calls(ends: LeaderEnds) -> Calls:
            made.append(len(ends.offset))
            return Calls(ends.offset)

        @rule
        def above(ends: LeaderEnds, lazy: Lazy[Calls]) -> Ends:
            return Ends(lazy().number + lazy().number if ends.offset.max() > 100 else ends.offset)

        state = cycle(with_rule(Calls, Ends, calls, above), 100, NOW_MS)
        assert (state[Ends].number.tolist(), made) == ([100], [])
        state = cycle(state, 101, LATER_MS)
        assert (state[Ends].number.tolist(), made) == ([202], [1])

    def test_a_group_is_made_of_what_its_fields_name(self):
        @rule
        def changed(ends: LeaderEnds, both: EndsAndTime) -> Ends:
            return Ends(ends.offset - both.before.offset + both.now_ms)

        state = cycle(with_rule(Ends, changed), 100, NOW_MS)
        assert cycle(state, 140, LATER_MS)[Ends].number.tolist() == [40 + LATER_MS]

    def test_the_time_is_that_of_the_judgement(self):
        @rule
        def judged(partitions: Partitions, now_ms: NowMs) -> Ends:
            return Ends(np.full(len(partitions.leader), now_ms))

        state = cycle(with_rule(Ends, judged), 100, NOW_MS, now_ms=NOW_MS + 7)
        assert state[Ends].number.tolist() == [NOW_MS + 7]
        assert state.assessed(LATER_MS)[Ends].number.tolist() == [LATER_MS]

    def test_the_cycle_says_when_it_was_and_the_one_before_it(self):
        cycles = []

        @rule
        def noted(partitions: Partitions, cycle: Cycle) -> Ends:
            cycles.append(cycle)
            return Ends(np.zeros(len(partitions.leader), np.int64))

        state = cycle(with_rule(Ends, noted), 100, NOW_MS)
        part = ending_at(100)
        step(state, [partitions_frame([part], LATER_MS, complete=False)], LATER_MS)
        assert cycles == [Cycle(NOW_MS, UNKNOWN, NOW_MS), Cycle(LATER_MS, NOW_MS, NOW_MS)]

    def test_earlier_is_the_table_before_the_step_with_its_rows_where_they_are_now(self):
        compared = []

        @event("ends_compared")
        def compare(was: Earlier[Leaders], now: Leaders):
            compared.append((was.log_end_offset.tolist(), now.log_end_offset.tolist()))
            return []

        state = cycle(with_rule(compare), 100, NOW_MS)
        parts = [Partition("a", log=Log(end=7)), ending_at(120)]
        step(state, listed_frames(parts, LATER_MS), LATER_MS)
        assert compared == [([UNKNOWN, 100], [7, 120])]

    def test_any_function_can_be_called_with_the_tables_of_a_state(self):
        def ends(leaders: Leaders, now_ms: NowMs) -> tuple[list[int], int]:
            return leaders.log_end_offset.tolist(), now_ms

        assert a_state(ending_at(9)).call(ends, parameters(ends)) == ([9], NOW_MS)
        assert empty().call(ends, parameters(ends)) == ([], UNKNOWN)
