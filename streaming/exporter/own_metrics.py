"""Metrics that the exporter fills in itself: what it has read, kept, counted and rendered.

All others are declared beside the rules that they come from (``twin.builtin.CATALOG``).
"""

from __future__ import annotations

from typing import Final

from twin.declare import Metric

OWN: Final = (
    Metric("up", "1 while every shard's snapshot was read and is recent, else 0.", combine="max"),
    Metric("observation_age_seconds", "Age of the oldest among the shards' newest observations."),
    Metric("shards", "Shards whose snapshot has been read."),
    Metric("cycle_seconds", "Time between the two newest cycles of the collector."),
    Metric(
        "end_to_end_latency_seconds",
        "Time from the newest observation to the snapshot made from it, of the slowest shard.",
    ),
    Metric("state_bytes", "Encoded size of the state, as the query stores and writes it."),
    Metric(
        "observations_refused",
        "Observations that the query could not use, by reason.",
        labels=("reason",),
        type="counter",
    ),
    Metric(
        "snapshots_refused",
        "Snapshots and events that the exporter could not use, by reason.",
        labels=("reason",),
        type="counter",
    ),
    Metric(
        "frames_skipped",
        "Frames of a kind that the query does not know, by kind.",
        labels=("kind",),
        type="counter",
    ),
    Metric("events", "Events that the query reported, by kind.", labels=("kind",), type="counter"),
    Metric(
        "annotations",
        "Events sent to Grafana as annotations, by result: posted, gathered into another "
        "annotation, dropped, refused.",
        labels=("result",),
        type="counter",
    ),
    Metric(
        "exporter_snapshots_read",
        "Messages with a snapshot, or a part of one, that the exporter read.",
        type="counter",
    ),
    Metric("exporter_render_seconds", "Time it took to render the newest snapshots."),
    Metric("exporter_series", "Series of partitions and replicas in the newest exposition."),
    Metric(
        "series_dropped",
        "Series that an exposition left out because of exporter.max_series.",
        type="counter",
    ),
    Metric(
        "partitions_at_risk",
        "Partitions with the risk.",
        labels=("risk", "severity"),
    ),
    Metric("partitions_at_risk", "Partitions of the topic with any risk.", level="topic"),
    Metric(
        "at_risk",
        "1 for each risk that the partition has.",
        level="partition",
        labels=("risk", "severity"),
    ),
)
