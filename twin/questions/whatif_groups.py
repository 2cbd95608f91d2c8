"""What-if questions about groups of consumers: remote reads after a loss or a shorter local log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

import numpy as np

from twin.declarations.signature import parameters
from twin.declarations.table import KAFKA, UNKNOWN, Array, Int32
from twin.engine.shard_state import ShardState
from twin.questions.adds_up import AddsUp, same
from twin.questions.whatif import Loss
from twin.rules.groups.loss import ReadsThen, reads_then, servers_after_loss
from twin.rules.groups.moves import GroupMoves
from twin.rules.groups.reads import GroupReads, ReadsFrom, Servers
from twin.rules.groups.usage import has_left
from twin.rules.partitions.growth import RecordSizes
from twin.tables.state import (
    GroupOffsets,
    Groups,
    Partitions,
)


@dataclass(frozen=True, slots=True)
class GroupHarm(AddsUp):
    """The effect on one group. Counts of partitions, and sums over them."""

    group: Annotated[str, same]
    offline: int = 0  # partitions that nobody leads
    remote: int = 0  # partitions of which it reads more from remote storage
    remote_records: int = 0  # records it would read from there, and does not now
    remote_bytes: int = 0  # of these, where the size of a record is known
    remote_bytes_by_rule: Mapping[str, int] = field(default_factory=dict)  # where leaders move
    unknown: int = 0  # partitions for which that is unknown
    ahead: int = 0  # partitions whose new leaders lack what it has read
    nowhere: int = 0  # partitions whose new leaders have deleted what it reads next

    @property
    def is_hurt(self) -> bool:
        """The group reads more remotely, cannot read a partition, or is reset."""
        return self.offline > 0 or self.ahead > 0 or self.nowhere > 0 or self.remote > 0


def together(shards: Iterable[Iterable[GroupHarm]]) -> list[GroupHarm]:
    """The groups that are hurt, over all shards: the worst first."""
    by_group: dict[str, GroupHarm] = {}
    for harms in shards:
        for each in harms:
            total = by_group.get(each.group)
            by_group[each.group] = each if total is None else total + each
    hurt = [each for each in by_group.values() if each.is_hurt]
    return sorted(hurt, key=_worst_first)


def _worst_first(harm: GroupHarm) -> tuple[int, int, int, int, str]:
    is_reset = harm.ahead + harm.nowhere
    return -harm.offline, -is_reset, -harm.remote_bytes, -harm.remote_records, harm.group


def hurt_by_loss(state: ShardState, brokers: Collection[int], loss: Loss) -> list[GroupHarm]:
    """The harm to each group in the shard if those brokers were lost.

    Args:
        state: the shard as it is.
        brokers: the lost brokers.
        loss: the loss of those brokers.
    """
    if not len(state[GroupOffsets]):
        return []
    by_rule = {}
    for rule, following in loss.next_leaders.items():
        after = state[Partitions].leader.copy()
        after[loss.row] = following.leader
        by_rule[rule] = _reads_after_loss(state, after, brokers)
    return _harms(state, by_rule[KAFKA], by_rule)


def hurt_by_change(now: ShardState, then: ShardState) -> list[GroupHarm]:
    """The harm to each group in the shard if the logs were as in the other state."""
    if not len(now[GroupOffsets]):
        return []
    records, was = then[GroupReads].remote_records, now[GroupReads].remote_records
    more = np.where(records == UNKNOWN, UNKNOWN, np.maximum(records - np.maximum(was, 0), 0))
    size = now[RecordSizes].bytes_per_record[now[GroupOffsets].row]
    in_bytes = np.where(more > 0, more * size, 0.0)
    changed = _Reads(then[GroupReads].reads_from, more, in_bytes)
    return _harms(now, changed, {})


@dataclass(frozen=True, slots=True)
class _Reads:
    """[N] where groups would read, and what they do not read remotely now."""

    reads_from: Array
    more_records: Array
    more_bytes: Array


_SERVERS: Final = parameters(Servers)


def _reads_after_loss(state: ShardState, leader: Int32, brokers: Collection[int]) -> _Reads:
    servers, now = Servers(**state.arguments(_SERVERS)), state[GroupReads]
    gone = np.isin(servers.assignment.broker, list(brokers))
    after_loss = servers_after_loss(leader, gone, servers, state[Partitions])
    rack = servers.reader_racks(state[GroupOffsets])
    then = ReadsThen(*reads_then(after_loss, state[GroupMoves], now, rack, state[RecordSizes])[1:])
    records = then.remote_records
    more = np.maximum(records - np.maximum(now.remote_records, 0), 0)
    return _Reads(
        then.reads_from, np.where(records == UNKNOWN, UNKNOWN, more), then.more_remote_bytes
    )


def _harms(state: ShardState, then: _Reads, by_rule: Mapping[str, _Reads]) -> list[GroupHarm]:
    offsets, names = state[GroupOffsets], state[Groups].group.tolist()
    now, reads_it = state[GroupReads].reads_from, ~has_left(offsets, state[GroupMoves].was_assigned)
    columns = {
        "offline": (then.reads_from == ReadsFrom.NOBODY) & (now != ReadsFrom.NOBODY),
        "ahead": (then.reads_from == ReadsFrom.AHEAD) & (now != ReadsFrom.AHEAD),
        "nowhere": (then.reads_from == ReadsFrom.NOWHERE) & (now != ReadsFrom.NOWHERE),
        "remote": then.more_records > 0,
        "remote_records": np.maximum(then.more_records, 0),
        "remote_bytes": _known(then.more_bytes),
        "unknown": (then.reads_from == UNKNOWN) & (offsets.committed_offset != UNKNOWN),
    }

    def by_group(values: Array) -> list[int]:
        counted = np.where(reads_it, values, 0)
        return np.bincount(offsets.group_index, counted, len(names)).astype(int).tolist()

    sums = {name: by_group(values) for name, values in columns.items()}
    of_rules = {rule: by_group(_known(reads.more_bytes)) for rule, reads in by_rule.items()}
    return [
        GroupHarm(
            str(name),
            **{column: each[i] for column, each in sums.items()},
            remote_bytes_by_rule={rule: each[i] for rule, each in of_rules.items()},
        )
        for i, name in enumerate(names)
    ]


def _known(size: Array) -> Array:
    return np.where(np.isnan(size), 0, np.rint(size))
