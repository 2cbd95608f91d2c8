"""Reads the findings of a state by their names, as labels and the JSON API have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from twin.declare import ByBroker, ByRack
from twin.risks import OpenRisks, RiskConditions
from twin.rules.racks import rack_names
from twin.state import ShardState
from twin.table import UNKNOWN
from twin.tables.state import Brokers


def open_risks(state: ShardState, row: int = 0) -> set[str]:
    """The risks that are open for the partition of that row."""
    return _named(state, int(state[OpenRisks].bits[row]))


def conditions(state: ShardState, row: int = 0) -> set[str]:
    """The risks whose condition holds now for the partition of that row."""
    return _named(state, int(state[RiskConditions].bits[row]))


def computed(state: ShardState, series_name: str) -> Any:
    """What the function of a metric returns, with what other files add to it."""
    metric = state.catalog.metric(series_name)
    assert metric.compute is not None, series_name
    found = state.call(metric.compute, metric.reads)
    for more in state.catalog.additions.get(series_name, ()):
        found = {**found, **state.call(more.compute, more.reads)}
    return found


def number(state: ShardState, series_name: str) -> Any:
    """The one number of a metric of the cluster."""
    found = computed(state, series_name)
    assert not isinstance(found, Mapping), f"{series_name} has labels"
    return found


def by_broker(state: ShardState, series_name: str) -> Counter[Any]:
    """A broker's metric, added up: by broker, or by labels and broker. 0 for all others."""
    found: Counter[Any] = Counter()
    for labels, each in _by_labels(computed(state, series_name)):
        assert isinstance(each, ByBroker)
        values = np.ones(len(each.broker), np.int64) if each.values is None else each.values
        for broker, value in zip(each.broker.tolist(), values.tolist(), strict=True):
            found[(*labels, broker) if labels else broker] += value
    return found


def by_rack(state: ShardState, series_name: str) -> dict[Any, Any]:
    """A rack's metric, put together as it says: by rack, or by labels and rack.

    A rack without a value has 0.
    """
    names = rack_names(state[Brokers])
    combine = np.maximum if state.catalog.metric(series_name).combine == "max" else np.add
    found: dict[Any, Any] = {}
    for labels, each in _by_labels(computed(state, series_name)):
        assert isinstance(each, ByRack)
        values = np.ones(len(each.rack), np.int64) if each.values is None else each.values
        known = each.rack != UNKNOWN
        sums = np.zeros(len(names), values.dtype)
        combine.at(sums, each.rack[known], values[known])
        found |= {
            (*labels, name) if labels else name: value
            for name, value in zip(names, sums.tolist(), strict=True)
        }
    return found


def by_topic(state: ShardState, series_name: str) -> dict[str, int]:
    """A topic's metric, put together as it says; UNKNOWN where no partition has a value."""
    is_highest = state.catalog.metric(series_name).combine == "max"
    found: dict[str, int] = {}
    values = computed(state, series_name).tolist()
    for topic, value in zip(state.topic_names().tolist(), values, strict=True):
        before = found.get(topic)
        if before is None:
            found[topic] = value
        else:
            found[topic] = max(before, value) if is_highest else before + value
    return found


def _named(state: ShardState, bits: int) -> set[str]:
    return {name for number, name in enumerate(state.catalog.risk_names) if bits >> number & 1}


def _by_labels(found: Any) -> list[tuple[tuple[str, ...], Any]]:
    return list(found.items()) if isinstance(found, Mapping) else [((), found)]
