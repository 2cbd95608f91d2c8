"""The textbook way, for comparison: one Spark state entry a partition, plain Python rules.

It keeps what the twin keeps of a partition and applies the same rules to one partition at a time:
caught up, in sync, coverage, the next leader by both rules, risks. ``tests/twin/test_per_key.py``
holds its answers against the vectorised ones, so that the comparison is of like with like.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from twin.table import NO_BROKER, UNKNOWN
from twin.tables.enums import ReplicaFlags
from twin.frames import Frame
from twin.rules.coverage import Coverage
from twin.rules.election import LossOutcome
from twin.rules.risks import Risk

INPUT = (
    "key string, at_ms long, leader int, leader_epoch int, replicas array<int>, slots array<int>, "
    "log_end array<long>, local_start array<long>, bytes array<long>, started_ms array<long>"
)
STATE = "value array<long>"
OUTPUT = "topic string, key string, value binary"


class Settings(NamedTuple):
    """What the vectorised rules read from the configs table."""

    min_isr: int = 2
    lag_max_ms: int = 30_000
    eligible_ms: int = 600_000


class Answer(NamedTuple):
    """The findings of one partition."""

    caught_up: list[int]
    in_sync: list[int]
    coverage: list[int]
    kafka: tuple[int, int]
    kip1303: tuple[int, int]
    risks: int


def judge(row: Any, before: list[int] | None, settings: Settings) -> tuple[Answer, list[int]]:
    """Findings of one partition, and the state to keep: leader's end, its time, caught up times."""
    replicas, slots, ends = list(row.replicas), list(row.slots), list(row.log_end)
    leads = [broker == row.leader for broker in replicas]
    seat = leads.index(True) if any(leads) else None
    end = ends[seat] if seat is not None else UNKNOWN
    old_end, old_at, *old_caught = before or [UNKNOWN, UNKNOWN, *[UNKNOWN] * len(replicas)]
    caught, in_sync, coverage = [], [], []
    for i in range(len(replicas)):
        at = old_caught[i]
        if old_end != UNKNOWN and ends[i] >= old_end:
            at = max(at, old_at)
        if end != UNKNOWN and ends[i] >= end:
            at = max(at, row.at_ms)
        at = row.at_ms if leads[i] else at
        caught.append(at)
        recent = at != UNKNOWN and row.at_ms - at <= settings.lag_max_ms
        if leads[i] or ends[i] == end or recent:
            in_sync.append(1)
        elif (at != UNKNOWN and end != UNKNOWN) or not slots[i] & ReplicaFlags.IN_ISR:
            in_sync.append(0)
        else:
            in_sync.append(UNKNOWN)
        empty = row.local_start[i] == ends[i]
        span = 0 if empty else max(row.at_ms - row.started_ms[i], 0)
        coverage.append(Coverage.WARM if span >= settings.eligible_ms else Coverage.THIN)
    left = [
        bool(s & ReplicaFlags.IN_ISR and not s & ReplicaFlags.OFFLINE) and not lead
        for s, lead in zip(slots, leads, strict=True)
    ]
    warm_first = sorted(range(len(replicas)), key=lambda i: coverage[i] == Coverage.THIN)
    kafka, kip1303 = (
        next(
            (
                (
                    replicas[i],
                    int(
                        LossOutcome.CLEAN_THIN
                        if coverage[i] == Coverage.THIN
                        else LossOutcome.CLEAN_WARM
                    ),
                )
                for i in order
                if left[i]
            ),
            (NO_BROKER, int(LossOutcome.NONE)),
        )
        for order in (range(len(replicas)), warm_first)
    )
    isr = sum(1 for s in slots if s & ReplicaFlags.IN_ISR)
    risks = _risks(row.leader, isr, len(replicas), kafka[1], seat, coverage, settings)
    state = [end, row.at_ms if seat is not None else UNKNOWN, *caught]
    return Answer(caught, in_sync, coverage, kafka, kip1303, risks), state


RISKS = int(
    Risk.OFFLINE | Risk.NO_CLEAN_SUCCESSOR | Risk.UNDER_MIN_ISR | Risk.AT_MIN_ISR
    | Risk.LEADER_THIN | Risk.NEXT_LEADER_THIN
)  # fmt: skip
"""What it judges: a share of what the twin does, so the comparison flatters this form."""


def _risks(
    leader: int, isr: int, replicas: int, outcome: int, seat: int | None, coverage: list[int],
    settings: Settings,
) -> int:  # fmt: skip
    least = min(settings.min_isr, replicas)
    bits = 0 if leader != NO_BROKER else Risk.OFFLINE
    if leader != NO_BROKER:
        bits |= Risk.NO_CLEAN_SUCCESSOR if outcome >= LossOutcome.LAST_KNOWN else 0
        bits |= Risk.NEXT_LEADER_THIN if outcome == LossOutcome.CLEAN_THIN else 0
        thin = seat is not None and coverage[seat] == Coverage.THIN
        bits |= Risk.LEADER_THIN if thin else 0
    bits |= Risk.UNDER_MIN_ISR if isr < least else 0
    bits |= Risk.AT_MIN_ISR if isr == least and isr < replicas else 0
    return int(bits)


def as_rows(frames: list[Frame]) -> list[tuple[bytes, bytes]]:
    """A cycle's frames as one JSON row a partition: key and value."""
    by_kind = {frame.header.kind: frame for frame in frames}
    rows: dict[str, dict[str, Any]] = {}
    for part in by_kind["partitions"].rows.to_pylist():
        key = f"{part['topic']}-{part['partition']}"
        rows[key] = {
            "key": key,
            "at_ms": by_kind["partitions"].header.observed_at_ms,
            **{name: part[name] for name in ("leader", "leader_epoch", "replicas", "slots")},
            **{name: [UNKNOWN] * len(part["replicas"]) for name in _SAMPLES},
        }
    for replica in by_kind["replicas"].rows.to_pylist():
        row = rows[f"{replica['topic']}-{replica['partition']}"]
        seat = row["replicas"].index(replica["broker"])
        for name, column in _SAMPLES.items():
            row[name][seat] = replica[column]
    return [(key.encode(), json.dumps(row).encode()) for key, row in rows.items()]


_SAMPLES = {
    "log_end": "log_end_offset",
    "local_start": "local_log_start_offset",
    "bytes": "local_log_bytes",
    "started_ms": "local_start_timestamp_ms",
}


class PartitionProcessor(StatefulProcessor):
    """One partition a key; the state is a row of numbers."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it once a task."""
        self._state = handle.getValueState("partition", STATE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[Row], timerValues: Any  # noqa: N803
    ) -> Iterator[Row]:  # fmt: skip
        """One row a cycle."""
        held = self._state.get()
        state = list(held[0]) if held is not None else None
        answer = None
        for row in rows:
            answer, state = judge(row, state, Settings())
        if answer is not None:
            self._state.update((state,))
            yield Row(topic=self._topic, key=key[0], value=repr(tuple(answer)).encode())

    def close(self) -> None:
        """Nothing to give back."""
