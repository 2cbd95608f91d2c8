"""Spark's progress reports of a streaming query, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def progress_data(progress: Any) -> dict[str, Any] | None:
    """A report as plain data: PySpark has had dictionaries and objects."""
    if progress is None:
        return None
    data: dict[str, Any] = progress if isinstance(progress, dict) else progress.jsonValue()
    return data


def is_batch(progress: Mapping[str, Any]) -> bool:
    """A batch was run.

    While there is nothing to do Spark reports that too, with the number of the batch to come.
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
        # Its cache keeps blocks of files that are long deleted, until it is full: it grows while
        # the state does not.
        "rocksdb_memory_bytes": state.get("memoryUsedBytes"),
    }
