"""Whether what a group of consumers cannot read any more are records that it would have read."""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.table import UNKNOWN, Bool
from twin.rules.groups.moves import GroupMoves
from twin.rules.partitions.batch_kinds import BatchKinds
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LastAppends, LocalLog
from twin.tables.enums import BatchKind

PAUSE_SHARE: Final = 0.5
"""Of retention. The first record that retention leaves is as old as that, or younger by the time
for which nobody wrote before it: a weekend, not most of retention."""


def are_records(kinds: BatchKinds, configs: TopicConfigs) -> Bool:
    """[P] offsets of the log that retention deletes are records that consumers would have read.

    Not so in a compacted log, nor in one of transactions: markers have offsets, and aborted records
    are not read. Without retention somebody deleted the records by request.
    """
    retains = (configs.retention_ms >= 0) | (configs.retention_bytes >= 0)
    is_plain: Bool = kinds.least == BatchKind.PLAIN
    return is_plain & (configs.compacted == 0) & retains


def deleted_by_request(
    moves: GroupMoves,
    leaders: Leaders,
    local: LocalLog,
    configs: TopicConfigs,
    last: LastAppends,
    now_ms: int,
) -> Bool:
    """[N] the log begins above the group, and is too young and small for retention to be the cause.

    Of a tiered log, the age of its first record is not known.
    """
    row = moves.row.astype(np.intp)
    start, begins_local = leaders.log_start_offset[row], leaders.local_log_start_offset[row]
    is_passed = (start > moves.committed_offset) & (start == begins_local)
    place = row * local.local_log_span_ms.shape[1] + np.maximum(leaders.slot[row], 0)
    span_ms, held = local.local_log_span_ms.ravel()[place], leaders.local_log_bytes[row]
    # An empty log has no first record: the next one was the last.
    is_empty = (start == leaders.log_end_offset[row]) & (start != UNKNOWN)
    appended_ms = last.at_ms[row]
    idle_ms = np.where(appended_ms == UNKNOWN, UNKNOWN, now_ms - appended_ms)
    age_ms = np.where(is_empty, idle_ms, span_ms)
    kept_ms, kept_bytes = configs.retention_ms[row], configs.retention_bytes[row]
    is_young = (age_ms != UNKNOWN) & (age_ms < kept_ms * PAUSE_SHARE)
    is_small = (held != UNKNOWN) & (held < kept_bytes * PAUSE_SHARE)
    by_request: Bool = is_passed & (is_young | (kept_ms < 0)) & (is_small | (kept_bytes < 0))
    return by_request
