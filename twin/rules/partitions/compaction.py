"""Compacted logs that only grow.

The log cleaner compacts a log once what was written since its last pass is half of it
(min.cleanable.dirty.ratio), and drops each record whose key was written again. A log that has
doubled without ever becoming smaller holds new keys alone, or is not compacted: the cleaner is
dead, or cannot keep up.

Source: LogCleanerManager.grabFilthiestCompactedLog, Kafka 4.3.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from twin.arrays import keys, plain
from twin.declarations.declare import Alert, api_field, risk, rule
from twin.declarations.signature import Before, Cycle
from twin.declarations.table import UNKNOWN, Bool, Int32, Int64, SparseTable, column
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.tables.state import Assignment, Partitions, Replicas

_LEAST_SEGMENTS: Final = 2
"""The segment that is written is not compacted, nor is a small log worth a word."""


class CompactedSizes(SparseTable, kind="compacted_sizes"):
    """[N] one row a replica of a compacted topic: its size since it last became smaller."""

    broker: Int32 = column("broker id of the replica")
    least_bytes: Int64 = column("its size when it had last become smaller, or was first seen")
    size_bytes: Int64 = column("its newest known size")
    since_ms: Int64 = column("when it had the least size")


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
    least, last, since = (
        np.where(was_there, values[place], UNKNOWN) if len(values) else np.full(len(row), UNKNOWN)
        for values in (before.least_bytes, before.size_bytes, before.since_ms)
    )
    size = np.where(size == UNKNOWN, last, size)
    begins_anew = (last == UNKNOWN) | (size < last)
    known = size != UNKNOWN
    return CompactedSizes(
        row=row.astype(np.int32),
        broker=broker,
        least_bytes=np.where(begins_anew, size, least),
        size_bytes=size,
        since_ms=np.where(begins_anew, cycle.observed_at_ms, since),
    ).pick(known)


def only_grows(sizes: CompactedSizes, configs: TopicConfigs) -> Bool:
    """[N] it has more than doubled since its least size, without the segments that do not count."""
    segment_bytes = configs.segment_bytes[sizes.row]
    grown = sizes.size_bytes - sizes.least_bytes - _LEAST_SEGMENTS * segment_bytes
    return (segment_bytes != UNKNOWN) & (grown > sizes.least_bytes)


@risk(
    "compacted_only_grows",
    rank=121,
    severity="info",
    open_after_ms=3_600_000,
    close_after_ms=60_000,
    sentence="a compacted log has doubled and never became smaller: all its keys are new, or the "
    "log cleaner does not work",
    source="LogCleanerManager.grabFilthiestCompactedLog, Kafka 4.3",
    alert=Alert(
        summary="are compacted and only grow",
        description="Logs of {n} compacted partitions of {cluster} have doubled and never became "
        "smaller: either all their keys are new, or the log cleaner of a broker is dead.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def is_not_compacted(sizes: CompactedSizes, configs: TopicConfigs, partitions: Partitions) -> Bool:
    """A replica's log only grows."""
    return sizes.pick(only_grows(sizes, configs)).row_mask(len(partitions.leader))


@api_field(
    "compacted_only_grows",
    "replicas whose compacted log has doubled and never became smaller: `broker`, `size_bytes`, "
    "`least_bytes` when it last became smaller or was first seen, and `since_ms`, when that was",
)
def compacted_only_grows(
    sizes: CompactedSizes, configs: TopicConfigs, partitions: Partitions
) -> list[list[dict[str, Any]]]:
    """A list of replicas for each partition."""
    growing = sizes.pick(only_grows(sizes, configs))
    objects = (
        {name: int(getattr(growing, name)[i])
         for name in ("broker", "size_bytes", "least_bytes", "since_ms")}
        for i in range(len(growing))
    )  # fmt: skip
    return plain.by_partition(growing.row, objects, len(partitions.leader))
