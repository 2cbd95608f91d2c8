"""What two cycles of a shard show that is no event: changed settings, and disks that failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from streaming.history.report.happenings import DISK_FAILED, SETTINGS, Happening
from streaming.history.report.scanning.measures import failed_replicas, places
from twin.arrays.plain import counted
from twin.declarations.table import UNKNOWN
from twin.engine.rows import common_rows
from twin.engine.shard_state import ShardState
from twin.questions import difference
from twin.tables.state import Assignment, Configs, PartitionIndex, Topics


def between(was: ShardState, now: ShardState, at_ms: int) -> Iterator[Happening]:
    """What changed by the later cycle; the cluster's settings are the same in every shard."""
    if was[Configs] is not now[Configs]:
        for topic, changed in difference.settings(was, now).items():
            yield _settings(topic, changed, at_ms)
    yield from _failed_disks(was, now, at_ms)


def same_rows(was: ShardState, now: ShardState) -> bool:
    """Whether both have the same partitions in the same rows."""
    before, after = was[PartitionIndex], now[PartitionIndex]
    return (
        np.array_equal(before.topic_index, after.topic_index)
        and np.array_equal(before.partition, after.partition)
        and np.array_equal(was[Topics].topic_id, now[Topics].topic_id)
    )


def _failed_disks(was: ShardState, now: ShardState, at_ms: int) -> Iterator[Happening]:
    failed = failed_replicas(now)
    if not failed.any():
        return
    old_row, before = common_rows(was, now), failed_replicas(was)
    both = np.flatnonzero(old_row != UNKNOWN)
    slots = min(before.shape[1], failed.shape[1])
    # Slots of a partition stay while nobody reassigns it; then it has an event of its own.
    failed[both, :slots] &= ~before[old_row[both], :slots]
    broker_of = now[Assignment].broker
    for broker in np.unique(broker_of[failed]).tolist():
        where = places(now, np.flatnonzero((failed & (broker_of == broker)).any(axis=1)))
        text = (
            f"a log directory of broker {broker} failed: "
            f"{counted(len(where), 'replica is', 'replicas are')} offline"
        )
        yield Happening(
            DISK_FAILED, at_ms, text, broker=broker, left=frozenset((broker,)),
            places=frozenset(where),
        )  # fmt: skip


def _settings(topic: str, changed: Mapping[str, difference.Setting], at_ms: int) -> Happening:
    values = ", ".join(
        f"{name} {_value(before)} → {_value(after)}"
        for name, (before, after) in sorted(changed.items())
    )
    text = f"settings of {topic or 'the cluster'} changed: {values}"
    return Happening(SETTINGS, at_ms, text, topic, name=" ".join(sorted(changed)))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "unknown or not set" if value is None else str(value)
