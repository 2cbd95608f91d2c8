"""Metrics that the query serves about itself (``metrics.query_port``).

Refused observations and skipped frames are counted in tasks, which may run on other machines: those
counts reach the exporter through the state and the events.
"""

from __future__ import annotations

from typing import Final

from streaming.runtime.exposition.build import build_info, declared
from twin.declarations.declare import Metric

BUILD: Final = build_info("query")
BATCHES: Final = Metric("query_batches", "Batches that the query completed.", type="counter")
BATCH_SECONDS: Final = Metric(
    "query_batch_duration_seconds",
    "Time of a batch of the query, from its trigger until its snapshots are on the bus.",
    type="histogram",
)
ROWS: Final = Metric(
    "query_observations_read",
    "Messages of the cluster's observations topic that the query read.",
    type="counter",
)
BATCH_AT: Final = Metric(
    "query_last_batch_timestamp_seconds", "Time at which the newest batch of the query began."
)
STATE_ROWS: Final = Metric(
    "query_state_rows",
    "Rows of the query's state: two for each shard, and one more for each that has remote "
    "segments.",
)
ROCKSDB_BYTES: Final = Metric(
    "query_rocksdb_memory_bytes",
    "Memory of RocksDB, with blocks of deleted files in its cache: it grows up to its limit, and "
    "not with the state.",
)
STALLED: Final = Metric(
    "query_stalled",
    "1 for the reason why no batch of the query has ended for three cycles, else 0.",
    labels=("reason",),
)
REMOTE_SEGMENTS: Final = Metric(
    "query_remote_segments_running",
    "1 while records about remote segments are read, 0 while that fails or is not allowed.",
)

OWN: Final = declared(globals())
