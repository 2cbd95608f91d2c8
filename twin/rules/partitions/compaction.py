"""Compacted logs that only grow.

The log cleaner compacts a log once what was written since its last pass is a share of it
(min.cleanable.dirty.ratio, half by default), and drops each record whose key was written again.
What is younger than min.compaction.lag.ms does not count yet. A log that has grown by so much
without ever becoming smaller, so long ago, holds new keys alone, or is not compacted: the cleaner
is dead, or cannot keep up.

Source: LogCleanerManager.grabFilthiestCompactedLog and cleanableOffsets, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from twin.arrays import keys, plain
from twin.declarations.declare import Alert, api_field, risk, rule
from twin.declarations.signature import Before, Cycle, NowMs
from twin.declarations.table import UNKNOWN, Bool, Int32, Int64, SparseTable, column
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.tables.state import Assignment, Partitions, Replicas

_LEAST_SEGMENTS: Final = 2
"""The segment that is written is not compacted, nor is a small log worth a word."""


class CompactedSizes(SparseTable, kind="compacted_sizes", version=2):
    """[N] one row a replica of a compacted topic: its size since it last became smaller."""

    broker: Int32 = column("broker id of the replica")
    least_bytes: Int64 = column("its size when it had last become smaller, or was first seen")
    size_bytes: Int64 = column("its newest known size")
    since_ms: Int64 = column("when it had the least size")
    due_since_ms: Int64 = column("when enough was written since to compact it; unknown before")


@rule
def compacted_sizes(
    replicas: Replicas,
    assignment: Assignment,
    roles: Roles,
    configs: TopicConfigs,
    before: Before[CompactedSizes],
    cycle: Cycle,
) -> CompactedSizes:
    """Where the size is not known now, the last known one stays."""
    compacted = np.flatnonzero(configs.compacted == 1)
    if not len(compacted):
        return CompactedSizes.empty()
    of, slot = np.nonzero(roles.is_assigned[compacted])
    row = compacted[of]
    broker, size = assignment.broker[row, slot], replicas.local_log_bytes[row, slot]
    place = keys.find(keys.pack(before.row, before.broker), keys.pack(row, broker))
    was_there = place != UNKNOWN
    least, last, since, due_since = (
        np.where(was_there, values[place], UNKNOWN) if len(values) else np.full(len(row), UNKNOWN)
        for values in (before.least_bytes, before.size_bytes, before.since_ms, before.due_since_ms)
    )
    size = np.where(size == UNKNOWN, last, size)
    begins_anew = (last == UNKNOWN) | (size < last)
    known = size != UNKNOWN
    sizes = CompactedSizes(
        row=row.astype(np.int32),
        broker=broker,
        least_bytes=np.where(begins_anew, size, least),
        size_bytes=size,
        since_ms=np.where(begins_anew, cycle.observed_at_ms, since),
        due_since_ms=np.where(begins_anew, UNKNOWN, due_since),
    )
    begins = is_due(sizes, configs) & (sizes.due_since_ms == UNKNOWN)
    return replace(
        sizes, due_since_ms=np.where(begins, cycle.observed_at_ms, sizes.due_since_ms)
    ).pick(known)


def is_due(sizes: CompactedSizes, configs: TopicConfigs) -> Bool:
    """[N] enough was written since the least size, without the segments that do not count."""
    segment_bytes, percent = (
        values[sizes.row] for values in (configs.segment_bytes, configs.min_dirty_percent)
    )
    grown = sizes.size_bytes - sizes.least_bytes - _LEAST_SEGMENTS * segment_bytes
    is_known = (segment_bytes != UNKNOWN) & (percent != UNKNOWN)
    share = np.where(is_known, percent / 100, 1.0)
    due: Bool = is_known & (grown > 0) & (grown * (1 - share) > sizes.least_bytes * share)
    return due


def only_grows(sizes: CompactedSizes, configs: TopicConfigs, now_ms: int) -> Bool:
    """[N] it was due, and what had been written by then has been old enough; unknown is no."""
    lag_ms = configs.min_compaction_lag_ms[sizes.row]
    grows: Bool = (sizes.due_since_ms != UNKNOWN) & (lag_ms != UNKNOWN)
    grows &= now_ms - sizes.due_since_ms >= lag_ms
    return grows & is_due(sizes, configs)


@risk(
    "compacted_only_grows",
    rank=121,
    severity="info",
    open_after_ms=3_600_000,
    close_after_ms=60_000,
    sentence="a compacted log has grown by more than its cleaner waits for, and never became "
    "smaller: all its keys are new, or the log cleaner does not work",
    source="LogCleanerManager.grabFilthiestCompactedLog, Kafka 4.3",
    alert=Alert(
        summary="are compacted and only grow",
        description="Logs of {n} compacted partitions of {cluster} have grown by more than the "
        "log cleaner waits for, and never became smaller: either all their keys are new, or the "
        "cleaner of a broker is dead.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def is_not_compacted(
    sizes: CompactedSizes, configs: TopicConfigs, partitions: Partitions, now_ms: NowMs
) -> Bool:
    """A replica's log only grows."""
    return sizes.pick(only_grows(sizes, configs, now_ms)).row_mask(len(partitions.leader))


@api_field(
    "compacted_only_grows",
    "replicas whose compacted log has grown by more than `min.cleanable.dirty.ratio` for longer "
    "than `min.compaction.lag.ms`, and never became smaller: `broker`, `size_bytes`, "
    "`least_bytes` when it last became smaller or was first seen, and `since_ms`, when that was",
)
def compacted_only_grows(
    sizes: CompactedSizes, configs: TopicConfigs, partitions: Partitions, now_ms: NowMs
) -> list[list[dict[str, Any]]]:
    """A list of replicas for each partition."""
    growing = sizes.pick(only_grows(sizes, configs, now_ms))
    objects = (
        {
            name: int(getattr(growing, name)[i])
            for name in ("broker", "size_bytes", "least_bytes", "since_ms")
        }
        for i in range(len(growing))
    )
    return plain.by_partition(growing.row, objects, len(partitions.leader))
