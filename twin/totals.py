"""Sums over a shard, as its metrics declare them: by cluster, rack, broker, topic and group.

Totals of shards are combined by each metric's ``combine`` and then scaled. Unknown values are not
counted. A broker or rack without any counted value has a 0, unless the metric leaves such brokers
out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import add
from typing import Any, Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import Metric
from twin.declarations.results import ByBroker, ByLogDir, ByRack
from twin.declarations.table import UNKNOWN, Array, Bool
from twin.engine.catalog import Catalog
from twin.engine.shard_state import ShardState
from twin.rules.brokers.racks import rack_names
from twin.tables.state import Brokers, GroupOffsets, Groups, PartitionIndex, Topics

LabelValues = tuple[str, ...]
Samples = dict[LabelValues, float]

SUMMED_LEVELS: Final = frozenset(
    {"cluster", "rack", "broker", "log_dir", "topic", "group", "group_topic"}
)


@dataclass(frozen=True, slots=True)
class Totals:
    """Samples by the name of their series.

    The key of a sample holds the values of the level's label (broker, rack or topic; none for the
    cluster) and of the metric's own labels, in this order.
    """

    observed_at_ms: int = UNKNOWN
    samples: Mapping[str, Samples] = field(default_factory=dict)

    def __getitem__(self, series_name: str) -> Samples:
        """The samples of a metric; none before anything was observed."""
        return self.samples.get(series_name, {})

    def value(self, series_name: str, *labels: str) -> float:
        """One sample; 0 if there is none."""
        return self[series_name].get(labels, 0)


Sums = Mapping[str, Callable[[], Samples]]
"""How the samples of each series are computed, by its name."""


def shard_sums(state: ShardState) -> Sums:
    """Every sum of one shard, before ``scale``: whole numbers add up exactly."""
    sampler = _Sampler(state)
    return {
        metric.series_name: partial(sampler.samples, metric)
        for metric in state.catalog.metrics
        if metric.level in SUMMED_LEVELS and metric.compute is not None
    }


def cluster_sums(catalog: Catalog, shards: Sequence[Totals], own: Totals | None = None) -> Sums:
    """The sums of all shards put together, those of the cluster's ``own`` included."""
    in_order = sorted(shards, key=lambda each: each.observed_at_ms)
    sums: dict[str, Callable[[], Samples]] = {
        metric.series_name: partial(_together, metric, in_order)
        for metric in catalog.metrics
        if metric.level in SUMMED_LEVELS and metric.compute is not None
    }
    if own is not None:
        sums |= {
            metric.series_name: partial(_together, metric, [own])
            for metric in catalog.cluster.metrics
        }
    return sums


def shard_totals(state: ShardState) -> Totals:
    """All sums of one shard."""
    return Totals(state.observed_at_ms, {name: sum_() for name, sum_ in shard_sums(state).items()})


def cluster_totals(catalog: Catalog, shards: Sequence[Totals], own: Totals | None = None) -> Totals:
    """The totals of all shards put together, those of the cluster's ``own`` included."""
    if not shards:
        return Totals()
    newest_ms = max(each.observed_at_ms for each in shards)
    sums = cluster_sums(catalog, shards, own)
    return Totals(newest_ms, {name: sum_() for name, sum_ in sums.items()})


def _together(metric: Metric, shards: Sequence[Totals]) -> Samples:
    return _scaled(metric, _combined(metric, [shard[metric.series_name] for shard in shards]))


def _combined(metric: Metric, shards: Sequence[Samples]) -> Samples:
    if metric.combine == "newest":
        return shards[-1]
    joined, together = dict(shards[0]), _TOGETHER[metric.combine]
    for samples in shards[1:]:
        for key, value in samples.items():
            total = joined.get(key)
            joined[key] = value if total is None else together(total, value)
    return joined


