"""Spark's progress reports of a streaming query, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def progress_data(progress: Any) -> dict[str, Any] | None:
    """A report as plain data: versions of PySpark give dictionaries or objects."""
    if progress is None:
        return None
    return progress if isinstance(progress, dict) else progress.jsonValue()


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
