"""The counters of a tap as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from streaming.runtime.exposition.build import own_version
from streaming.tap import own_metrics as own
from streaming.tap.broker_tap import BrokerTap
from twin.declarations.declare import Metric

Family = CounterMetricFamily | GaugeMetricFamily

_MAY_BE_DROPPED = ("rows", "unknown_topic", "messages")
"""Values of the label `what` of rows that are dropped. Each has a series from the start, so that
its first increase is visible to rate()."""


class _Counters(Collector):
    """Reads the counters at each scrape."""

    def __init__(self, taps: Mapping[int, BrokerTap], cluster: str) -> None:
        self._taps, self._cluster = taps, cluster

    def collect(self) -> Iterator[Family]:
        """All metrics of all brokers."""
        families = {metric: _family(metric) for metric in own.OWN}
        families[own.BUILD].add_metric([self._cluster, own_version()], 1)
        for broker, tap in self._taps.items():
            for metric, labels, value in _samples(tap):
                families[metric].add_metric([self._cluster, str(broker), *labels], value)
        yield from families.values()


def registry_of(taps: Mapping[int, BrokerTap], cluster: str) -> CollectorRegistry:
    """A registry with the metrics of these taps, by the broker of each."""
    registry = CollectorRegistry()
    registry.register(_Counters(taps, cluster))
    return registry


def _family(metric: Metric) -> Family:
    labels = ("cluster", *metric.label_names)
    if metric.type == "counter":
        name = metric.series_name.removesuffix("_total")
        return CounterMetricFamily(name, metric.help, labels=labels)
    return GaugeMetricFamily(metric.series_name, metric.help, labels=labels)


def _samples(tap: BrokerTap) -> Iterator[tuple[Metric, tuple[str, ...], float]]:
    """Metric, values of its own labels behind ``broker``, and value."""
    yield own.LINES, (), tap.parser.lines
    yield own.ROWS_WAITING, (), tap.parser.row_count
    yield own.MESSAGES, (), tap.sent
    yield own.SKIPPED_BYTES, (), tap.skipped_bytes
    yield own.BEHIND_BYTES, (), tap.behind_bytes
    unreadable = sum(bool(source.problem) for source in tap.sources)
    yield own.LOGS, ("readable",), len(tap.sources) - unreadable
    yield own.LOGS, ("unreadable",), unreadable
    for metric, counts in ((own.ROWS, tap.rows), (own.REFUSED, tap.parser.invalid_lines)):
        for value, count in sorted(counts.items()):
            yield metric, (value,), count
    for what in _MAY_BE_DROPPED:
        yield own.DROPPED, (what,), tap.dropped[what]
