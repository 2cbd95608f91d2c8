"""Reads the findings of a state by their names, as labels and the JSON API have them."""

from __future__ import annotations

from typing import Any, get_type_hints

from twin.declarations.declare import Metric
from twin.declarations.results import OfReplicas, OfRows
from twin.engine.risks import OpenRisks, RiskConditions
from twin.engine.shard_state import ShardState


def open_risks(state: ShardState, row: int = 0) -> set[str]:
    """The risks that are open for the partition of that row."""
    return _named(state, int(state[OpenRisks].bits[row]))


def conditions(state: ShardState, row: int = 0) -> set[str]:
    """The risks whose condition holds now for the partition of that row."""
    return _named(state, int(state[RiskConditions].bits[row]))


def computed(state: ShardState, source: str | Metric) -> Any:
    """The answer of a metric's function: of that metric, or of the metric of that name."""
    declared = state.catalog.metric(source) if isinstance(source, str) else source
    assert declared.compute is not None, f"{declared.series_name} is filled in by a program"
    return state.call(declared.compute, declared.reads)


def is_of_few(metric: Metric) -> bool:
    """The metric has series of few partitions, replicas or brokers, and perhaps of none."""
    if metric.compute is None:
        return False
    if (metric.level, metric.name) == ("broker", "at_risk"):
        return True
    return get_type_hints(metric.compute)["return"] in (OfRows, OfReplicas)


def _named(state: ShardState, bits: int) -> set[str]:
    return {name for number, name in enumerate(state.catalog.risk_names) if bits >> number & 1}
