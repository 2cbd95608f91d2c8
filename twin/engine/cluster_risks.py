"""Risks of brokers and of the cluster; they open and close like risks of partitions.

A risk whose condition is unknown neither opens nor closes, but its timer goes on. The condition is
unknown while the report of a shard is missing, or if the function of the risk returns UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twin.arrays.columns_in_arrow import object_array
from twin.declarations.declare import EventSource, Metric, Occurrence, Risk, Rule
from twin.declarations.results import ByBroker
from twin.declarations.signature import (
    Before,
    Cycle,
    DeclarationError,
    Earlier,
    NowMs,
    Parameter,
    TableGroup,
    parameters,
)
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Bool,
    ClusterTable,
    Int32,
    Int64,
    Text,
    column,
)
from twin.engine.risks import shared_inputs
from twin.engine.shard_reports import ReportIndex, Reports, are_whole


class ClusterRisks(ClusterTable, kind="cluster_risks"):
    """[K] one row a risk of a broker or of the cluster that is open, waits to be, or is unknown."""

    risk: Text = column("name of the risk", fill="")
    broker: Int32 = column("broker id; -1 where the row is about the cluster", fill=NO_BROKER)
    is_known: Bool = column("whether its condition holds is known now", fill=False)
    is_open: Bool = column("it is open", fill=False)
    since_ms: Int64 = column(
        "since when the condition holds (or is gone, if the risk is open) without a change yet; "
        "unknown if nothing waits"
    )

    def brokers(self, risk: str) -> list[int] | None:
        """The brokers for which it is open; NO_BROKER stands for the cluster. None if unknown."""
        mine = self.pick(self.risk == risk)
        opened: list[int] = mine.broker[mine.is_open].tolist()
        return opened if opened or mine.is_known.all() else None

    def of_broker(self, broker: int, risks: Iterable[str]) -> list[str] | None:
        """Those of the risks that are open for the broker. None if none is, and one is unknown."""
        about = np.isin(self.broker, (broker, NO_BROKER))
        mine = {name: self.pick(about & (self.risk == name)) for name in risks}
        opened = [name for name, states in mine.items() if states.is_open.any()]
        is_known = all(states.is_known.all() for states in mine.values())
        return opened if opened or is_known else None


@dataclass(frozen=True, slots=True)
class _State:
    """A risk of a broker: whether it is open, and since when it waits to change."""

    is_open: bool = False
    since_ms: int = UNKNOWN
    is_known: bool = True

    @property
    def is_listed(self) -> bool:
        """The state must be stored: the risk is open, waits to change, or is unknown."""
        return self.is_open or self.since_ms != UNKNOWN or not self.is_known


_States = Mapping[int, _State]
"""The states of a risk, by broker."""


def cluster_risk_rule(
    risks: Sequence[Risk], behind: Callable[[Iterable[Parameter]], Reports]
) -> Rule:
    """The rule that evaluates those risks; ``behind`` returns the reports that parameters need."""
    inputs, named = shared_inputs(risks)
    needed = [behind(risk.reads) for risk in risks]

    def states(own: _RiskRuleTables, **given: Any) -> ClusterRisks:
        rows: list[tuple[str, int, bool, bool, int]] = []
        for risk, names, reports in zip(risks, named, needed, strict=True):
            states = _states(own.before, risk.name)
            if are_whole(reports, own.index, own.cycle):
                values = {name: given[source] for name, source in names.items()}
                states = _judged(risk, _conditions(risk, risk.holds(**values)), states, own.now_ms)
            else:
                whole = {NO_BROKER: _State(), **states}
                states = {broker: replace(s, is_known=False) for broker, s in whole.items()}
            rows += [
                (risk.name, broker, state.is_known, state.is_open, state.since_ms)
                for broker, state in sorted(states.items())
                if state.is_listed
            ]
        columns = zip(*rows, strict=True) if rows else [()] * len(ClusterRisks.columns)
        return ClusterRisks.from_values(
            object_array(values) if c.dtype == object else np.array(values, c.dtype)
            for c, values in zip(ClusterRisks.columns, columns, strict=True)
        )

    return Rule(states, ClusterRisks, (*parameters(_own), *inputs))


@dataclass(frozen=True, slots=True)
class _RiskRuleTables(TableGroup):
    """Tables that the rule of risks reads in addition to those of the risk functions."""

    index: ReportIndex
    before: Before[ClusterRisks]
    cycle: Cycle
    now_ms: NowMs


def _own(own: _RiskRuleTables) -> None:
    """Never called: its signature declares the parameter of that rule."""


def _states(before: ClusterRisks, name: str) -> _States:
    """The states of a risk as the previous cycle left them."""
    mine = before.pick((before.risk == name) & (before.is_open | (before.since_ms != UNKNOWN)))
    rows = zip(mine.broker.tolist(), mine.is_open.tolist(), mine.since_ms.tolist(), strict=True)
    return {broker: _State(is_open, since_ms) for broker, is_open, since_ms in rows}


def _conditions(risk: Risk, holds: Any) -> Mapping[int, int]:
    """1 where the condition holds, 0 where it does not, UNKNOWN; by broker."""
    if risk.per == "cluster" and isinstance(holds, int | np.integer):
        return {NO_BROKER: int(holds)}
    if risk.per == "broker" and isinstance(holds, ByBroker) and holds.values is not None:
        return dict(zip(holds.broker.tolist(), map(int, holds.values.tolist()), strict=True))
    return_type = "a ByBroker with values" if risk.per == "broker" else "a number"
    raise DeclarationError(
        f"risk {risk.name}: its function must return {return_type}: 1 where the condition holds, 0 "
        f"where it does not, UNKNOWN; not {type(holds).__name__}"
    )


def _judged(risk: Risk, conditions: Mapping[int, int], states: _States, now_ms: int) -> _States:
    """The states of a risk after this cycle. The condition no longer holds for removed brokers."""
    return {
        broker: _next(risk, conditions.get(broker, 0), states.get(broker, _State()), now_ms)
        for broker in {*conditions, *states}
    }


def _next(risk: Risk, condition: int, state: _State, now_ms: int) -> _State:
    if condition == UNKNOWN:
        return replace(state, is_known=False)
    if bool(condition) == state.is_open:
        return _State(state.is_open)
    since_ms = now_ms if state.since_ms == UNKNOWN else state.since_ms
    lasts_ms = risk.close_after_ms if state.is_open else risk.open_after_ms
    if now_ms - since_ms >= lasts_ms:
        return _State(not state.is_open)
    return _State(state.is_open, since_ms)


# ---------------------------------------------------------------- derived


def cluster_risk_events(risks: Sequence[Risk]) -> EventSource:
    """The events of risks that open and close."""

    def occurrences(was: Earlier[ClusterRisks], now: ClusterRisks) -> Iterator[Occurrence]:
        for risk in risks:
            before, after = set(was.brokers(risk.name) or ()), set(now.brokers(risk.name) or ())
            for broker in sorted(before ^ after):
                about = "the cluster" if broker == NO_BROKER else f"broker {broker}"
                kind, text = "risk_opened", f"{about}: {risk.sentence}"
                if broker in before:
                    kind, text = "risk_closed", f"{about}: the risk {risk.name} has closed"
                yield Occurrence(text, kind=kind, broker=broker, detail=risk.name)

    return EventSource(
        ("risk_opened", "risk_closed"), "broker", occurrences, parameters(occurrences)
    )


def cluster_risk_metrics(risks: Sequence[Risk]) -> tuple[Metric, ...]:
    """The metrics of those risks; a risk of which nothing is known has no series."""

    def counted(per: str) -> Callable[..., Mapping[tuple[str, ...], int]]:
        def count(states: ClusterRisks) -> Mapping[tuple[str, ...], int]:
            brokers = {(r.name, r.severity): states.brokers(r.name) for r in risks if r.per == per}
            return {labels: len(open_) for labels, open_ in brokers.items() if open_ is not None}

        return count

    def of_broker(states: ClusterRisks) -> Mapping[tuple[str, ...], ByBroker]:
        return {
            (risk.name, risk.severity): ByBroker(np.array(brokers, np.int32), named_only=True)
            for risk in risks
            if risk.per == "broker" and (brokers := states.brokers(risk.name))
        }

    labels, reads = ("risk", "severity"), parameters(of_broker)
    of_brokers = (
        Metric("brokers_at_risk", "Brokers with an open risk, by risk.", labels=labels,
               compute=counted("broker"), reads=reads),
        Metric("at_risk", "1 for each open risk of the broker.", "broker", labels,
               compute=of_broker, reads=reads),
    )  # fmt: skip
    of_cluster = (
        Metric("at_risk", "1 if that risk of the cluster is open, else 0.", labels=labels,
               compute=counted("cluster"), reads=reads),
    )  # fmt: skip
    about = {risk.per for risk in risks}
    return (of_brokers if "broker" in about else ()) + (of_cluster if "cluster" in about else ())
