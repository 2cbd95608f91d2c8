"""A catalog of modules: the order of rules, remembered tables, refused declarations."""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_state, partitions_frame
from tests.cycles import listed_frames
from tests.modules import Declared, module_of
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG, catalog
from twin.declarations.declare import (
    Alert,
    Metric,
    api_field,
    counter,
    event,
    gauge,
    ingest,
    risk,
    rule,
)
from twin.declarations.results import ByBroker
from twin.declarations.signature import (
    Before,
    DeclarationError,
    Earlier,
    Lazy,
    TableGroup,
    parameters,
)
from twin.declarations.table import (
    Array,
    Bool,
    Int64,
    KeyedTable,
    Observation,
    PartitionTable,
    column,
)
from twin.engine import codec, frames, state_reader
from twin.engine.catalog import Catalog
from twin.engine.risks import MAX_RISKS, OpenRisks, RiskConditions
from twin.engine.shard_state import ShardState
from twin.proposals import PROPOSALS
from twin.rules.partitions import growth
from twin.rules.partitions.leaders import LeaderEnds, Leaders
from twin.step import step
from twin.tables.state import Assignment, Partitions


class Ends(PartitionTable, kind="ends"):
    """[P] a number a partition."""

    number: Int64 = column("a number")


class Doubled(PartitionTable, kind="doubled"):
    """[P] twice that number."""

    number: Int64 = column("a number")


class Cheap(PartitionTable, kind="cheap", on_demand="it is a copy"):
    """[P] the same number."""

    number: Int64 = column("a number")


@rule
def ends(leaders: Leaders) -> Ends:
    return Ends(leaders.log_end_offset)


@rule
def doubled(cheap: Cheap) -> Doubled:
    return Doubled(2 * cheap.number)


@rule
def cheap(ends: Ends) -> Cheap:
    return Cheap(ends.number)


ALERT = Alert("do something", "{n} partitions of {cluster} do something.", "0s", "1m")


def a_risk(name: str, rank: int = 1_000):
    return risk(
        name, rank=rank, severity="info", sentence="it does something", source="", alert=ALERT
    )


def with_module(*declared: Declared) -> Catalog:
    return catalog(more=(module_of("elsewhere", *declared),))


def refused(*declared: Declared) -> str:
    with pytest.raises(DeclarationError) as refusal:
        with_module(*declared)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


