"""What differs between two moments in size: local logs, log ends, and groups of consumers.

A topic or broker of which one replica's size is unknown at one of the moments is not compared, nor
is the lag of a group with an unknown offset: unknown is no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from twin.arrays import plain
from twin.declarations.table import UNKNOWN, Array
from twin.engine.shard_state import ShardState
from twin.rules.groups.moves import GroupLags, GroupMoves
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.tiering.coverage import LocalLog
from twin.tables.columns import GroupColumns
from twin.tables.state import Assignment, Groups, PartitionIndex, Topics


@dataclass(frozen=True, slots=True)
class Numbers:
    """A number at both moments."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Words:
    """A word at both moments."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class TopicSize:
    """A topic whose local logs or log ends differ; null is what does not, or is unknown."""

    topic: str
    local_log_bytes: Annotated[Numbers | None, Meta(description="of all its replicas")]
    records_appended: Annotated[
        int | None, Meta(description="growth of its leaders' log ends; negative if logs were cut")
    ]


@dataclass(frozen=True, slots=True)
class BrokerSize:
    """A broker whose local logs differ."""

    broker: int
    local_log_bytes: Numbers


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """A group that differs, came or went; null is what does not differ, or is unknown."""

    group: str
    change: Literal["changed", "came", "went"]
    group_state: Words | None = None
    members: Numbers | None = None
    lag_records: Numbers | None = None


@dataclass(frozen=True, slots=True)
class AmountDifferences:
    """Differences in size, the largest first."""

    topics: list[TopicSize]
    brokers: list[BrokerSize]
    groups: list[GroupDifference]
    not_compared: int  # topics and brokers with a replica of unknown size


def amounts(was: Sequence[ShardState], now: Sequence[ShardState]) -> AmountDifferences:
    """What differs in size between the states of the same shards."""
    topics, topics_unknown = _topics(_by_topic(was), _by_topic(now))
    before, after = _by_broker(was), _by_broker(now)
    both = sorted(before.keys() & after.keys())
    known = [each for each in both if None not in (before[each], after[each])]
    brokers = [
        BrokerSize(each, Numbers(before[each] or 0, after[each] or 0))
        for each in known
        if before[each] != after[each]
    ]
    brokers.sort(key=lambda each: -_change(each.local_log_bytes))
    groups = _groups(_by_group(was), _by_group(now))
    return AmountDifferences(topics, brokers, groups, topics_unknown + len(both) - len(known))


def _change(of: Numbers | None) -> int:
    return 0 if of is None else abs(of.after - of.before)


@dataclass(frozen=True, slots=True)
class _Topic:
    """Sums of a topic; None if one of their parts is unknown."""

    name: str
    local_log_bytes: int | None
    log_ends: int | None
    partitions: int


def _by_topic(states: Sequence[ShardState]) -> Mapping[bytes, _Topic]:
    """By topic id; of a topic in several shards the sums are of all."""
    found: dict[bytes, _Topic] = {}
    for state in states:
        topics, index = state[Topics], state[PartitionIndex].topic_index
        assigned = state[Roles].is_assigned
        held, ends = state[LocalLog].held_bytes, state[Leaders].log_end_offset
        size = len(topics.topic)
        byte = np.bincount(index, np.where(assigned & (held != UNKNOWN), held, 0).sum(axis=1), size)
        no_byte = np.bincount(index, (assigned & (held == UNKNOWN)).sum(axis=1), size)
        end = np.bincount(index, np.where(ends != UNKNOWN, ends, 0), size)
        no_end = np.bincount(index, ends == UNKNOWN, size)
        count = np.bincount(index, minlength=size)
        columns = (each.tolist() for each in (byte, no_byte, end, no_end, count))
        for topic_id, name, *sums in zip(topics.topic_id, topics.topic, *columns, strict=True):
            held_bytes = None if sums[1] else round(sums[0])
            log_ends = None if sums[3] else round(sums[2])
            part = _Topic(str(name), held_bytes, log_ends, sums[4])
            found[topic_id] = _added(found.get(topic_id), part)
    return found


def _added(one: _Topic | None, other: _Topic) -> _Topic:
    if one is None:
        return other
    return _Topic(
        other.name,
        _sum(one.local_log_bytes, other.local_log_bytes),
        _sum(one.log_ends, other.log_ends),
        one.partitions + other.partitions,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _topics(
    was: Mapping[bytes, _Topic], now: Mapping[bytes, _Topic]
) -> tuple[list[TopicSize], int]:
    """Topics that differ, and how many could not be compared."""
    sizes, unknown = [], 0
    for topic_id in was.keys() & now.keys():
        before, after = was[topic_id], now[topic_id]
        local = _pair(before.local_log_bytes, after.local_log_bytes)
        ends = None
        if before.partitions == after.partitions:  # new partitions would look like records
            ends = _pair(before.log_ends, after.log_ends)
        unknown += None in (before.local_log_bytes, after.local_log_bytes)
        if local or ends:
            appended = None if ends is None else ends.after - ends.before
            sizes.append(TopicSize(after.name, local, appended))
    return sorted(sizes, key=lambda each: (-_change(each.local_log_bytes), each.topic)), unknown


def _pair(before: int | None, after: int | None) -> Numbers | None:
    """Both, if they are known and differ."""
    if before is None or after is None or before == after:
        return None
    return Numbers(before, after)


def _by_broker(states: Sequence[ShardState]) -> Mapping[int, int | None]:
    """Bytes of local logs; None if a replica's size is unknown."""
    sums: dict[int, int | None] = {}
    for state in states:
        assigned, held = state[Roles].is_assigned, state[LocalLog].held_bytes
        brokers, place = np.unique(state[Assignment].broker[assigned], return_inverse=True)
        values: Array = held[assigned]
        known = np.bincount(place, np.where(values != UNKNOWN, values, 0), len(brokers))
        lacks = np.bincount(place, values == UNKNOWN, len(brokers))
        for broker, total, unknown in zip(brokers.tolist(), known, lacks, strict=True):
            sums[broker] = _sum(sums.get(broker, 0), None if unknown else round(total))
    return sums


