"""Metrics of the exporter itself and of its input: not computed from a shard's tables."""

from __future__ import annotations

from typing import Final

from streaming.runtime.exposition.build import build_info, declared
from twin.declarations.declare import Metric


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, text, labels=labels)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, text, labels=labels, type="counter")


BUILD: Final = build_info("exporter")
UP: Final = _gauge("up", "1 while snapshots of all shards are there and fresh, else 0.")
BUS_UP: Final = _gauge("bus_up", "0 while the bus does not answer the exporter, else 1.")
OBSERVATION_AGE: Final = _gauge(
    "observation_age_seconds", "Age of the newest observation of the stalest shard."
)
LOSS: Final = Metric(
    "loss_info",
    "1, with one sentence on which brokers can be lost, and on partitions that go offline with "
    "their broker.",
    labels=("sentence",),
)
SHARDS: Final = _gauge("shards", "Shards whose snapshot has been read.")
CYCLE_SECONDS: Final = _gauge("cycle_seconds", "Time between the collector's two newest cycles.")
LATENCY: Final = _gauge(
    "end_to_end_latency_seconds",
    "Time from the newest observations to the snapshots made of them, of the slowest shard.",
)
STATE_BYTES: Final = _gauge("state_bytes", "Size of the query's state as its snapshots encode it.")
OBSERVATIONS_REFUSED: Final = _counter(
    "observations_refused", "Observations that the query could not use, by reason.", "reason"
)
SNAPSHOTS_REFUSED: Final = _counter(
    "snapshots_refused",
    "Snapshots and events that the exporter could not use, by reason.",
    "reason",
)
EVENTS: Final = _counter("events", "Changes that the query reported, by kind.", "kind")
ANNOTATIONS: Final = _counter(
    "annotations",
    "Grafana annotations by result: posted, gathered (events put into one), dropped, refused.",
    "result",
)
SNAPSHOTS_READ: Final = _counter(
    "exporter_snapshots_read", "Snapshots that the exporter read; each part counts."
)
RENDER_SECONDS: Final = _gauge(
    "exporter_render_seconds", "Time the exporter took to render the newest snapshots."
)
SERIES: Final = _gauge("exporter_series", "Series of partitions and replicas in the exposition.")
SERIES_DROPPED: Final = _counter(
    "series_dropped",
    "Series left out of an exposition because of exporter.max_series or max_series_at_risk.",
)
SERIES_CUT: Final = _gauge(
    "series_cut",
    "Series left out of the newest exposition, by the worst open risk of their partitions.",
    "level",
)

EVENT_STREAMS: Final = _gauge("event_streams", "Clients that read /api/v1/events.")
EVENT_GAPS: Final = _counter(
    "event_stream_gaps",
    "Gaps that were sent to clients of /api/v1/events, which were too slow or away for too long.",
)
MCP_CALLS: Final = _counter(
    "mcp_calls",
    "Calls of agents at /mcp by tool and outcome: answered, refused (the API's reason), failed.",
    "tool",
    "outcome",
)

AT_SCRAPE: Final = (UP, BUS_UP, OBSERVATION_AGE, LOSS, EVENT_STREAMS, EVENT_GAPS, MCP_CALLS)
"""Metrics that depend on the clock and on clients, and are rendered for each scrape."""

OWN: Final = declared(globals())
