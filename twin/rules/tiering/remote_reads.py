"""Which offsets below a local log remote storage has.

It lacks those of its gaps, and those between its end and the local log start. These two are of
different answers of the leader, so an offset is missing for certain only if it is across two cycles
(``twin.rules.tiering.tier_invariants``).
"""

from __future__ import annotations

import numpy as np

from twin.declarations.signature import Lazy
from twin.declarations.table import UNKNOWN, Bool, Int64, Rows
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.gaps import NO_GAP, RemoteGaps
from twin.rules.tiering.tier_invariants import Disorder, TierDisorder
from twin.rules.tiering.tier_states import remote_ends


def in_remote(
    leaders: Leaders, gaps: RemoteGaps, configs: TopicConfigs, disorder: Lazy[TierDisorder],
    row: Rows, offset: Int64,
) -> tuple[Int64, Bool, Bool]:  # fmt: skip
    """[N] how far remote storage has what follows; which offsets it lacks, and perhaps lacks.

    Args:
        leaders, gaps, configs, disorder: of all partitions.
        row: [N] partition of each offset.
        offset: [N] offsets below the local log of the replica that is asked for them.
    """
    in_gap, next_gap = gaps.ahead(row, offset)
    is_whole = configs.tiered_compacted[row] == 1  # compaction leaves gaps
    end = remote_ends(leaders, row)
    is_beyond = (end != UNKNOWN) & (offset >= end)
    until = np.where((end == UNKNOWN) | is_beyond, NO_GAP, end)
    until = np.minimum(until, np.where(is_whole, NO_GAP, next_gap))
    missing = in_gap & ~is_whole
    if is_beyond.any():
        proof = np.uint8(Disorder.REMOTE_END_BELOW_LOCAL_START)
        missing |= is_beyond & (disorder().tier_disorder[row] & proof != 0)
    return until, missing, is_beyond & ~missing
