"""Spark's progress reports of a streaming query, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


class Reports:
    """The reports of a query.

    They are read as text: PySpark's own way asks the JVM for each field, a hundred calls a report,
    and took a tenth of the CPU time of an idle query.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query: Any = query._jsq
        self._newest: dict[str, Any] | None = None
        self._newest_at = ""

    def newest(self) -> dict[str, Any] | None:
        """The report of the last batch, or of a look that found nothing; None before the first."""
        report = self._query.lastProgress()
        if report is not None and (at := report.timestamp()) != self._newest_at:
            self._newest, self._newest_at = json.loads(report.json()), at
        return self._newest

    def recent(self) -> list[dict[str, Any]]:
        """The last ones, as many as Spark keeps, the oldest first."""
        return [json.loads(report.json()) for report in self._query.recentProgress()]


def is_batch(progress: Mapping[str, Any]) -> bool:
    """Whether a batch was run.

    Spark also reports when there is nothing to do, with the number of the next batch.
    """
    return "addBatch" in progress.get("durationMs", {})


def log_fields(progress: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a report that are logged once a minute."""
    state = (progress.get("stateOperators") or [{}])[0]
    return {
        "batch": progress.get("batchId"),
        "observations": progress.get("numInputRows"),
        "batch_ms": progress.get("durationMs", {}).get("triggerExecution"),
        "state_rows": state.get("numRowsTotal"),
        # Its cache keeps blocks of deleted files until it is full, so it grows even if the state
        # does not.
        "rocksdb_memory_bytes": state.get("memoryUsedBytes"),
    }
