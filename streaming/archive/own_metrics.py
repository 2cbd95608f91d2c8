"""Metrics that the archive's program serves about itself (``metrics.archive_port``)."""

from __future__ import annotations

from typing import Final

from streaming.runtime.exposition.build import build_info, declared
from twin.declarations.declare import Metric

BUILD: Final = build_info("archive")
BATCHES: Final = Metric("archive_batches", "Batches that the archive committed.", type="counter")
BATCH_SECONDS: Final = Metric(
    "archive_batch_duration_seconds",
    "Time of a batch of the archive, from its first message until its commit.",
    type="histogram",
)
NEWEST_AT: Final = Metric(
    "archive_newest_cycle_timestamp_seconds", "Time of the newest cycle in the archive."
)
ROWS: Final = Metric(
    "archive_rows", "Rows written to a table of the archive.", type="counter", labels=("table",)
)
GAPS: Final = Metric(
    "archive_gaps",
    "Times at which cycles of a shard were missing on the bus, and so are in the archive.",
    type="counter",
)
FILLED: Final = Metric(
    "archive_filled_cycles",
    "Cycles of a shard that were missing on the bus and were computed from observations.",
    type="counter",
)
BYTES: Final = Metric(
    "archive_bytes",
    "Size of a table of the archive, at the beginning of the hour.",
    labels=("table",),
)

OWN: Final = declared(globals())
