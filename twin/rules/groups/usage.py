"""Which partitions a group of consumers uses.

A stable group reads what its members are assigned, and has left every other partition that it
committed to. While it rebalances, partitions are assigned to nobody for a while: it reads what it
is assigned, and what it was when it was last stable. Where that is not known, it reads where it
moved lately; so do groups without members, since consumers may assign partitions to themselves.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.table import UNKNOWN, Bool, Int8, Int64
from twin.tables.enums import GroupState
from twin.tables.state import Configs, GroupOffsets, Groups

IN_USE_MS: Final = 86_400_000
"""Where ``collector.group_in_use_ms`` is unknown. Kafka forgets the offsets of a group without
members after offsets.retention.minutes, seven days by default; nobody is hurt until then."""


def is_in_use(
    offsets: GroupOffsets,
    groups: Groups,
    was_assigned: Int8,
    moved_at_ms: Int64,
    configs: Configs,
    now_ms: int,
) -> Bool:
    """[N] the group uses the partition.

    Args:
        offsets, groups: as they were read last.
        was_assigned: [N] as ``last_assigned`` gives it.
        moved_at_ms: [N] when the committed offset was last seen to change.
        configs: has ``group_in_use_ms``.
        now_ms: the clock.
    """
    limit_ms = configs.cluster_wide("group_in_use_ms")
    moved = (moved_at_ms != UNKNOWN) & (
        now_ms - moved_at_ms <= (IN_USE_MS if limit_ms == UNKNOWN else limit_ms)
    )
    rebalances = np.where(was_assigned != UNKNOWN, was_assigned == 1, moved)
    rebalances |= offsets.assigned == 1
    by_members = np.where(_is_settled(offsets, groups), offsets.assigned == 1, rebalances)
    return np.where(_has_members(groups)[offsets.group_index], by_members, moved)


def has_left(offsets: GroupOffsets, was_assigned: Int8) -> Bool:
    """[N] the group has members, and none was assigned the partition when it was last stable; nor
    is one now."""
    has_left: Bool = (was_assigned == 0) & (offsets.assigned != 1)
    return has_left


def last_assigned(offsets: GroupOffsets, groups: Groups, before: Int8) -> Int8:
    """[N] a member was assigned the partition when the group was last stable; unknown since it had
    no members."""
    is_settled = _is_settled(offsets, groups)
    has_members = _has_members(groups)[offsets.group_index]
    return np.where(is_settled, offsets.assigned, np.where(has_members, before, np.int8(UNKNOWN)))


def _has_members(groups: Groups) -> Bool:
    """[G] the group has members, or nobody could describe it."""
    state = groups.group_state
    is_over = (state == GroupState.EMPTY) | (state == GroupState.DEAD)
    has_members: Bool = (groups.members != 0) & ~is_over
    return has_members


def _is_settled(offsets: GroupOffsets, groups: Groups) -> Bool:
    """[N] what is assigned now is all that the members of the group read."""
    is_stable = (groups.members > 0) & (groups.group_state == GroupState.STABLE)
    is_known: Bool = is_stable[offsets.group_index] & (offsets.assigned != UNKNOWN)
    return is_known
