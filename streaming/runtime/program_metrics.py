"""Metrics of a program about itself, served with Prometheus' own client library, and its health.

A program declares its metrics (``own_metrics``), fills them in as it works, and serves them at a
port of the section ``[metrics]``. They are kept whether or not they are served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from streaming.runtime.errors import UserError
from streaming.runtime.exposition.application import Family, Registry, application
from streaming.runtime.exposition.build import is_build_info, own_version
from streaming.runtime.exposition.native import NativeHistogram
from streaming.runtime.ports import probes
from streaming.runtime.ports.sockets import listening_at, why_not
from streaming.runtime.ports.wsgi import serving
from twin.declarations.declare import Metric

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""From a cycle of a small cluster to a first batch on a busy machine."""

_PLAIN: Final = "text/plain; charset=utf-8"


class MetricsPortError(UserError):
    """The port for metrics cannot be used."""


class ProgramMetrics:
    """The declared metrics of a program about one cluster, which each series has as a label."""

    def __init__(
        self, cluster: str, declared: Sequence[Metric], registry: Registry | None = None
    ) -> None:
        """Counters and histograms without labels of their own begin at zero.

        A gauge has no series before its value is known.

        Args:
            cluster: its name.
            declared: the metrics.
            registry: with those of other clusters of the same program; None: a new one.
        """
        self.registry = Registry() if registry is None else registry
        self._cluster = cluster
        self._families = {metric: _family(metric, self.registry) for metric in declared}
        for metric, family in self._families.items():
            if metric.type != "gauge" and not metric.label_names:
                family.labels(cluster)
            if metric.type == "histogram":
                self.registry.native.setdefault((metric.series_name, cluster), NativeHistogram())
            if is_build_info(metric):
                self.set(metric, 1, own_version())

    def forget(self) -> None:
        """Serve nothing about the cluster any more."""
        for metric, family in self._families.items():
            family.remove_by_labels({"cluster": self._cluster})
            self.registry.native.pop((metric.series_name, self._cluster), None)

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
        self.registry.native[metric.series_name, self._cluster].observe(seconds)


def _family(metric: Metric, registry: Registry) -> Family:
    """The family of the metric in the registry, which is made for the first cluster."""
    name, labels = metric.series_name, ("cluster", *metric.label_names)
    if (known := registry.families.get(name)) is not None:
        return known
    family: Family
    if metric.type == "counter":
        family = Counter(name.removesuffix("_total"), metric.help, labels, registry=registry)
    elif metric.type == "histogram":
        family = Histogram(name, metric.help, labels, registry=registry, buckets=BUCKETS_S)
    else:
        family = Gauge(name, metric.help, labels, registry=registry)
    registry.families[name] = family
    return family


@contextmanager
def served(
    registry: CollectorRegistry,
    host: str,
    port: int,
    key: str,
    why_unhealthy: Callable[[], str] | None = None,
) -> Iterator[None]:
    """Serve ``/metrics`` while the block runs, and the paths of ``probes``; port 0: do not.

    Args:
        registry: of the metrics.
        host: address to listen on.
        port: number of the port.
        key: the setting or option that gave the port, for the error.
        why_unhealthy: gives a sentence, empty while the program gets on; None: unknown, and
        ``/healthz`` is not served.

    Raises:
        MetricsPortError: the port cannot be used.
    """
    if port == 0:
        yield
        return
    try:
        listening = listening_at(host, port)
    except OSError as error:
        reason = why_not(error)
        raise MetricsPortError(f"{key}: cannot listen on {host}:{port}: {reason}") from None
    with serving(_with_probes(application(registry), why_unhealthy), listening):
        yield


_STATUS: Final = {200: "200 OK", 404: "404 Not Found", 503: "503 Service Unavailable"}


def _with_probes(metrics: WSGIApplication, why: Callable[[], str] | None) -> WSGIApplication:
    """The application, which gives metrics at any path, with the paths of probes beside them."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case probes.ALIVE:
                # Its work is watched by its liveness file: not all programs know of themselves
                # whether they stand still.
                status, text = probes.alive("")
            case probes.READY:
                status, text = probes.ready(None if why is None else why())
            case probes.FRESH:
                status, text = (404, "") if why is None else probes.fresh(why())
            case _:
                return metrics(environ, start_response)
        start_response(_STATUS[status], [("Content-Type", _PLAIN)])
        return [text.encode()]

    return answer
