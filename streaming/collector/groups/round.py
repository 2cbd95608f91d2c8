"""The groups and offsets of one round, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from streaming.collector.groups.committed import NO_ANSWER, CommittedOffsets
from streaming.collector.groups.group_listing import ListedGroups
from streaming.collector.groups.members import DescribedGroups, GroupMembers
from streaming.collector.listing import Array
from streaming.collector.problem import Problem
from twin.declarations.table import NO_BROKER, UNKNOWN

LEFT_OUT: Final = -3
"""In place of an error code: this group's offsets are not sent, since there are too many."""

NO_OFFSETS: Final = -4
"""In place of an error code: a share group commits no offsets."""

NOT_LISTED: Final = -5
"""In place of an error code: no coordinator lists the group any longer."""

_PARTITION_BITS: Final = 24


@dataclass(slots=True)
class Answers:
    """The answers of coordinators in one round; groups without an answer are unknown."""

    error: dict[str, int] = field(default_factory=dict)  # of OffsetFetch, by group
    offsets: list[tuple[Sequence[str], CommittedOffsets]] = field(default_factory=list)
    described: list[DescribedGroups] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def update(self, later: Answers) -> None:
        """Add later answers; they replace those about the same groups."""
        self.error |= later.error
        self.offsets += later.offsets
        self.described += later.described
        self.problems += later.problems

    def add_offsets(self, groups: Sequence[str], offsets: CommittedOffsets) -> None:
        """The response about these groups."""
        errors = offsets.group_error.copy()
        errors[offsets.group_of[offsets.error != 0]] = offsets.error[offsets.error != 0]
        self.error.update(zip(groups, errors.tolist(), strict=True))
        self.offsets.append((groups, offsets))

    def members(self) -> dict[str, GroupMembers]:
        """All groups that were described."""
        members: dict[str, GroupMembers] = {}
        for described in self.described:
            members.update(described.members)
        return members


