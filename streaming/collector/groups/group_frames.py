"""A round of groups as the frames of one cycle, for each shard."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa

from streaming.bus.arrow import dictionary, fixed, numbers, texts
from streaming.collector.groups.round import LEFT_OUT, NO_OFFSETS, GroupRound
from streaming.collector.listing import Array, ListedPlacement
from streaming.collector.reading import Reading, Rows
from twin.declarations.table import UNKNOWN
from twin.tables.enums import GroupState, GroupType
from twin.tables.observations import GroupOffsetsFrame, GroupsFrame

ALL_GROUPS_SHARD: Final = 0
"""The shard that has a row of every group."""


def _by_kafka_name(kind: type[IntEnum]) -> dict[str, int]:
    """Values by Kafka's name in lower case; Kafka writes PreparingRebalance as one word."""
    return {each.name.replace("_", "").lower(): int(each) for each in kind}


_STATES: Final = _by_kafka_name(GroupState)
_TYPES: Final = _by_kafka_name(GroupType)


class GroupFrames(Reading):
    """The rows of a round by shard.

    Offsets of topics that are deleted or not watched are in no frame.
    """

    def __init__(self, round_: GroupRound, placement: ListedPlacement) -> None:
        self.round, self._placement = round_, placement
        offsets = round_.offsets
        number = {name: i for i, name in enumerate(placement.topic)}
        topics = np.array([number.get(name, UNKNOWN) for name in offsets.topic], np.int64)
        topic = topics[offsets.topic_of] if len(topics) else np.zeros(0, np.int64)
        watched = np.flatnonzero(topic != UNKNOWN)
        rows = watched[np.argsort(topic[watched], kind="stable")]
        self._offsets, self._topic = offsets.pick(rows), topic[rows]
        self._cuts = np.searchsorted(self._topic, placement.topic_cuts)
        self._names = texts(round_.group)
        self._racks = texts(offsets.rack)

    @property
    def incomplete(self) -> Collection[str]:
        """Kinds of frames that may lack groups."""
        return () if self.round.complete else ("groups",)

    def tables(self, shard: int) -> Iterator[Rows]:
        """The frames of a shard."""
        yield GroupsFrame, self._groups(shard)
        rows = np.arange(self._cuts[shard], self._cuts[shard + 1])
        if len(rows):
            yield GroupOffsetsFrame, self._group_offsets(shard, rows)

    def _groups(self, shard: int) -> pa.Table:
        """The rows of groups that have offsets in the shard or may have; shard 0 has all groups.

        Offsets that are left out count as read: rows that an earlier round sent are obsolete.
        """
        round_ = self.round
        rows = slice(self._cuts[shard], self._cuts[shard + 1])
        was_read = (round_.error == 0) | (round_.error == LEFT_OUT)
        may_have = ~was_read & (round_.error != NO_OFFSETS)
        is_here = may_have | (shard == ALL_GROUPS_SHARD)
        is_here[self._offsets.group_of[rows]] = True
        listed = np.flatnonzero(is_here)
        columns = {
            "group_type": np.array([_TYPES.get(t, UNKNOWN) for t in round_.type], np.int8),
            "group_state": np.array(
                [_STATES.get(s.replace("_", "").lower(), UNKNOWN) for s in round_.state], np.int8
            ),
            "coordinator": round_.coordinator,
            "members": round_.members,
            "read_at_ms": np.where(was_read, round_.read_at_ms, UNKNOWN),
            "offsets_left_out": round_.left_out,
        }
        arrays = [dictionary(np.arange(len(listed)), texts([round_.group[i] for i in listed]))]
        for column in GroupsFrame.columns[1:]:
            arrays.append(numbers(columns[column.name][listed], column.arrow))
        return pa.Table.from_arrays(arrays, schema=GroupsFrame.schema())

    def _group_offsets(self, shard: int, rows: Array) -> pa.Table:
        round_, placement, offsets = self.round, self._placement, self._offsets.pick(rows)
        start, stop = placement.topic_cuts[shard], placement.topic_cuts[shard + 1]
        topic = self._topic[rows] - start
        groups, group = np.unique(offsets.group_of, return_inverse=True)
        is_described = round_.members[offsets.group_of] != UNKNOWN
        columns = {
            "topic": dictionary(topic, texts(placement.topic[start:stop])),
            "topic_id": dictionary(topic, fixed(placement.topic_id[start:stop], 16)),
            "partition": numbers(offsets.partition, pa.int32()),
            "group": dictionary(group, self._names.take(numbers(groups, pa.int32()))),
            "committed_offset": numbers(offsets.committed, pa.int64()),
            "read_at_ms": numbers(np.full(len(rows), round_.read_at_ms), pa.int64()),
            "assigned": numbers(np.where(is_described, offsets.is_assigned, UNKNOWN), pa.int8()),
            "rack": dictionary(offsets.rack_of, self._racks),
        }
        return pa.table(columns, schema=GroupOffsetsFrame.schema())
