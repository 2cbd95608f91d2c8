"""Open a risk once its condition has held long enough, and close it once that has been gone.

Each risk (declared with ``@risk`` beside the rule that it judges) has a time for which its
condition must hold before it opens, and a time for which it must be gone before it closes. Open
risks and running timers are sparse rows, since a calm cluster has none.

Within a cycle the result must not depend on the order of its frames, so it derives from the rows as
the previous cycle left them and from the conditions that hold now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from twin.declarations.declare import Metric, Risk, Rule
from twin.declarations.results import OfRows
from twin.declarations.signature import (
    Before,
    DeclarationError,
    NowMs,
    Parameter,
    Reads,
    parameters,
)
from twin.declarations.table import UNKNOWN, Bool, Int64, PartitionTable, SparseTable, column
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.tables.state import Partitions

MAX_RISKS: Final = 63
"""Bits of an Int64 that are not its sign."""

RiskNumber = Annotated[NDArray[np.int16], pa.dictionary(pa.int32(), pa.string())]


class RiskConditions(
    PartitionTable,
    kind="risk_conditions",
    on_demand="a function of the other tables; what lasts is in the table risks",
):
    """[P] the risks whose condition holds now."""

    bits: Int64 = column("a bit for each risk, by its place in the catalog", fill=0)


class RiskStates(SparseTable, kind="risks"):
    """[N] one row a risk that is open, or waits to be opened or closed."""

    risk: RiskNumber = column("name of the risk", fill=0)
    is_open: Bool = column("it is open", fill=False)
    since_ms: Int64 = column(
        "since when the condition holds (or is gone, if the risk is open) without a change yet; "
        "unknown if nothing waits"
    )


class OpenRisks(
    PartitionTable, kind="open_risks", on_demand="the open rows of the table risks as bits"
):
    """[P] the risks that are open."""

    bits: Int64 = column("a bit for each risk, by its place in the catalog", fill=0)


def risk_rules(risks: Sequence[Risk]) -> tuple[Rule, ...]:
    """The rules that evaluate those risks."""
    inputs, named = shared_inputs(risks)
    described = Parameter("described", Reads.TABLE, Partitions)
    configs = Parameter("configs", Reads.TABLE, TopicConfigs)

    def conditions(described: Partitions, configs: TopicConfigs, **given: Any) -> RiskConditions:
        bits = np.zeros(len(described.leader), np.int64)
        is_judged = (described.described_at_ms != UNKNOWN) & (configs.diskless != 1)
        for number, (risk, names) in enumerate(zip(risks, named, strict=True)):
            holds = risk.holds(**{name: given[source] for name, source in names.items()})
            if holds.dtype != bool or holds.shape != bits.shape:
                raise DeclarationError(
                    f"risk {risk.name}: its function must return a boolean for each of the "
                    f"{len(bits)} partitions, not {holds.dtype} of shape {holds.shape}"
                )
            if holds.any():  # few risks hold anywhere
                bits[np.flatnonzero(holds & is_judged)] |= np.int64(1) << np.int64(number)
        return RiskConditions(bits)

    def states(now_holds: RiskConditions, before: Before[RiskStates], now_ms: NowMs) -> RiskStates:
        return apply_hysteresis(risks, now_holds.bits, before, now_ms)

    def opened(described: Partitions, states: RiskStates) -> OpenRisks:
        return OpenRisks(open_bits(states, len(described.leader)))

    return (
        Rule(conditions, RiskConditions, (described, configs, *inputs)),
        Rule(states, RiskStates, parameters(states)),
        Rule(opened, OpenRisks, parameters(opened)),
    )


def shared_inputs(
    risks: Sequence[Risk],
) -> tuple[tuple[Parameter, ...], list[dict[str, str]]]:
    """The parameters of one function that calls the functions of all risks, each parameter once.

    The second value maps, for each risk, its own parameter names to the names of these parameters.
    """
    reads: dict[Parameter, Parameter] = {}  # the key is the parameter without its name
    for risk in risks:
        for each in risk.reads:
            reads.setdefault(_unnamed(each), replace(each, name=f"input_{len(reads)}"))
    named = [{each.name: reads[_unnamed(each)].name for each in risk.reads} for risk in risks]
    return tuple(reads.values()), named


def _unnamed(parameter: Parameter) -> Parameter:
    return replace(parameter, name="")


def risk_metrics(risks: Sequence[Risk]) -> tuple[Metric, ...]:
    """The metrics that count the partitions of each of those risks."""
    names = [(risk.name, risk.severity) for risk in risks]

    def is_open(bits: NDArray[np.int64], number: int) -> NDArray[np.bool_]:
        return (bits >> np.int64(number) & 1) != 0

    def counted(opened: OpenRisks) -> Mapping[tuple[str, ...], int]:
        return {name: int(is_open(opened.bits, n).sum()) for n, name in enumerate(names)}

    def of_topic(opened: OpenRisks) -> NDArray[np.bool_]:
        return opened.bits != 0

    def of_partition(opened: OpenRisks) -> Mapping[tuple[str, ...], OfRows]:
        rows = [np.flatnonzero(is_open(opened.bits, n)) for n in range(len(names))]
        return {
            name: OfRows(row, np.ones(len(row), np.int64))
            for name, row in zip(names, rows, strict=True)
        }

    labels = ("risk", "severity")
    return (
        Metric("partitions_at_risk", "Partitions with an open risk, by risk.", labels=labels,
               compute=counted, reads=parameters(counted)),
        Metric("partitions_at_risk", "Partitions of the topic with any open risk.", "topic",
               compute=of_topic, reads=parameters(of_topic)),
        Metric("at_risk", "1 for each open risk of the partition.", "partition", labels=labels,
               compute=of_partition, reads=parameters(of_partition)),
    )  # fmt: skip


def open_bits(states: RiskStates, partitions: int) -> NDArray[np.int64]:
    """[P] a bit for each risk that is open."""
    bits = np.zeros(partitions, np.int64)
    is_open = states.is_open
    if is_open.any():
        risk = np.int64(1) << states.risk[is_open].astype(np.int64)
        np.bitwise_or.at(bits, states.row[is_open], risk)
    return bits


def apply_hysteresis(
    risks: Sequence[Risk], holds: NDArray[np.int64], before: RiskStates, now_ms: int
) -> RiskStates:
    """The risks that are open or have a running timer.

    Args:
        risks: in the order of their bits.
        holds: [P] bits of the conditions that hold now.
        before: the states as the previous cycle left them.
        now_ms: the time of this cycle.
    """
    was_open = open_bits(before, len(holds))
    differs = holds ^ was_open
    is_open, waits = was_open.copy(), np.zeros(len(holds), np.int64)
    timers = before.pick(before.since_ms != UNKNOWN)
    since_ms: dict[int, tuple[NDArray[Any], NDArray[np.int64]]] = {}
    changing = int(np.bitwise_or.reduce(differs, initial=0))
    for number, risk in enumerate(risks):
        bit = np.int64(1) << np.int64(number)
        if not changing & int(bit):
            continue
        row = np.flatnonzero(differs & bit)
        since = np.full(len(row), now_ms, np.int64)
        mine = timers.pick(timers.risk == number)
        _, here, there = np.intersect1d(row, mine.row, assume_unique=True, return_indices=True)
        since[here] = mine.since_ms[there]
        opens = (holds[row] & bit) != 0
        due = now_ms - since >= np.where(opens, risk.open_after_ms, risk.close_after_ms)
        is_open[row[due]] ^= bit
        waits[row[~due]] |= bit
        since_ms[number] = row[~due], since[~due]
    return _rows(len(risks), is_open, waits, since_ms)


def _rows(
    count: int,
    is_open: NDArray[np.int64],
    waits: NDArray[np.int64],
    since_ms: dict[int, tuple[NDArray[Any], NDArray[np.int64]]],
) -> RiskStates:
    listed = is_open | waits
    present = int(np.bitwise_or.reduce(listed, initial=0))
    made = []
    for number in range(count):
        bit = np.int64(1) << np.int64(number)
        if not present & int(bit):
            continue
        row = np.flatnonzero(listed & bit)
        since = np.full(len(row), UNKNOWN, np.int64)
        if number in since_ms:
            waiting, began = since_ms[number]
            since[np.searchsorted(row, waiting)] = began
        made.append((row, np.full(len(row), number), (is_open[row] & bit) != 0, since))
    if not made:
        return RiskStates.empty()
    row, risk, opened, since = (np.concatenate(column) for column in zip(*made, strict=True))
    order = np.argsort(row, kind="stable")
    return RiskStates(
        row[order].astype(np.int32), risk[order].astype(np.int16), opened[order], since[order]
    )