_TOGETHER: Final[dict[str, Callable[[float, float], float]]] = {"sum": add, "max": max, "min": min}
_REDUCE: Final[dict[str, np.ufunc]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def _scaled(metric: Metric, samples: Samples) -> Samples:
    if metric.scale == 1:
        return samples
    return {key: value * metric.scale for key, value in samples.items()}


class _Sampler:
    """Turns what metrics return into samples."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._brokers = [str(broker) for broker in state[Brokers].broker.tolist()]
        self._racks = rack_names(state[Brokers])
        self._topics = [str(topic) for topic in state[Topics].topic.tolist()]
        self._topic_index = state[PartitionIndex].topic_index
        self._groups = [str(group) for group in state[Groups].group.tolist()]
        self._offsets = state[GroupOffsets]

    def samples(self, metric: Metric) -> Samples:
        """The samples of a metric, by label values."""
        assert metric.compute is not None  # the caller leaves out metrics without it
        result = self._state.call(metric.compute, metric.reads)
        parts = result if isinstance(result, Mapping) else {(): result}
        samples: Samples = {}
        for labels, part in parts.items():
            summed = self._summed(metric, part)
            if labels:
                summed = [((*first, *labels), value) for first, value in summed]
            samples.update(each for each in summed if not math.isnan(each[1]))
        return samples

    def _summed(self, metric: Metric, part: Any) -> list[tuple[LabelValues, float]]:
        match metric.level:
            case "broker":
                return self._by_broker(metric, part)
            case "log_dir":
                return _by_log_dir(part)
            case "rack":
                return self._by_rack(metric, part)
            case "topic":
                return self._by_topic(metric, part)
            case "group":
                return self._by_group(metric, part)
            case "group_topic":
                return self._by_group_and_topic(metric, part)
        return [((), part)]

    def _by_broker(self, metric: Metric, part: ByBroker) -> list[tuple[LabelValues, float]]:
        if metric.combine == "newest":  # one value per broker, and nothing for the others
            assert part.values is not None or metric.labels
            values = np.ones(len(part.broker), np.int64) if part.values is None else part.values
            pairs = zip(part.broker.tolist(), values.tolist(), strict=True)
            return [((str(broker),), value) for broker, value in pairs]
        others = () if part.named_only else self._brokers
        sums: defaultdict[str, float] = defaultdict(int, dict.fromkeys(others, 0))
        for broker, value in _sums(part.broker, part.values):
            sums[str(broker)] += value
        return [((broker,), value) for broker, value in sums.items()]

    def _by_rack(self, metric: Metric, part: ByRack) -> list[tuple[LabelValues, float]]:
        is_known = part.rack != UNKNOWN
        values = None if part.values is None else part.values[is_known]
        if metric.combine == "max":
            assert values is not None
            highest = np.zeros(len(self._racks))
            np.maximum.at(highest, part.rack[is_known], values)
            per_rack: list[float] = highest.tolist()
        else:
            sums = dict(_sums(part.rack[is_known], values))
            per_rack = [sums.get(place, 0) for place in range(len(self._racks))]
        return [((rack,), value) for rack, value in zip(self._racks, per_rack, strict=True)]

    def _by_topic(self, metric: Metric, part: Array) -> list[tuple[LabelValues, float]]:
        values = part.astype(np.int64)
        if metric.combine == "max":
            highest = np.full(len(self._topics), UNKNOWN, np.int64)
            np.maximum.at(highest, self._topic_index, values)
            pairs = zip(self._topics, highest.tolist(), strict=True)
            return [((topic,), value) for topic, value in pairs if value != UNKNOWN]
        sums = np.zeros(len(self._topics), np.int64)
        np.add.at(sums, self._topic_index, values)
        return [((t,), value) for t, value in zip(self._topics, sums.tolist(), strict=True)]

    def _by_group(self, metric: Metric, part: Array) -> list[tuple[LabelValues, float]]:
        group = self._offsets.group_index
        return [
            ((self._groups[number],), value)
            for number, value in _reduced(metric, group.astype(np.int64), part)
        ]

    def _by_group_and_topic(self, metric: Metric, part: Array) -> list[tuple[LabelValues, float]]:
        offsets = self._offsets
        both = keys.pack(offsets.group_index, self._topic_index[offsets.row])
        reduced = _reduced(metric, both, part)
        group, topic = keys.unpack(np.array([key for key, _ in reduced], np.int64))
        return [
            ((self._groups[g], self._topics[t]), value)
            for g, t, (_, value) in zip(group.tolist(), topic.tolist(), reduced, strict=True)
        ]


def _by_log_dir(part: ByLogDir) -> list[tuple[LabelValues, float]]:
    columns = (part.broker.tolist(), part.log_dir.tolist(), part.values.tolist())
    return [((str(broker), path), value) for broker, path, value in zip(*columns, strict=True)]


def _reduced(metric: Metric, key: Array, values: Array) -> list[tuple[int, float]]:
    """(key, its known values combined) for each key that has a known value."""
    is_known = where_known(values)
    key, values = key[is_known], values[is_known]
    order = np.argsort(key, kind="stable")
    distinct, first = np.unique(key[order], return_index=True)
    if not len(distinct):
        return []
    together = _REDUCE[metric.combine].reduceat(values[order], first)
    return list(zip(distinct.tolist(), together.tolist(), strict=True))


def where_known(values: Array) -> Bool:
    """A mask of the numbers that are neither UNKNOWN nor NaN."""
    return ~np.isnan(values) if values.dtype.kind == "f" else values != UNKNOWN


def _sums(groups: Array, values: Array | None) -> list[tuple[int, float]]:
    """(group, times it occurs or sum of its values); whole numbers stay whole."""
    if len(groups) and groups.min() >= 0 and groups.max() < len(groups):
        # Small numbers, as ids of brokers are: to count them takes a tenth of sorting them.
        occurs = np.bincount(groups)
        distinct, at, size = np.flatnonzero(occurs), groups, len(occurs)
    else:
        distinct, at = np.unique(groups, return_inverse=True)
        size = len(distinct)
    weights = np.ones(len(groups), np.int64) if values is None else values
    sums = np.zeros(size, weights.dtype)
    np.add.at(sums, at, weights)
    of_groups = sums if size == len(distinct) else sums[distinct]
    return list(zip(distinct.tolist(), of_groups.tolist(), strict=True))
