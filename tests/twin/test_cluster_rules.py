"""Rules about the whole cluster: the same for any number of shards, unknown if one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import FunctionType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.modules import Declared, module_of
from tests.scope import Cycles, reported
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import catalog
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.declarations.declare import Alert, Occurrence, api_field, event, gauge, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.signature import Before, Cycle, DeclarationError, Earlier
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    ClusterTable,
    Int32,
    Int64,
    PartitionTable,
    ShardReport,
    column,
)
from twin.engine import codec, frames
from twin.engine.catalog import Catalog
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.frames import Frame, FrameHeader, InvalidFrame
from twin.engine.shard_reports import CLUSTER, ReportIndex, missing_reports
from twin.engine.shard_state import ShardState
from twin.rules.partitions.leaders import Leaders
from twin.tables.state import Partitions
from twin.totals import shard_totals

NOW_MS = 1_800_000_000_000
SHAPE = Shape(topics=25, partitions=2, brokers=5)
TOPICS = tuple(f"topic-0-{i}" for i in range(SHAPE.topics))
CYCLE = 5_000


class LeadersHere(ShardReport, kind="leaders_here"):
    """[K] partitions that each broker leads, of a shard."""

    broker: Int32 = column("broker id")
    partitions: Int64 = column("partitions that it leads", fill=0)


@rule
def leaders_here(partitions: Partitions) -> LeadersHere:
    return LeadersHere(*np.unique(partitions.leader, return_counts=True))


class LeaderCounts(ClusterTable, kind="leader_counts"):
    """[K] partitions that each broker leads, and the most it ever led."""

    broker: Int32 = column("broker id")
    partitions: Int64 = column("partitions that it leads")
    most: Int64 = column("the most it has led")


@rule
def leader_counts(here: LeadersHere, before: Before[LeaderCounts]) -> LeaderCounts:
    broker = np.unique(here.broker)
    count = np.array([here.partitions[here.broker == each].sum() for each in broker], np.int64)
    most = [max([n, *before.most[before.broker == b]]) for b, n in zip(broker, count, strict=True)]
    return LeaderCounts(broker, count, np.array(most, np.int64))


@gauge("leads", "Partitions that the broker leads.", level="broker")
def leads(counts: LeaderCounts) -> ByBroker:
    return ByBroker(counts.broker, counts.partitions)


@gauge("led", "Partitions that have a leader.")
def led(counts: LeaderCounts) -> int:
    return int(counts.partitions[counts.broker != NO_BROKER].sum())


def a_risk(name: str, rank: int, per: str, open_after_ms: int = 0):
    alert = Alert("suffer", "{n} suffer.", "0s", "0s")
    return risk(
        name, rank=rank, severity="warn", sentence=f"it is {name}", source="", alert=alert,
        open_after_ms=open_after_ms, close_after_ms=CYCLE, per=per,
    )  # fmt: skip


@a_risk("leads_much", 901, "broker", open_after_ms=CYCLE)
def leads_much(counts: LeaderCounts) -> ByBroker:
    return ByBroker(counts.broker, counts.partitions > 12)


@a_risk("leaderless", 902, "cluster")
def leaderless(counts: LeaderCounts) -> int:
    return int((counts.broker == NO_BROKER).any())


@event("leads_more", per="broker")
def leads_more(was: Earlier[LeaderCounts], now: LeaderCounts) -> Iterator[Occurrence]:
    both, old, new = np.intersect1d(was.broker, now.broker, return_indices=True)
    for broker in both[now.partitions[new] > was.partitions[old]].tolist():
        yield Occurrence(f"broker {broker} leads more", broker=broker)


OWN = (LeadersHere, leaders_here, LeaderCounts, leader_counts, leads, led, leads_much, leaderless,
       leads_more)  # fmt: skip


def with_rules(*declared: Declared) -> Catalog:
    return catalog(more=(module_of("elsewhere", *declared),))


WHOLE = with_rules(*OWN)


def cycles(seed: int = 0, count: int = 6, at_ms: int = NOW_MS):
    """A cluster that loses a broker, and gets it back."""
    cluster = SimulatedShard(SHAPE, seed)
    for i in range(count):
        if i == 2:
            cluster.lose(1 + seed % SHAPE.brokers)
        if i == 4:
            cluster.restore(1 + seed % SHAPE.brokers)
        yield cluster.observe(at_ms + i * CYCLE), at_ms + i * CYCLE


def stepped(by_cycle, shards: int, state: ShardState | None = None):
    """The cluster's own shard after those reports, and the texts of all changes."""
    state = empty_cluster(WHOLE, "sim", shards) if state is None else state
    texts = []
    for of_cycle in by_cycle:
        state, changes = step_cluster(state, of_cycle)
        texts += [(change.at_ms, change.text) for change in changes]
    return state, texts


def findings(state: ShardState) -> dict[str, list]:
    tables = (LeaderCounts, ClusterRisks)
    return {
        f"{t.kind}.{c.name}": getattr(state[t], c.name).tolist() for t in tables for c in t.columns
    }


