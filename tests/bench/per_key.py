"""The textbook way, for comparison: one Spark state entry a partition, plain Python rules.

It keeps what the twin keeps of a partition and applies the same rules to one partition at a time:
caught up, in sync, coverage, the next leader by both rules, risks. ``tests/twin/test_per_key.py``
compares its answers with those of the vectorised rules, so that like is compared with like.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from twin.builtin import CATALOG
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.engine.frames import Frame
from twin.kafka.election import Outcome
from twin.rules.tiering.coverage import Coverage
from twin.tables.enums import ReplicaFlags

INPUT = (
    "key string, at_ms long, leader int, leader_epoch int, replicas array<int>, "
    "replica_flags array<int>, log_end array<long>, local_start array<long>, bytes array<long>, "
    "started_ms array<long>"
)
STATE = "value array<long>"
OUTPUT = "topic string, key string, value binary"


class Settings(NamedTuple):
    """The values that the vectorised rules read from the configs table."""

    min_isr: int = 2
    lag_max_ms: int = 30_000
    eligible_ms: int = 600_000


class Answer(NamedTuple):
    """The findings of one partition."""

    caught_up: list[int]
    in_sync: list[int]
    coverage: list[int]
    kafka: tuple[int, int, int]
    kip1303: tuple[int, int, int]
    risks: int


class Held(NamedTuple):
    """The state of one partition. A replica that does not answer keeps its last sample."""

    leader_end: int
    leader_sampled_ms: int
    caught_up: list[int]
    log_end: list[int]
    local_start: list[int]
    started_ms: list[int]
    sampled_ms: list[int]

    @staticmethod
    def from_values(values: list[int] | None, replicas: int) -> Held:
        """The numbers that are stored, as an object; None before there were any."""
        if values is None:
            values = [UNKNOWN] * (2 + 5 * replicas)
        lists = [values[2 + i * replicas :][:replicas] for i in range(5)]
        return Held(values[0], values[1], *lists)

    def values(self) -> list[int]:
        """The numbers to store."""
        end, sampled, *lists = self
        return [end, sampled, *(value for each in lists for value in each)]


def judge(row: Any, before: list[int] | None, settings: Settings) -> tuple[Answer, list[int]]:
    """The findings of one partition, and the state to keep."""
    replicas, flags = list(row.replicas), list(row.replica_flags)
    old = Held.from_values(before, len(replicas))
    leads = [broker == row.leader for broker in replicas]
    slot = leads.index(True) if any(leads) else None
    now = _sampled(row, old, slot)
    caught_up = [_caught_up(old, now, i, i == slot) for i in range(len(replicas))]
    now = now._replace(caught_up=caught_up)
    in_sync = [
        _in_sync(row.at_ms, now, i, i == slot, flags[i], settings) for i in range(len(replicas))
    ]
    coverage = [_coverage(row.at_ms, now, i, settings) for i in range(len(replicas))]
    left = [
        bool(each & ReplicaFlags.IN_ISR and not each & ReplicaFlags.OFFLINE) and not lead
        for each, lead in zip(flags, leads, strict=True)
    ]
    warm_first = sorted(range(len(replicas)), key=lambda i: coverage[i] == Coverage.COLD)
    kafka, kip1303 = (
        _next_leader(replicas, left, coverage, order)
        for order in (range(len(replicas)), warm_first)
    )
    isr = sum(1 for each in flags if each & ReplicaFlags.IN_ISR)
    risks = _risks(row.leader, isr, len(replicas), kafka[1:], slot, coverage, settings)
    return Answer(caught_up, in_sync, coverage, kafka, kip1303, risks), now.values()


def _sampled(row: Any, old: Held, slot: int | None) -> Held:
    """The newest sample of each replica, and of the leader's log end."""
    log_end, local_start = list(old.log_end), list(old.local_start)
    started_ms, sampled_ms = list(old.started_ms), list(old.sampled_ms)
    for i, end in enumerate(row.log_end):
        if end != UNKNOWN:
            log_end[i], local_start[i] = end, row.local_start[i]
            started_ms[i], sampled_ms[i] = row.started_ms[i], row.at_ms
    end, at_ms = (UNKNOWN, UNKNOWN) if slot is None else (log_end[slot], sampled_ms[slot])
    return Held(end, at_ms, old.caught_up, log_end, local_start, started_ms, sampled_ms)