@dataclass(frozen=True, slots=True, eq=False)
class RoundOffsets:
    """Offsets by group, topic and partition. Shapes: [T] topics, [K] racks, [N] offsets.

    There is one offset for each partition that the group has committed to, or that is assigned to a
    member. Groups whose offsets are unknown have none.
    """

    topic: tuple[str, ...]  # [T]
    rack: tuple[str, ...]  # [K] of members; the first is empty: none is named
    group_of: Array  # [N] index into the groups of the round
    topic_of: Array  # [N]
    partition: Array  # [N]
    committed: Array  # [N] -1 if none is
    is_assigned: Array  # [N]
    rack_of: Array  # [N] of the member that is assigned the partition

    def __len__(self) -> int:
        return len(self.group_of)

    def pick(self, rows: Array) -> RoundOffsets:
        """The rows of the selected offsets."""
        return RoundOffsets(
            self.topic, self.rack, self.group_of[rows], self.topic_of[rows], self.partition[rows],
            self.committed[rows], self.is_assigned[rows], self.rack_of[rows],
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class GroupRound:
    """The groups of the cluster, sorted by name. Shapes: [G] groups."""

    read_at_ms: int
    complete: bool  # it has every group that this user may describe
    group: tuple[str, ...]  # [G]
    type: tuple[str, ...]  # [G] in lower case, empty if unknown
    state: tuple[str, ...]  # [G] as Kafka names it, empty if unknown
    coordinator: Array  # [G]
    members: Array  # [G] UNKNOWN if not described
    error: Array  # [G] why the offsets are unknown: Kafka's error code or one of ours, 0 if known
    left_out: Array  # [G] offsets that are not sent because there are too many
    offsets: RoundOffsets


def combine(
    read_at_ms: int, listing: ListedGroups, answers: Answers, max_offsets: int
) -> GroupRound:
    """Build the round from these answers."""
    names = tuple(sorted(listing.groups))
    listed = [listing.groups[name] for name in names]
    described = answers.members()
    members = [described.get(name, _NOT_DESCRIBED) for name in names]
    error = np.array([answers.error.get(name, NO_ANSWER) for name in names], np.int16)
    coordinator = np.array([group.coordinator for group in listed], np.int32)
    error[[group.type == "share" for group in listed]] = NO_OFFSETS
    error[coordinator == NO_BROKER] = NOT_LISTED
    offsets = _joined(names, answers, error == 0)
    counts = np.bincount(offsets.group_of, minlength=len(names))
    fits = np.cumsum(counts) <= max_offsets
    error[~fits & (error == 0)] = LEFT_OUT
    return GroupRound(
        read_at_ms=read_at_ms,
        complete=listing.complete,
        group=names,
        type=tuple(group.type for group in listed),
        state=tuple(m.state or g.state for m, g in zip(members, listed, strict=True)),
        coordinator=coordinator,
        members=np.array([m.members for m in members], np.int32),
        error=error,
        left_out=np.where(fits, 0, counts),
        offsets=offsets if fits.all() else offsets.pick(fits[offsets.group_of]),
    )


_NOT_DESCRIBED: Final = GroupMembers()


class _Names:
    """Names, numbered in the order of their first use."""

    def __init__(self, *names: str) -> None:
        self.number = {name: i for i, name in enumerate(names)}

    def indexes(self, names: Iterable[str]) -> Array:
        """The numbers of these names; new names get new numbers."""
        number = self.number
        return np.array([number.setdefault(n, len(number)) for n in names], np.int64)


def _joined(names: Sequence[str], answers: Answers, is_known: Array) -> RoundOffsets:
    """Join committed offsets and assigned partitions of the groups with known offsets."""
    groups, topics, racks = _Names(*names), _Names(), _Names("")
    committed, assigned = [np.zeros((4, 0), np.int64)], [np.zeros((4, 0), np.int64)]
    for batch, read in answers.offsets:
        group, topic = groups.indexes(batch), topics.indexes(read.topic)
        rows = (read.error == 0) & (read.offset >= 0)
        parts = (group[read.group_of], topic[read.topic_of], read.partition, read.offset)
        committed.append(np.stack([part[rows] for part in parts]))
    for described in answers.described:
        group, topic = groups.indexes(described.group), topics.indexes(described.topic)
        rack = racks.indexes(described.rack)
        parts = (group[described.group_of], topic[described.topic_of], described.partition,
                 rack[described.rack_of])  # fmt: skip
        assigned.append(np.stack(parts))
    is_known = np.append(is_known, np.zeros(len(groups.number) - len(names), bool))
    one = _Pairs(np.concatenate(committed, axis=1), len(topics.number), is_known)
    other = _Pairs(np.concatenate(assigned, axis=1), len(topics.number), is_known)
    key = np.union1d(one.key, other.key)
    offset, rack_of = one.at(key), other.at(key)
    pair = key >> _PARTITION_BITS
    return RoundOffsets(
        topic=tuple(topics.number),
        rack=tuple(racks.number),
        group_of=pair // max(len(topics.number), 1),
        topic_of=pair % max(len(topics.number), 1),
        partition=key & ((1 << _PARTITION_BITS) - 1),
        committed=offset,
        is_assigned=rack_of != UNKNOWN,
        rack_of=np.maximum(rack_of, 0),
    )


class _Pairs:
    """Values by group, topic and partition. The three are combined into one sorted number."""

    def __init__(self, columns: Array, topics: int, is_known: Array) -> None:
        """``columns``: [4, n] group, topic, partition and value."""
        group, topic, partition, value = columns[:, is_known[columns[0]]]
        pair = group * max(topics, 1) + topic
        self.key, first = np.unique(pair << _PARTITION_BITS | partition, return_index=True)
        self._value = value[first]

    def at(self, key: Array) -> Array:
        """The values of these keys, UNKNOWN where there is none."""
        values = np.full(len(key), UNKNOWN, np.int64)
        values[np.searchsorted(key, self.key)] = self._value
        return values
