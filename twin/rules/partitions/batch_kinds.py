"""What consumers get of the offsets of a log, as far as its batches were seen.

A log that retention has emptied has no batch to look at, and one that transactions wrote to may
begin with a plain one. So what was seen stays.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import rule
from twin.declarations.signature import Before
from twin.declarations.table import Int8, PartitionTable, column
from twin.rules.partitions.leaders import Leaders
from twin.tables.enums import BatchKind


class BatchKinds(PartitionTable, kind="batch_kinds"):
    """[P] the least that consumers get of a batch that was seen at the start of each local log."""

    least: Int8 = column(
        "plain: all batches that were seen have records for every consumer", enum=BatchKind
    )


@rule
def batch_kinds(leaders: Leaders, before: Before[BatchKinds]) -> BatchKinds:
    """Control is less than transactional, and that less than plain: the highest number."""
    return BatchKinds(np.maximum(leaders.local_start_batch, before.least))
