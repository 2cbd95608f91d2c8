"""Counts batches for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from streaming.query import own_metrics as own
from streaming.query.progress import Reports, is_batch
from streaming.query.stalled import StallCause, StallKind
from streaming.runtime.exposition.application import Registry
from streaming.runtime.program_metrics import ProgramMetrics

_NONE_YET = -1


class BatchMetrics:
    """Fills in the metrics of a query (``own_metrics``), and reports its health.

    Each of its clusters has the batches, which it shares with the others, and its own messages.
    """

    def __init__(self, registry: Registry) -> None:
        """The metrics go to a registry, which queries share."""
        self.registry = registry
        self._of: dict[str, ProgramMetrics] = {}
        self._topics: dict[str, str] = {}
        self._last_batch = _NONE_YET
        self._stall: StallCause | None = None

    def watch(self, observations: Mapping[str, str]) -> None:
        """Serve the metrics of these clusters, and no others.

        Args:
            observations: the topic of each, by the cluster's name.
        """
        self._topics = dict(observations)
        for name in self._of.keys() - observations.keys():
            self._of.pop(name).forget()
        for name in observations:
            if name not in self._of:
                self._of[name] = ProgramMetrics(name, own.OWN, self.registry)
        self.stalled(self._stall)

    def forget(self) -> None:
        """Serve nothing any more."""
        self.watch({})

    def why_unhealthy(self) -> str:
        """Why no batch has ended for three cycles, in a sentence; empty while batches end."""
        if self._stall is None:
            return ""
        if self._stall.kind is StallKind.FAILED:
            return f"the query has ended: {self._stall.text}"
        return f"no batch has ended for three cycles: {self._stall.text}"

    def update(self, reports: Reports) -> list[Mapping[str, Any]]:
        """Add the batches that have ended since the last call, and return their reports.

        Spark keeps the last ones; reading all of these costs more than reading the newest, and
        is rarely needed.
        """
        newest = reports.newest()
        if newest is None:
            return []
        last_batch = newest["batchId"] if is_batch(newest) else newest["batchId"] - 1
        if last_batch == self._last_batch + 1 and is_batch(newest):
            return self.add([newest])
        if last_batch > self._last_batch:
            return self.add(reports.recent())
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
        seconds = progress["durationMs"]["triggerExecution"] / 1_000
        began_at = datetime.fromisoformat(progress["timestamp"]).timestamp()
        for name, metrics in self._of.items():
            metrics.add(own.BATCHES)
            metrics.add(own.ROWS, self._messages(progress, name))
            metrics.observe(own.BATCH_SECONDS, seconds)
            metrics.set(own.BATCH_AT, began_at)
            for operator in progress.get("stateOperators", ()):
                metrics.set(own.STATE_ROWS, operator["numRowsTotal"])
                metrics.set(own.ROCKSDB_BYTES, operator["memoryUsedBytes"])

    def _messages(self, progress: Mapping[str, Any], name: str) -> int:
        """How many of a batch are of a cluster."""
        if len(self._of) == 1:
            return int(progress["numInputRows"])
        topic = self._topics[name]
        return sum(
            _count(source["startOffset"] or {}, source["endOffset"] or {}, topic)
            for source in progress["sources"]
        )

    def ended(self, why: str) -> None:
        """The query has ended by itself, and is tried again."""
        self.stalled(StallCause(StallKind.FAILED, why))

    def stalled(self, why: StallCause | None) -> None:
        """Why no batch ends; None while batches end."""
        self._stall = why
        for metrics in self._of.values():
            for kind in StallKind:
                is_reason = why is not None and kind is why.kind
                metrics.set(own.STALLED, is_reason, kind.name.lower())

    def remote_segments(self, cluster: str, *, running: bool) -> None:
        """Whether remote segments of a cluster are read."""
        self._of[cluster].set(own.REMOTE_SEGMENTS, running)


def _count(
    start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]], topic: str
) -> int:
    before = start.get(topic, {})
    return sum(max(0, offset - before.get(n, offset)) for n, offset in end.get(topic, {}).items())
