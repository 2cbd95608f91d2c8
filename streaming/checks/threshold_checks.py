"""Checks the thresholds of KIP-1303: whether there are any, and topics that never reach them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from streaming.checks.finding import CheckResult
from streaming.collector.cycle.observation import CycleResult
from streaming.collector.settings.config_values import THRESHOLDS
from streaming.questions.answer import some
from twin.arrays.plain import counted
from twin.tables.enums import CLUSTER_WIDE, NOT_SET
from twin.tables.observations import ConfigsFrame

_LIMITS: Final = {
    "eligible_local_log_ms": "local_retention_ms",
    "eligible_local_log_bytes": "local_retention_bytes",
}
"""The setting that limits a local log, by threshold."""

_COLUMNS: Final = ("topic", "remote_storage", *_LIMITS, *_LIMITS.values())

Row = Mapping[str, int | str]


def of_thresholds(observation: CycleResult) -> Iterator[CheckResult]:
    """Check the thresholds by which replicas are warm or cold, and which topics lack one."""
    rows = {
        str(row["topic"]): row
        for table in observation.rows(ConfigsFrame)
        for row in table.select(_COLUMNS).to_pylist()
    }
    default = rows.pop(CLUSTER_WIDE, {})
    judged = {
        name: {c: default.get(c, NOT_SET) if row[c] == NOT_SET else row[c] for c in _LIMITS}
        for name, row in rows.items()
    }
    judged = {name: own for name, own in judged.items() if max(own.values()) > 0}
    if not judged:
        yield CheckResult(
            "threshold of KIP-1303; set one in twin.toml, e.g. local_log_ms = 600000 under "
            "[eligibility]",
            "which replicas are warm or cold: nothing is judged",
        )
        return
    if max(int(default.get(c, NOT_SET)) for c in THRESHOLDS.values()) > 0:
        yield CheckResult("threshold of KIP-1303 for all topics")
    else:
        topics = counted(len(judged), "topic")
        yield CheckResult(f"threshold of KIP-1303 for {topics}, the others are not judged")
    yield from _out_of_reach(observation, rows, judged)


def _out_of_reach(
    observation: CycleResult, rows: Mapping[str, Row], judged: Mapping[str, Mapping[str, int]]
) -> Iterator[CheckResult]:
    """Topics to which a threshold does not apply, or whose local retention is below it."""
    partitions = _partitions(observation)
    whole = [name for name in judged if rows[name]["remote_storage"] == 0]
    short = [
        name
        for name, own in judged.items()
        if rows[name]["remote_storage"] == 1 and not _can_reach(rows[name], own)
    ]
    if whole:
        count = counted(sum(partitions.get(name, 0) for name in whole), "partition")
        yield CheckResult(
            f"{count} of {counted(len(whole), 'topic')} not tiered: their replicas have the whole "
            "log on disk and are never cold"
        )
    if short:
        count = counted(sum(partitions.get(name, 0) for name in short), "partition")
        yield CheckResult(
            "threshold of KIP-1303 within local retention, which is shorter for "
            f"{count} of {counted(len(short), 'topic')} ({some(sorted(short))})",
            "warm replicas of these topics while they are written to: lower the threshold, or "
            "raise local.retention.ms or local.retention.bytes",
        )


def _can_reach(row: Row, own: Mapping[str, int]) -> bool:
    """Whether a local log can reach one of the thresholds, as far as its retention is known."""
    return any(
        threshold > 0 and (int(row[_LIMITS[c]]) < 0 or threshold <= int(row[_LIMITS[c]]))
        for c, threshold in own.items()
    )


def _partitions(observation: CycleResult) -> dict[str, int]:
    """The number of partitions of each topic."""
    placement = observation.placement
    counts = np.bincount(placement.topic_of, minlength=len(placement.topic))
    return dict(zip(placement.topic, counts.tolist(), strict=True))
