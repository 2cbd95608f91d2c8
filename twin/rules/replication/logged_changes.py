"""What brokers and controllers logged about changes of leaders."""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.declarations.table import NO_BROKER, UNKNOWN, Bool, Int32, Int64
from twin.tables.state import IsrRemovals, LoggedHighWatermarks, LoggedUncleanElections


def logged_removals(
    row: Int32,
    broker: Int32,
    old_leader: Int32,
    since_ms: Int64,
    until_ms: Int64,
    removals: IsrRemovals,
) -> tuple[Bool, Bool]:
    """[N], [N] a replica left the ISR of that leader and is not back, and: it came back.

    Args:
        row: [N] partitions.
        broker: [N] the replica of each.
        old_leader: [N] the leader that removed it; a controller's log does not name one.
        since_ms: [N] what was logged before does not count.
        until_ms: [N] nor does what was logged after.
        removals: as brokers logged them.
    """
    one, logged = keys.pairs(keys.pack(row, broker), keys.pack(removals.row, removals.broker))
    by_old = (removals.leader[logged] == NO_BROKER) | (removals.leader[logged] == old_leader[one])
    at_ms = removals.at_ms[logged]
    is_since = by_old & (at_ms > since_ms[one]) & (at_ms <= until_ms[one])
    is_back = removals.rejoined_at_ms[logged] != UNKNOWN
    removed, rejoined = np.zeros(len(row), bool), np.zeros(len(row), bool)
    removed[one[is_since & ~is_back]] = True
    rejoined[one[by_old & is_back & (removals.rejoined_at_ms[logged] > since_ms[one])]] = True
    return removed, rejoined & ~removed


def logged_as_unclean(
    row: Int32,
    old_epoch: Int32,
    leader_epoch: Int32,
    until_ms: Int64,
    elections: LoggedUncleanElections,
) -> Bool:
    """[N] a controller logged an unclean election between two leaders.

    Args:
        row: [N] partitions.
        old_epoch: [N] leader epoch of the leader before; a line about it or an earlier one does
            not count, whenever it was logged.
        leader_epoch: [N] leader epoch of the leader since, or of a later one.
        until_ms: [N] what was logged after does not count.
        elections: as controllers logged them.
    """
    one, logged = keys.pairs(row.astype(np.int64), elections.row.astype(np.int64))
    epoch = elections.leader_epoch[logged]
    is_between = (old_epoch[one] < epoch) & (epoch <= leader_epoch[one])
    is_between &= elections.at_ms[logged] <= until_ms[one]
    unclean = np.zeros(len(row), bool)
    unclean[one[is_between]] = True
    return unclean


def logged_watermarks(
    row: Int32, leader: Int32, leader_epoch: Int32, logged: LoggedHighWatermarks
) -> Int64:
    """[N] the high watermark that this leader sent to a follower in that epoch, or unknown."""
    place = keys.find(logged.row.astype(np.int64), row.astype(np.int64))
    if not len(logged):
        return np.full(len(row), UNKNOWN, np.int64)
    same = (place != UNKNOWN) & (logged.leader[place] == leader)
    same &= logged.leader_epoch[place] == leader_epoch
    return np.where(same, logged.offset[place], UNKNOWN)
