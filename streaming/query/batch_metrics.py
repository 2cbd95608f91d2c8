"""Counts batches for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from streaming.query import own_metrics as own
from streaming.query.progress import is_batch, progress_data
from streaming.query.stalled import StallCause, StallKind
from streaming.runtime.program_metrics import ProgramMetrics

_NONE_YET = -1


class BatchMetrics:
    """Fills in the metrics of the query (``own_metrics``), and reports its health."""

    def __init__(self, cluster: str) -> None:
        self._metrics = ProgramMetrics(cluster, own.OWN)
        self.registry = self._metrics.registry
        self._last_batch = _NONE_YET
        self.stalled(None)

    def why_unhealthy(self) -> str:
        """Why no batch has ended for three cycles, in a sentence; empty while batches end."""
        return f"no batch has ended for three cycles: {self._stall.text}" if self._stall else ""

    def update(
        self, query: StreamingQuery, newest: Mapping[str, Any] | None = None
    ) -> list[Mapping[str, Any]]:
        """Add the batches that have ended since the last call, and return their reports.

        ``newest`` is Spark's newest report, if the caller has it: each call of Spark makes a text.
        Spark keeps the progress of the last hundred; reading all of these costs more than reading
        the newest, and is rarely needed.
        """
        newest = newest or progress_data(query.lastProgress)
        if newest is None:
            return []
        last_batch = newest["batchId"] if is_batch(newest) else newest["batchId"] - 1
        if last_batch == self._last_batch + 1 and is_batch(newest):
            return self.add([newest])
        if last_batch > self._last_batch:
            recent = map(progress_data, query.recentProgress)
            return self.add(progress for progress in recent if progress is not None)
        return []

    def add(self, recent: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Add, in order, the batches that were not added before; returns these."""
        added = []
        for progress in recent:
            if is_batch(progress) and progress["batchId"] > self._last_batch:
                self._last_batch = progress["batchId"]
                self._add(progress)
                added.append(progress)
        return added

    def _add(self, progress: Mapping[str, Any]) -> None:
        self._metrics.add(own.BATCHES)
        self._metrics.add(own.ROWS, progress["numInputRows"])
        self._metrics.observe(own.BATCH_SECONDS, progress["durationMs"]["triggerExecution"] / 1_000)
        began_at = datetime.fromisoformat(progress["timestamp"])
        self._metrics.set(own.BATCH_AT, began_at.timestamp())
        for operator in progress.get("stateOperators", ()):
            self._metrics.set(own.STATE_ROWS, operator["numRowsTotal"])
            self._metrics.set(own.ROCKSDB_BYTES, operator["memoryUsedBytes"])

    def stalled(self, why: StallCause | None) -> None:
        """Why no batch ends; None while batches end."""
        self._stall = why
        for kind in StallKind:
            is_reason = why is not None and kind is why.kind
            self._metrics.set(own.STALLED, is_reason, kind.name.lower())

    def remote_segments(self, *, running: bool) -> None:
        """Whether remote segments are read."""
        self._metrics.set(own.REMOTE_SEGMENTS, running)