def _by_group(states: Sequence[ShardState]) -> Mapping[str, Mapping[str, Any]]:
    """State, members and lag by group; of several shards, the newest listing counts."""
    found: dict[str, dict[str, Any]] = {}
    lags: dict[str, int | None] = {}
    columns = {c.name: c for c in GroupColumns.columns if c.name in ("group_state", "members")}
    for state in states:
        groups = state[Groups]
        names = [str(name) for name in groups.group]
        values = {n: plain.column_values(c, getattr(groups, n)) for n, c in columns.items()}
        for place, listed_ms in enumerate(groups.listed_at_ms.tolist()):
            mine = found.setdefault(names[place], {"listed_ms": UNKNOWN})
            if listed_ms >= mine["listed_ms"]:
                mine |= {name: values[name][place] for name in columns} | {"listed_ms": listed_ms}
        index, lag = state[GroupMoves].group_index, state[GroupLags].lag_records
        known = np.bincount(index, np.where(lag != UNKNOWN, lag, 0), len(names))
        lacks = np.bincount(index, lag == UNKNOWN, len(names))
        counts = np.bincount(index, minlength=len(names))
        for place in np.flatnonzero(counts).tolist():
            part = None if lacks[place] else round(known[place])
            lags[names[place]] = _sum(lags.get(names[place], 0), part)
    return {name: {**group, "lag_records": lags.get(name)} for name, group in found.items()}


def _groups(
    was: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]
) -> list[GroupDifference]:
    """Those that came or went first, then by how much their lag changed."""
    differences = []
    if was and now:  # else one of the moments knows of no group at all
        differences = [GroupDifference(name, "came") for name in sorted(now.keys() - was.keys())]
        differences += [GroupDifference(name, "went") for name in sorted(was.keys() - now.keys())]
    changed = []
    for name in sorted(was.keys() & now.keys()):
        before, after = was[name], now[name]
        states = before["group_state"], after["group_state"]
        differs = None not in states and states[0] != states[1]
        members = _pair(before["members"], after["members"])
        lag = _pair(before["lag_records"], after["lag_records"])
        if differs or members or lag:
            state = Words(*states) if differs else None
            changed.append(GroupDifference(name, "changed", state, members, lag))
    changed.sort(key=lambda each: (each.group_state is None, -_change(each.lag_records)))
    return differences + changed
