"""What consumers get of the offsets of a log, as far as its batches were seen.

A log that retention has emptied has no batch to look at, and one that transactions wrote to may
begin with a plain one. So what was seen stays. A last stable offset below the high watermark is
that of a transaction, whatever the first batch is.

Source: UnifiedLog.lastStableOffset, Kafka 4.3.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import rule
from twin.declarations.signature import Before
from twin.declarations.table import UNKNOWN, Bool, Int8, PartitionTable, column
from twin.rules.partitions.leaders import LeaderEnds, Leaders
from twin.tables.enums import BatchKind


class BatchKinds(PartitionTable, kind="batch_kinds"):
    """[P] the least that consumers get of a batch that each log was seen to have."""

    least: Int8 = column(
        "plain: all batches that were seen have records for every consumer", enum=BatchKind
    )


@rule
def batch_kinds(
    leaders: Leaders, end: LeaderEnds, previous: Before[LeaderEnds], before: Before[BatchKinds]
) -> BatchKinds:
    """Control is less than transactional, and that less than plain: the highest number."""
    least = np.maximum(leaders.local_start_batch, before.least)
    written = _has_open_transaction(leaders, end, previous)
    return BatchKinds(np.where(written, np.maximum(least, np.int8(BatchKind.TRANSACTIONAL)), least))


def _has_open_transaction(leaders: Leaders, end: LeaderEnds, previous: LeaderEnds) -> Bool:
    """[P] the last stable offset is below the high watermark.

    The two are asked for one after the other. So the last stable offset of this cycle is compared
    with the high watermark that the same leader had in the cycle before.
    """
    same = (end.leader == previous.leader) & (end.leader_epoch == previous.leader_epoch)
    same &= end.sampled_at_ms > previous.sampled_at_ms
    stable, watermark = leaders.last_stable_offset, previous.high_watermark
    is_below: Bool = (stable != UNKNOWN) & (watermark != UNKNOWN) & (stable < watermark)
    return same & is_below
