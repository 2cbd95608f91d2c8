"""What-if questions about groups of consumers: remote reads after a loss or a shorter local log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Final, TypeVar

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
class HurtByChange(AddsUp):
    """The harm to one group of consumers: numbers of partitions, and sums over them.

    ``ahead``: the log ends before its offset then; ``nowhere``: it begins above it.
    """

    group: Annotated[str, same]
    offline: int  # partitions that nobody leads
    ahead: int
    nowhere: int
    remote: int  # partitions of which it reads more from remote storage
    remote_records: int  # records it would read from there, and does not now
    remote_bytes: int  # of these, where the size of a record is known
    unknown: int  # partitions for which that is unknown

    @property
    def is_hurt(self) -> bool:
        """The group reads more remotely, cannot read a partition, or is reset."""
        return self.offline > 0 or self.ahead > 0 or self.nowhere > 0 or self.remote > 0


@dataclass(frozen=True, slots=True)
class HurtGroup(HurtByChange):
    """The same where leaders move, so that it matters which election rule moves them."""

    remote_bytes_by_rule: Mapping[str, int]


H = TypeVar("H", bound=HurtByChange)


def together(shards: Iterable[Iterable[H]]) -> list[H]:
    """The groups that are hurt, over all shards: the worst first."""
    by_group: dict[str, H] = {}
    for harms in shards:
        for each in harms:
            total = by_group.get(each.group)
            by_group[each.group] = each if total is None else total + each
    hurt = [each for each in by_group.values() if each.is_hurt]
    return sorted(hurt, key=_worst_first)


def _worst_first(harm: HurtByChange) -> tuple[int, int, int, int, str]:
    is_reset = harm.ahead + harm.nowhere
    return -harm.offline, -is_reset, -harm.remote_bytes, -harm.remote_records, harm.group


def hurt_by_loss(state: ShardState, brokers: Collection[int], loss: Loss) -> list[HurtGroup]:
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
    of_rules = {rule: _by_group(state, _known(reads.more_bytes)) for rule, reads in by_rule.items()}
    return [
        HurtGroup(**asdict(each), remote_bytes_by_rule={r: of[i] for r, of in of_rules.items()})
        for i, each in enumerate(_harms(state, by_rule[KAFKA]))
    ]


def hurt_by_change(now: ShardState, then: ShardState) -> list[HurtByChange]:
    """The harm to each group in the shard if the logs were as in the other state."""
    if not len(now[GroupOffsets]):
        return []
    records, was = then[GroupReads].remote_records, now[GroupReads].remote_records
    more = np.where(records == UNKNOWN, UNKNOWN, np.maximum(records - np.maximum(was, 0), 0))
    size = now[RecordSizes].bytes_per_record[now[GroupOffsets].row]
    in_bytes = np.where(more > 0, more * size, 0.0)
    changed = _Reads(then[GroupReads].reads_from, more, in_bytes)
    return _harms(now, changed)


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


def _harms(state: ShardState, then: _Reads) -> list[HurtByChange]:
    offsets, now = state[GroupOffsets], state[GroupReads].reads_from
    columns = (
        (then.reads_from == ReadsFrom.NOBODY) & (now != ReadsFrom.NOBODY),
        (then.reads_from == ReadsFrom.AHEAD) & (now != ReadsFrom.AHEAD),
        (then.reads_from == ReadsFrom.NOWHERE) & (now != ReadsFrom.NOWHERE),
        then.more_records > 0,
        np.maximum(then.more_records, 0),
        _known(then.more_bytes),
        (then.reads_from == UNKNOWN) & (offsets.committed_offset != UNKNOWN),
    )
    names = map(str, state[Groups].group.tolist())
    sums = (_by_group(state, each) for each in columns)  # in the order of the fields
    return [HurtByChange(*each) for each in zip(names, *sums, strict=True)]


def _by_group(state: ShardState, values: Array) -> list[int]:
    """Sums of the values of offsets over those that the group reads."""
    offsets = state[GroupOffsets]
    counted = np.where(~has_left(offsets, state[GroupMoves].was_assigned), values, 0)
    groups = len(state[Groups].group)
    sums: list[int] = np.bincount(offsets.group_index, counted, groups).astype(int).tolist()
    return sums


def _known(size: Array) -> Array:
    return np.where(np.isnan(size), 0, np.rint(size))