def reports_of(played: Cycles, shards: int) -> list[list[Frame]]:
    """The reports of these rules alone, in the order of shards."""
    by_cycle = reported(WHOLE, played, shards, TOPICS)
    return [[f for f in frames if f.header.kind == LeadersHere.kind] for frames in by_cycle]


@cache
def reports_in(shards: int) -> list[list[Frame]]:
    """Those of the same cycles in that many shards."""
    return reports_of(list(cycles()), shards)


@examples(60)
@given(shards=st.sampled_from([1, 4, 25]), data=st.data())
def test_findings_are_the_same_for_any_number_of_shards_in_any_order(shards, data):
    shuffled = [data.draw(st.permutations(of_cycle)) for of_cycle in reports_in(shards)]
    state, texts = stepped(shuffled, shards)
    expected, expected_texts = stepped(reports_in(1), 1)
    assert findings(state) == findings(expected)
    assert texts == expected_texts
    assert state[LeaderCounts].partitions.sum() == 50


@pytest.mark.parametrize("shards", [4, 25])
def test_a_cycle_that_comes_in_two_batches_gives_the_same(shards):
    halves = [half for c in reports_in(shards) for half in (c[: shards // 2], c[shards // 2 :])]
    assert findings(stepped(halves, shards)[0]) == findings(stepped(reports_in(1), 1)[0])


def by_hand(cycle: int, **partitions: int) -> list[Frame]:
    """The report of one shard: partitions that each broker leads, ``none`` without a leader."""
    broker = [NO_BROKER if name == "none" else int(name[1:]) for name in partitions]
    header = FrameHeader("leaders_here", "sim", 0, 1, NOW_MS + cycle * CYCLE, cycle)
    rows = [pa.array(broker, pa.int32()), pa.array(list(partitions.values()), pa.int64())]
    return [Frame(header, pa.table(rows, schema=LeadersHere.schema()))]


def test_risks_open_and_close_after_their_times_as_events_of_the_broker_or_of_the_cluster():
    _, texts = stepped([
        by_hand(0, b1=9, b2=9),
        by_hand(1, b1=13, b2=9, none=1),
        by_hand(2, b1=13, b2=13),
        by_hand(3, b1=13),
        by_hand(4, b1=9),
        by_hand(5, b1=9),
    ], 1)  # fmt: skip
    assert [((at_ms - NOW_MS) // CYCLE, text) for at_ms, text in texts] == [
        (1, "broker 1 leads more"),
        (1, "the cluster: it is leaderless"),
        (2, "broker 2 leads more"),
        (2, "broker 1: it is leads_much"),
        (3, "the cluster: the risk leaderless has closed"),
        (5, "broker 1: the risk leads_much has closed"),
    ]


def test_repeated_and_earlier_reports_change_nothing():
    state, _ = stepped(reports_in(4), 4)
    again, changes = step_cluster(state, [*reports_in(4)[-1], *reports_in(4)[2]])
    assert again is state
    assert changes == []


def test_findings_are_unknown_until_every_shard_has_reported():
    first = reports_in(4)[0]
    state, _ = step_cluster(empty_cluster(WHOLE, "sim", 4), first[:-1])
    assert missing_reports(state[ReportIndex], the_cycle(state)) == 1
    assert len(state[LeaderCounts].broker) == 0
    totals = shard_totals(state)
    assert totals["kafka_twin_led"] == totals["kafka_twin_broker_leads"] == {}
    assert totals["kafka_twin_brokers_at_risk"] == totals["kafka_twin_at_risk"] == {}
    state, _ = step_cluster(state, first[-1:])
    assert missing_reports(state[ReportIndex], the_cycle(state)) == 0
    assert shard_totals(state).value("kafka_twin_led") == 50
    assert shard_totals(state)["kafka_twin_at_risk"] == {("leaderless", "warn"): 0}


def test_findings_are_unknown_once_the_report_of_a_shard_is_more_than_a_minute_old():
    state, _ = stepped(reports_in(4)[:1], 4)
    [silent] = [f for f in reports_in(4)[0] if f.header.shard == 3]
    for later_ms, is_known in ((60_000, True), (60_001, False)):
        others = list(cycles(count=1, at_ms=NOW_MS + later_ms))
        [of_others] = reports_of(others, 4)
        late, _ = step_cluster(state, [f for f in of_others if f.header.shard != 3])
        assert bool(shard_totals(late)["kafka_twin_led"]) is is_known
        assert late[LeaderCounts].most.sum() == 50  # what a rule remembers, it keeps
    # A report that is late is still the newest of its shard.
    again, _ = step_cluster(late, [f for f in of_others if f.header.shard == 3])
    assert shard_totals(again)["kafka_twin_led"]
    assert silent.header.observed_at_ms == NOW_MS


def test_a_risk_that_is_open_stays_open_while_a_shard_is_missing_and_says_that_it_is_unknown():
    state, _ = stepped(reports_in(4)[:4], 4)
    risks = state[ClusterRisks]
    opened = risks.brokers("leads_much")
    assert opened
    [later] = reports_of(list(cycles(count=1, at_ms=NOW_MS + 600_000)), 4)
    state, changes = step_cluster(state, later[:2])
    assert state[ClusterRisks].brokers("leads_much") == opened
    assert not state[ClusterRisks].is_known.any()
    assert state[ClusterRisks].brokers("leaderless") is None
    assert changes == []


def test_a_shard_reports_nothing_before_its_partitions_were_listed():
    assert reports(ShardState.empty(WHOLE, "sim", 0, 4)) == []


def test_a_report_of_another_cluster_or_number_of_shards_is_refused():
    with pytest.raises(InvalidFrame, match="shard"):
        step_cluster(empty_cluster(WHOLE, "sim", 5), reports_in(4)[0])
    with pytest.raises(InvalidFrame, match="shard"):
        step_cluster(empty_cluster(WHOLE, "other", 4), reports_in(4)[0])


def test_an_observation_never_comes_from_the_cluster_s_own_shard():
    state, _ = stepped(reports_in(1)[:1], 1)
    [frame] = reports_in(1)[0]
    message = frames.write(replace(frame.header, shard=CLUSTER), frame.rows)
    assert "shard -1/1" in str(frames.decode(message, state.catalog.observations).invalid[0])


def test_the_state_is_the_snapshot_and_memory_goes_on_after_a_restart():
    half, _ = stepped(reports_in(4)[:3], 4)
    [message] = codec.encode_parts(half)
    decoded = codec.decode(message, WHOLE.cluster)
    assert decoded.discarded == ()
    assert decoded.state.shard == CLUSTER
    restarted, _ = stepped(reports_in(4)[3:], 4, decoded.state)
    assert findings(restarted) == findings(stepped(reports_in(4), 4)[0])


@pytest.mark.parametrize("share", [0.9, 0.5, 0.3])
def test_a_state_that_is_too_large_for_a_message_has_parts_with_rows_of_each_table(share):
    state, _ = stepped(reports_in(4), 4)
    whole = codec.encode(state)
    messages = codec.encode_parts(state, int(share * len(whole)))
    assert len(messages) > 1
    assert max(map(len, messages)) < len(whole)
    decoded = codec.decode(b"".join(messages), WHOLE.cluster)
    assert decoded.discarded == ()
    assert codec.encode(decoded.state) == whole


def test_reports_are_in_no_state_of_a_shard():
    assert LeadersHere in WHOLE.reports
    assert LeadersHere in WHOLE.on_demand
    assert not {LeadersHere, LeaderCounts, ReportIndex, ClusterRisks} & {*WHOLE.stored}


def the_cycle(state: ShardState) -> Cycle:
    return Cycle(state.observed_at_ms, state.prev_observed_at_ms, UNKNOWN)


class Ends(PartitionTable, kind="ends"):
    """[P] a number a partition."""

    number: Int64 = column("a number")


def from_parts(counts: LeaderCounts, leaders: Leaders) -> LeaderCounts: ...
def from_cluster(counts: LeaderCounts) -> Ends: ...
def from_reports(here: LeadersHere) -> int: ...
def of_both(counts: LeaderCounts, here: LeadersHere) -> int: ...
def of_parts(partitions: Partitions) -> int: ...
def of_counts(counts: LeaderCounts) -> int: ...


@pytest.mark.parametrize(("decorate", "function", "said"), [
    (rule, from_parts, "rule leader_counts: parameter leaders reads leaders, of which each shard "
     "has its own part"),
    (rule, from_cluster, "rule ends sees one shard, and reads a ClusterTable"),
    (gauge("n", "N."), from_reports, "metric n: parameter here reads leaders_here, only a rule"),
    (gauge("n", "N."), of_both, "metric n: parameter here reads leaders_here, only rules may"),
    (gauge("n", "N.", level="topic"), of_counts, "metric n reads a ClusterTable: its level must"),
    (api_field("n", "N"), of_counts, "apifield n sees one shard, and reads a ClusterTable"),
    (event("n"), of_counts, "reads a ClusterTable: give it per broker"),
    (a_risk("n", 903, "partition"), of_counts, "risk n reads a ClusterTable: give it per broker"),
    (a_risk("n", 903, "broker"), of_parts, "risk n is one of a broker, and reads no ClusterTable"),
    (a_risk("n", 902, "cluster"), of_counts, "risks leaderless and n have the same rank, 902"),
    (a_risk("leader_cold", 903, "cluster"), of_counts, "risk leader_cold is declared twice"),
])  # fmt: skip
def test_what_breaks_the_scope_is_refused_with_its_name(decorate, function, said):
    copied = FunctionType(function.__code__, function.__globals__, function.__name__)
    copied.__annotations__ = function.__annotations__
    others = [each for each in OWN if each is not leader_counts or said[:9] != "rule lead"]
    with pytest.raises(DeclarationError) as refusal:
        with_rules(*others, Ends, decorate(copied))
    assert said in str(refusal.value)