class TestRefusals:
    def test_a_table_that_no_module_declares(self):
        assert refused(doubled, Doubled) == (
            "rule doubled: parameter cheap reads the table cheap, which nobody makes"
        )

    def test_a_table_on_demand_that_no_rule_makes(self):
        assert refused(Cheap) == "table cheap: no rule makes it on demand"

    def test_a_rule_whose_table_no_module_declares(self):
        assert refused(ends) == "rule ends makes a table that no module of the catalog declares"

    def test_two_risks_of_one_rank(self):
        @a_risk("first", rank=70)
        def one(partitions: Partitions) -> Array:
            return partitions.leader == 1

        assert refused(one) == (
            "risks leader_cold and first have the same rank, 70: it is the order in which a person "
            "would act, so each needs one of its own"
        )

    def test_a_risk_that_answers_with_numbers(self):
        @a_risk("led_by")
        def led_by(partitions: Partitions) -> Array:
            return partitions.leader * 1.0

        state = ShardState.empty(with_module(led_by), "c", 0, 1)
        with pytest.raises(DeclarationError, match="risk led_by: its function must return a b"):
            a_state(Partition(), since=state)

    def test_a_parameter_of_an_unknown_type_is_answered_with_all_that_there_are(self):
        def ages(now_ms: int) -> Ends:
            return Ends(np.zeros(now_ms))

        with pytest.raises(DeclarationError) as refusal:
            rule(ages)
        assert str(refusal.value).endswith(
            ".ages: parameter now_ms must be a table with a kind, or Before, Earlier, "
            "Lazy or EachRule of one, a group of tables (TableGroup), NowMs, or Cycle"
        )

    def test_observations_are_no_part_of_a_state(self):
        class PortsFrame(Observation, kind="ports"):
            """One row a port."""

        @gauge("ports", "Ports.")
        def ports(frame: PortsFrame) -> int:
            return 0

        assert refused(PortsFrame, ports) == (
            "metric ports: parameter frame reads the table ports, which nobody makes"
        )

    @pytest.mark.parametrize("lazily", [False, True])
    def test_rules_that_need_each_other_in_a_circle(self, lazily):
        @rule
        def ends(doubled: Lazy[Doubled] if lazily else Doubled) -> Ends:
            return Ends(np.zeros(0, np.int64))

        message = refused(Ends, Doubled, Cheap, ends, doubled, cheap)
        assert message.startswith("rules need each other in a circle: ")
        assert {"ends", "doubled", "cheap"} == set(message.partition(": ")[2].split(" → "))

    def test_rules_that_need_each_other_through_a_group_of_tables(self):
        @dataclass(frozen=True)
        class Numbers(TableGroup):
            doubled: Doubled

        @rule
        def ends(numbers: Numbers) -> Ends:
            return Ends(numbers.doubled.number)

        message = refused(Ends, Doubled, Cheap, ends, doubled, cheap)
        assert message.startswith("rules need each other in a circle: ")

    def test_a_rule_that_needs_its_own_table(self):
        @rule
        def itself(ends: Ends) -> Ends:
            return ends

        assert refused(Ends, itself) == "rules need each other in a circle: ends → ends"

    def test_a_rule_may_need_what_its_own_table_was_before(self):
        @rule
        def itself(before: Before[Ends], earlier: Earlier[Ends]) -> Ends:
            return before

        assert Ends in with_module(Ends, itself).rules

    def test_two_rules_for_one_table(self):
        @rule
        def more_ends(leaders: Leaders) -> Ends:
            return Ends(leaders.log_end_offset)

        assert refused(Ends, ends, more_ends) == "rule for table ends is declared twice"

    def test_a_rule_for_a_table_of_the_engine(self):
        @rule
        def conditions(partitions: Partitions) -> RiskConditions:
            return RiskConditions(np.zeros(len(partitions.leader), np.int64))

        assert refused(conditions) == "rule for table risk_conditions is declared twice"

    def test_two_tables_of_one_kind(self):
        class Others(PartitionTable, kind="partitions"):
            """[P] another table of a kind that there is."""

        assert refused(Others) == "table partitions is declared twice"

    def test_two_observations_of_one_kind(self):
        class OthersFrame(Observation, kind="brokers"):
            """One row a broker."""

        assert refused(OthersFrame) == "observation brokers is declared twice"

    def test_an_ingest_of_frames_that_no_module_declares(self):
        class PortsFrame(Observation, kind="ports"):
            """One row a port."""

        @ingest(PortsFrame)
        def take_ports(state, frame):
            return state

        assert refused(take_ports) == "frames of kind ports are taken in, and nobody declares it"
        assert "ports" in with_module(PortsFrame, take_ports).observations

    def test_a_module_that_is_listed_twice(self):
        with pytest.raises(DeclarationError, match="is declared twice"):
            catalog(more=(growth,))

    def test_two_metrics_of_one_name(self):
        @gauge("partitions_leader_cold", "Once more.")
        def once_more(ends: LeaderEnds) -> int:
            return 0

        assert refused(once_more) == "metric kafka_twin_partitions_leader_cold is declared twice"

    def test_a_counter_with_the_name_of_a_gauge(self):
        @counter("partitions_leader_cold", "Once more.")
        def once_more(ends: LeaderEnds) -> int:
            return 0

        assert refused(once_more) == "metric kafka_twin_partitions_leader_cold is declared twice"

    def test_a_metric_of_one_name_at_two_levels_is_two_metrics(self):
        @gauge("partitions_leader_cold", "By broker.", level="broker")
        def by_broker(assignment: Assignment) -> ByBroker:
            return ByBroker(assignment.broker.ravel())

        more = with_module(by_broker)
        assert more.metric("kafka_twin_broker_partitions_leader_cold").labels == ()
        assert more.metric("kafka_twin_partitions_leader_cold").level == "cluster"

    def test_two_risks_of_one_name(self):
        @a_risk("leader_cold")
        def once_more(partitions: Partitions) -> Bool:
            return partitions.leader == 0

        assert refused(once_more) == "risk leader_cold is declared twice"

    def test_more_risks_than_fit(self):
        def some(count: int) -> list[Declared]:
            def holds(partitions: Partitions) -> Bool:
                return partitions.leader == 0

            for i in range(count):
                a_risk(f"risk_{i}", rank=1_000 + i)(holds)
            return [holds]

        room = MAX_RISKS - len(CATALOG.risks)
        assert len(with_module(*some(room)).risks) == MAX_RISKS
        message = refused(*some(room + 1))
        assert message == f"{MAX_RISKS + 1} risks are declared, {MAX_RISKS} fit"

    def test_two_api_fields_of_one_name(self):
        @api_field("bootstrap", "once more")
        def once_more(ends: LeaderEnds) -> list[None]:
            return [None] * len(ends.offset)

        assert refused(once_more) == "API field bootstrap is declared twice"

    def test_an_alert_that_gives_way_to_a_risk_that_nobody_declares(self):
        @risk(
            "loud", rank=1, severity="info", sentence="it is loud", source="",
            alert=replace(ALERT, unless="louder"),
        )  # fmt: skip
        def holds(partitions: Partitions) -> Bool:
            return partitions.leader == 0

        assert refused(holds) == (
            "risk loud: its alert gives way to louder, and nobody declares it"
        )

    def test_the_earlier_rows_of_a_table_that_is_not_stored_for_anything_but_events(self):
        @rule
        def ends(earlier: Earlier[LeaderEnds]) -> Ends:
            return Ends(earlier.offset)

        assert refused(Ends, ends) == (
            "rule ends: parameter earlier reads the Earlier leader_ends, which is not stored"
        )

        @event("compared")
        def compared(was: Earlier[LeaderEnds]):
            return []

        assert "compared" in with_module(compared).events[-1].kinds

    def test_a_proposal_that_there_is_not(self):
        with pytest.raises(KeyError, match="kip0"):
            catalog(proposals=("kip0",))


