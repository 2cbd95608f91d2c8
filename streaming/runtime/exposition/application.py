"""The metrics of a registry over HTTP, in the format that the scraper asks for.

The text formats are those of Prometheus' client library, which chooses by ``Accept``. In the plain
one it would serve since when a counter counts as a series of its own, which nobody uses.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector

from streaming.runtime.exposition import protobuf
from streaming.runtime.exposition.native import NativeHistogram

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


Family = Counter | Gauge | Histogram
"""All series of one name."""


class Registry(CollectorRegistry):
    """A registry that knows its families, by name.

    A histogram without labels of its own has a native one beside it, by name and cluster.
    """

    def __init__(self) -> None:
        super().__init__()
        self.families: dict[str, Family] = {}
        self.native: dict[tuple[str, str], NativeHistogram] = {}


class WithoutCreated(Collector):
    """A registry without the samples that say since when something counts."""

    def __init__(self, registry: Collector) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            mine = copy.copy(family)
            mine.samples = [each for each in mine.samples if not each.name.endswith("_created")]
            yield mine

    def restricted_registry(self, names: Iterable[str]) -> WithoutCreated:
        """Those families alone; the client library calls it for the parameter ``name[]``."""
        assert isinstance(self._registry, CollectorRegistry)
        return WithoutCreated(self._registry.restricted_registry(names))


def application(registry: CollectorRegistry) -> WSGIApplication:
    """Gives the metrics at any path."""
    plain = prometheus_client.make_wsgi_app(WithoutCreated(registry))
    open_metrics = prometheus_client.make_wsgi_app(registry)
    native = registry.native if isinstance(registry, Registry) else {}

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        accept = environ.get("HTTP_ACCEPT", "")
        if protobuf.is_asked_for(accept):
            start_response("200 OK", [("Content-Type", protobuf.CONTENT_TYPE)])
            return [protobuf.encoded(registry, native)]
        if "application/openmetrics-text" in accept:
            return open_metrics(environ, start_response)
        return plain(environ, start_response)

    return answer
