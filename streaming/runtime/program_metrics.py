"""Metrics of a program about itself, served with Prometheus' own client library.

A program declares its metrics (``own_metrics``), fills them in as it works, and serves them at a
port of the section ``[metrics]``. They are kept whether or not they are served.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from streaming.runtime.errors import UserError
from twin.declare import Metric

BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""From a cycle of a small cluster to a first batch on a busy machine."""


class MetricsPortError(UserError):
    """The port for metrics cannot be used."""


class ProgramMetrics:
    """The declared metrics of a program. Every series has the label ``cluster``."""

    def __init__(self, cluster: str, declared: Sequence[Metric]) -> None:
        """Counters and histograms without labels of their own begin at zero.

        A gauge has no series before its value is known.
        """
        # Else each counter has a second series that nobody asks for.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._cluster = cluster
        self._families: dict[Metric, Counter | Gauge | Histogram] = {}
        for metric in declared:
            self._families[metric] = family = _family(metric, self.registry)
            if metric.type != "gauge" and not metric.label_names:
                family.labels(cluster)

    def add(self, metric: Metric, amount: float = 1, *labels: str) -> None:
        """Add to a counter."""
        family = self._families[metric]
        assert isinstance(family, Counter)
        family.labels(self._cluster, *labels).inc(amount)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""
        family = self._families[metric]
        assert isinstance(family, Gauge)
        family.labels(self._cluster, *labels).set(value)

    def observe(self, metric: Metric, seconds: float) -> None:
        """Add a duration to a histogram."""
        family = self._families[metric]
        assert isinstance(family, Histogram)
        family.labels(self._cluster).observe(seconds)


def _family(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name, labels = metric.series_name, ("cluster", *metric.label_names)
    if metric.type == "counter":
        return Counter(name.removesuffix("_total"), metric.help, labels, registry=registry)
    if metric.type == "histogram":
        return Histogram(name, metric.help, labels, registry=registry, buckets=BUCKETS_S)
    return Gauge(name, metric.help, labels, registry=registry)


@contextmanager
def served(registry: CollectorRegistry, host: str, port: int, key: str) -> Iterator[None]:
    """Serve ``/metrics`` while the block runs; port 0: do not.

    Args:
        registry: of the metrics.
        host: address to listen on.
        port: number of the port.
        key: the setting or option that gave the port, for the error.

    Raises:
        MetricsPortError: the port cannot be used.
    """
    if port == 0:
        yield
        return
    try:
        server, thread = prometheus_client.start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        reason = error.strerror or str(error)
        raise MetricsPortError(f"{key}: cannot listen on {host}:{port}: {reason}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