class TestOrder:
    @given(declared=st.permutations([Ends, Doubled, Cheap, ends, doubled, cheap]))
    def test_rules_run_in_the_order_of_what_they_need_however_they_are_listed(self, declared):
        state = ShardState.empty(with_module(*declared), "c", 0, 1)
        part = Partition(replicas=(1,), log=Log(end=21))
        state, _ = step(state, listed_frames([part]), NOW_MS)
        assert state[Doubled].number.tolist() == [42]

    def test_each_rule_runs_once_a_step_however_many_read_its_table(self):
        calls = []

        @rule
        def counted(leaders: Leaders) -> Ends:
            calls.append(1)
            return Ends(leaders.log_end_offset)

        @a_risk("risk_of_ends")
        def holds(ends: Ends) -> Bool:
            return ends.number > 0

        made = with_module(Ends, Doubled, Cheap, counted, doubled, cheap, holds)
        frame = partitions_frame([Partition()])
        state, _ = step(ShardState.empty(made, "c", 0, 1), [frame], NOW_MS)
        assert len(calls) == 1
        assert state[Doubled].number.tolist() == [-2]
        assert len(calls) == 1

    def test_risks_are_in_the_order_of_their_rank(self):
        @a_risk("the_first", rank=-1)
        def holds(partitions: Partitions) -> Bool:
            return partitions.leader == 1

        more = with_module(holds)
        assert more.risk_names == ("the_first", *CATALOG.risk_names)
        state = ShardState.empty(more, "c", 0, 1)
        state, _ = step(state, [partitions_frame([Partition()])], NOW_MS)
        assert state[OpenRisks].bits[0] & 1
        assert [r.rank for r in CATALOG.risks] == sorted(r.rank for r in CATALOG.risks)