def _caught_up(old: Held, now: Held, i: int, is_leader: bool) -> int:
    if is_leader:
        return now.sampled_ms[i]
    at_ms, end = old.caught_up[i], now.log_end[i]
    if end != UNKNOWN and old.leader_end != UNKNOWN and end >= old.leader_end:
        at_ms = max(at_ms, old.leader_sampled_ms)
    if end != UNKNOWN and now.leader_end != UNKNOWN and end >= now.leader_end:
        at_ms = max(at_ms, now.leader_sampled_ms)
    return at_ms


def _in_sync(
    now_ms: int, now: Held, i: int, is_leader: bool, flags: int, settings: Settings
) -> int:
    at_ms, end = now.caught_up[i], now.log_end[i]
    recent = at_ms != UNKNOWN and now_ms - at_ms <= settings.lag_max_ms
    if is_leader or (end != UNKNOWN and end == now.leader_end) or recent:
        return 1
    behind = at_ms != UNKNOWN and now.leader_end != UNKNOWN
    return 0 if behind or not flags & ReplicaFlags.IN_ISR else UNKNOWN


def _coverage(now_ms: int, now: Held, i: int, settings: Settings) -> int:
    """By the threshold alone: the simulated replicas all lack their oldest records."""
    is_empty = now.log_end[i] != UNKNOWN and now.local_start[i] == now.log_end[i]
    if not is_empty and now.started_ms[i] == UNKNOWN:
        return Coverage.ASSUMED
    span_ms = 0 if is_empty else max(now_ms - now.started_ms[i], 0)
    return Coverage.WARM if span_ms >= settings.eligible_ms else Coverage.COLD


def _next_leader(
    replicas: list[int], left: list[bool], coverage: list[int], order: Any
) -> tuple[int, int, int]:
    """The first replica in that order that may lead, how safe it is, and its coverage."""
    for i in order:
        if left[i]:
            return replicas[i], Outcome.CLEAN, coverage[i]
    return NO_BROKER, Outcome.NONE, UNKNOWN


def _bit(name: str) -> int:
    return 1 << CATALOG.risk_names.index(name)


OFFLINE: Final = _bit("partition_offline")
NO_CLEAN_SUCCESSOR: Final = _bit("no_clean_successor")
UNDER_MIN_ISR: Final = _bit("under_min_isr")
AT_MIN_ISR: Final = _bit("at_min_isr")
LEADER_COLD: Final = _bit("leader_cold")
NEXT_LEADER_COLD: Final = _bit("next_leader_cold")

RISKS: Final = (
    OFFLINE | NO_CLEAN_SUCCESSOR | UNDER_MIN_ISR | AT_MIN_ISR | LEADER_COLD | NEXT_LEADER_COLD
)
"""The conditions that it judges: a share of what the twin does, so the comparison flatters it."""


def _risks(
    leader: int, isr: int, replicas: int, following: tuple[int, int], slot: int | None,
    coverage: list[int], settings: Settings,
) -> int:  # fmt: skip
    outcome, next_coverage = following
    least = min(settings.min_isr, replicas)
    bits = 0 if leader != NO_BROKER else OFFLINE
    if leader != NO_BROKER:
        bits |= NO_CLEAN_SUCCESSOR if outcome >= Outcome.LAST_KNOWN else 0
        bits |= NEXT_LEADER_COLD if next_coverage == Coverage.COLD else 0
        cold = slot is not None and coverage[slot] == Coverage.COLD
        bits |= LEADER_COLD if cold else 0
        bits |= UNDER_MIN_ISR if isr < least else 0
        bits |= AT_MIN_ISR if isr == least and isr < replicas else 0
    return bits


def as_rows(frames: list[Frame]) -> list[tuple[bytes, bytes]]:
    """A cycle's frames as one JSON row a partition: key and value."""
    by_kind = {frame.header.kind: frame for frame in frames}
    rows: dict[str, dict[str, Any]] = {}
    for part in by_kind["partitions"].rows.to_pylist():
        key = f"{part['topic']}-{part['partition']}"
        rows[key] = {
            "key": key,
            "at_ms": by_kind["partitions"].header.observed_at_ms,
            **{name: part[name] for name in _CONTROLLER},
            **{name: [UNKNOWN] * len(part["replicas"]) for name in _SAMPLES},
        }
    for replica in by_kind["replicas"].rows.to_pylist():
        row = rows[f"{replica['topic']}-{replica['partition']}"]
        slot = row["replicas"].index(replica["broker"])
        for name, column in _SAMPLES.items():
            row[name][slot] = replica[column]
    return [(key.encode(), json.dumps(row).encode()) for key, row in rows.items()]


_CONTROLLER = ("leader", "leader_epoch", "replicas", "replica_flags")

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
        """Release nothing."""
