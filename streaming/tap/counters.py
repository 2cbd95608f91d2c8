"""Serves the counters of a tap as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from streaming.runtime.errors import UserError
from streaming.tap.broker_tap import BrokerTap
from streaming.tap.own_metrics import OWN


class MetricsPortError(UserError):
    """The port for the counters cannot be used."""


class _Counters(Collector):
    """Reads the counters at each scrape."""

    def __init__(self, taps: Mapping[int, BrokerTap], cluster: str) -> None:
        self._taps, self._cluster = taps, cluster

    def collect(self) -> Iterator[CounterMetricFamily]:
        """All counters of all brokers."""
        families = {
            metric.series_name: CounterMetricFamily(
                metric.series_name.removesuffix("_total"),
                metric.help,
                labels=("cluster", *metric.label_names),
            )
            for metric in OWN
        }
        for broker, tap in self._taps.items():
            labels = [self._cluster, str(broker)]
            families["kafka_twin_tap_lines_total"].add_metric(labels, tap.parser.lines)
            families["kafka_twin_tap_skipped_bytes_total"].add_metric(labels, tap.skipped_bytes)
            for family, counts in (
                ("kafka_twin_tap_rows_total", tap.rows),
                ("kafka_twin_tap_refused_total", tap.parser.invalid_lines),
                ("kafka_twin_tap_dropped_total", tap.dropped),
            ):
                for value, count in sorted(counts.items()):
                    families[family].add_metric([*labels, value], count)
        yield from families.values()


@contextmanager
def served(taps: Mapping[int, BrokerTap], cluster: str, port: int) -> Iterator[None]:
    """Serve the counters on this port of 127.0.0.1.

    Raises:
        MetricsPortError: the port cannot be used.
    """
    registry = CollectorRegistry()
    registry.register(_Counters(taps, cluster))
    try:
        server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    except OSError as error:
        raise MetricsPortError(f"port {port} cannot be used: {error.strerror}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