class TestWhatIsKept:
    def test_tables_are_stored_unless_they_are_made_on_demand(self):
        more = with_module(Ends, Doubled, Cheap, ends, doubled, cheap)
        assert {Ends, Doubled} == set(more.stored) - set(CATALOG.stored)
        assert {Cheap} == set(more.on_demand) - set(CATALOG.on_demand)

    @pytest.mark.parametrize("decorate", [
        rule, gauge("ends", "Ends."), event("ended"), api_field("ended", "where it ended"),
        a_risk("risk_of_ends"),
    ])  # fmt: skip
    def test_a_table_that_anything_wants_as_it_was_before_is_remembered_once(self, decorate):
        def read(before: Before[Cheap], again: Before[Cheap]) -> Doubled:
            return Doubled(before.number)

        more = with_module(Ends, Cheap, Doubled, ends, cheap, decorate(read))
        assert more.remembered.count(Cheap) == 1
        assert Cheap not in CATALOG.remembered

    def test_a_table_that_a_group_wants_as_it_was_before_is_remembered(self):
        @dataclass(frozen=True)
        class Remembered(TableGroup):
            before: Before[Cheap]

        @rule
        def read(remembered: Remembered) -> Doubled:
            return Doubled(remembered.before.number)

        assert Cheap in with_module(Ends, Cheap, Doubled, ends, cheap, read).remembered

    def test_metrics_that_a_module_lists_are_read_like_decorated_ones(self):
        def behind(before: Before[Cheap]) -> int:
            return int(before.number.sum())

        listed = Metric("behind", "Behind.", compute=behind, reads=parameters(behind))
        module = module_of("elsewhere", Ends, Cheap, ends, cheap)
        module.METRICS = (listed,)
        more = catalog(more=(module,))
        assert more.metric("kafka_twin_behind") is listed
        assert Cheap in more.remembered
        module = module_of("elsewhere")
        module.METRICS = (listed,)
        with pytest.raises(DeclarationError, match="reads the table cheap, which nobody makes"):
            catalog(more=(module,))

    def test_a_metric_is_found_by_its_name(self):
        assert CATALOG.metric("kafka_twin_partitions_leader_cold").level == "cluster"
        with pytest.raises(KeyError, match="kafka_twin_of_nobody"):
            CATALOG.metric("kafka_twin_of_nobody")

    def test_each_risk_gets_the_group_of_tables_that_it_names(self):
        @dataclass(frozen=True)
        class Led(TableGroup):
            partitions: Partitions

        @dataclass(frozen=True)
        class Long(TableGroup):
            leaders: Leaders

        @a_risk("is_led", rank=1_000)
        def is_led(group: Led) -> Bool:
            return group.partitions.leader > 0

        @a_risk("is_long", rank=1_001)
        def is_long(group: Long) -> Bool:
            return group.leaders.log_end_offset > 10

        more = with_module(is_led, is_long)
        parts = [Partition(log=Log(end=10))]
        frames = listed_frames(parts)
        state, _ = step(ShardState.empty(more, "c", 0, 1), frames, NOW_MS)
        [bits] = state[RiskConditions].bits.tolist()
        holds = {name: bool(bits >> number & 1) for number, name in enumerate(more.risk_names)}
        assert (holds["is_led"], holds["is_long"]) == (True, False)

    def test_a_keyed_table_can_be_a_finding(self):
        class Totals(KeyedTable, kind="totals"):
            """[1] one number a shard."""

            number: Int64 = column("a number")

        @rule
        def totals(ends: Ends) -> Totals:
            return Totals(ends.number.sum(keepdims=True))

        state = ShardState.empty(with_module(Ends, Totals, ends, totals), "c", 0, 1)
        parts = [Partition(number=i, log=Log(end=10)) for i in range(3)]
        state, _ = step(state, listed_frames(parts), NOW_MS)
        again = codec.decode(codec.encode(state), state.catalog).state
        assert again[Totals].number.tolist() == [30]


SUBSETS = [chosen for size in range(len(PROPOSALS)) for chosen in combinations(PROPOSALS, size)]


def tables_in(message: bytes) -> set[str]:
    """Every table that the message has, those of the previous cycle without their prefix."""
    names = set()
    for metadata, _ in frames.streams(message):
        names |= {entry.partition("=")[0] for entry in metadata.get("tables", "").split(",")}
        names.add(metadata["kind"].removeprefix(codec.PREFIX))
    return {name.removeprefix(state_reader.BEFORE) for name in names}


@pytest.mark.parametrize("chosen", SUBSETS, ids=str)
class TestProposalsThatAreSwitchedOff:
    def test_nothing_of_them_is_declared(self, chosen):
        fewer = catalog(proposals=chosen)
        off = {m.__name__ for name in PROPOSALS if name not in chosen for m in PROPOSALS[name]}
        declared = [each.compute for each in (*fewer.rules.values(), *fewer.metrics)]
        declared += [each.holds for each in fewer.risks]
        declared += [each.occurrences for each in fewer.events]
        declared += [each.values for each in fewer.api_fields]
        declared += [*fewer.stored, *fewer.on_demand, *fewer.remembered]
        assert not {each.__module__ for each in declared if each is not None} & off
        everything = [*CATALOG.stored, *CATALOG.on_demand]
        assert {table.__module__ for table in everything} & off, "or this test would say nothing"

    def test_nothing_of_them_is_computed_or_stored(self, chosen):
        fewer = catalog(proposals=chosen)
        shape = Shape(topics=1, partitions=4, fetches=True)
        held = ShardState.empty(fewer, "sim", 0, 1)
        whole = ShardState.empty(CATALOG, "sim", 0, 1)
        for observation in SimulatedShard(shape, 5).run(4, NOW_MS):
            at_ms = observation[0].header.observed_at_ms
            held, _ = step(held, observation, at_ms)
            whole, _ = step(whole, observation, at_ms)
        gone = {t.kind for t in CATALOG.stored} - {t.kind for t in fewer.stored}
        assert gone
        assert not gone & {t.kind for t in (*held.tables, *held.before)}
        assert not gone & tables_in(codec.encode(held))
        assert gone <= {t.kind for t in whole.tables}
        for table in fewer.stored:
            for mine, theirs in zip(held[table].values(), whole[table].values(), strict=True):
                if table.kind != "risks":  # their numbers are those of the catalog
                    same = np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")
                    assert same, f"{table.kind} does not depend on a proposal"
        for table in set(CATALOG.stored) - set(fewer.stored):
            with pytest.raises(KeyError, match=table.kind):
                held[table]
