"""The difference between two moments, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
from msgspec import Meta

from streaming.bus.view import ClusterView
from streaming.history.differences.amount_changes import (
    BrokerSize,
    GroupDifference,
    TopicSize,
    amounts,
)
from streaming.history.moment import time_text
from streaming.history.past import PastView
from twin.arrays import plain
from twin.declarations.table import NO_BROKER, Array
from twin.engine.shard_state import ShardState
from twin.questions import difference as differences
from twin.questions.difference import Difference
from twin.tables.state import Brokers, PartitionIndex, Partitions, Topics

_STILL: Final = np.int64(1) << 62
"""For sorting: behind every risk."""


@dataclass(frozen=True, slots=True)
class ComparedMoment:
    """A moment, as answers about the past name it."""

    at: Annotated[str, Meta(description="the cycle that it really is of")]
    resolution_ms: int
    complete: bool
    filled: bool


@dataclass(frozen=True, slots=True)
class DifferenceCounts:
    """The number of differences of each kind."""

    leaders: Annotated[int, Meta(description="partitions with another leader")]
    isrs: Annotated[int, Meta(description="partitions with another ISR")]
    replicas: Annotated[int, Meta(description="partitions with another assignment")]
    risks_opened: Annotated[int, Meta(description="risks of partitions that are open since")]
    risks_closed: Annotated[int, Meta(description="risks of partitions that are no longer open")]
    partitions_came: int
    partitions_went: int
    brokers: Annotated[int, Meta(description="brokers that came, went or changed")]
    topics: Annotated[int, Meta(description="topics with another setting")]
    topic_sizes: Annotated[int, Meta(description="topics whose local logs or log ends differ")]
    broker_sizes: Annotated[int, Meta(description="brokers whose local logs differ")]
    groups: Annotated[int, Meta(description="groups of consumers that came, went or changed")]


@dataclass(frozen=True, slots=True)
class LeaderDifferences:
    """Broker ids, -1 if nobody leads."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class BrokerLists:
    """Broker ids: of an ISR in order, of an assignment in its order."""

    before: list[int]
    after: list[int]


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """A partition that differs; fields that are equal are null."""

    topic: str
    partition: int
    change: Literal["changed", "came", "went"]
    leader: LeaderDifferences | None = None
    isr: BrokerLists | None = None
    replicas: BrokerLists | None = None
    risks_opened: tuple[str, ...] = ()
    risks_closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerStanding:
    """What is compared of a broker; null is unknown."""

    listed: bool
    fenced: bool | None
    answered: bool


@dataclass(frozen=True, slots=True)
class BrokerDifference:
    """A broker that differs; null where it was not known at that moment."""

    broker: int
    before: BrokerStanding | None
    after: BrokerStanding | None


@dataclass(frozen=True, slots=True)
class SettingValues:
    """A setting: null if it is unknown or not set for the topic, -1 if it is unlimited or off."""

    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """Settings that differ, by the names of the columns of `configs`."""

    topic: Annotated[str, Meta(description="empty for the settings of the cluster")]
    settings: dict[str, SettingValues]


@dataclass(frozen=True, slots=True)
class Differences:
    """The difference between two moments."""

    before: ComparedMoment
    after: ComparedMoment
    counts: DifferenceCounts
    compared: Annotated[int, Meta(description="partitions that were compared")]
    not_compared: Annotated[
        int, Meta(description="partitions that were not yet described in one of the moments")
    ]
    shards_not_compared: Annotated[
        int, Meta(description="shards of which one of the moments knows nothing")
    ]
    total: Annotated[int, Meta(description="partitions that differ, came or went")]
    partitions: Annotated[
        list[PartitionDifference],
        Meta(description="a page of them; those with risks that opened first, the worst first"),
    ]
    brokers: Annotated[list[BrokerDifference], Meta(description="at most `limit` of them")]
    topics: Annotated[list[TopicDifference], Meta(description="at most `limit` of them")]
    topic_sizes: Annotated[
        list[TopicSize], Meta(description="at most `limit` of them, the largest change first")
    ]
    broker_sizes: Annotated[list[BrokerSize], Meta(description="at most `limit` of them")]
    sizes_not_compared: Annotated[
        int,
        Meta(description="topics and brokers with a replica of unknown size at one of the moments"),
    ]
    groups: Annotated[
        list[GroupDifference],
        Meta(description="at most `limit` of them: came, went, then by the change of their lag"),
    ]


def differences_of(before: PastView, after: PastView, limit: int, offset: int = 0) -> Differences:
    """The difference between two moments of one past, with a page of its partitions."""
    was, now = ({s.shard: s for s in each.view.states} for each in (before, after))
    both = sorted(was.keys() & now.keys())
    parts = [differences.difference(was[shard], now[shard]) for shard in both]
    topics = _topics([(was[shard], now[shard]) for shard in both])
    sizes = amounts([was[shard] for shard in both], [now[shard] for shard in both])
    brokers = _brokers(before.view, after.view)
    expected = max(before.view.shards_expected, after.view.shards_expected)
    came, went = (sum(len(getattr(each, name)) for each in parts) for name in ("came", "went"))
    return Differences(
        before=_moment(before),
        after=_moment(after),
        counts=DifferenceCounts(
            leaders=sum(int(each.leader.sum()) for each in parts),
            isrs=sum(int(each.isr.sum()) for each in parts),
            replicas=sum(int(each.replicas.sum()) for each in parts),
            risks_opened=sum(_bits(each.opened) for each in parts),
            risks_closed=sum(_bits(each.closed) for each in parts),
            partitions_came=came,
            partitions_went=went,
            brokers=len(brokers),
            topics=len(topics),
            topic_sizes=len(sizes.topics),
            broker_sizes=len(sizes.brokers),
            groups=len(sizes.groups),
        ),
        compared=sum(each.compared for each in parts),
        not_compared=sum(each.not_compared for each in parts),
        shards_not_compared=expected - len(both),
        total=came + went + sum(len(each.row) for each in parts),
        partitions=_page(parts, limit, offset),
        brokers=brokers[:limit],
        topics=topics[:limit],
        topic_sizes=sizes.topics[:limit],
        broker_sizes=sizes.brokers[:limit],
        sizes_not_compared=sizes.not_compared,
        groups=sizes.groups[:limit],
    )


def _moment(of: PastView) -> ComparedMoment:
    return ComparedMoment(time_text(of.at_ms), of.resolution_ms, of.complete, of.filled)


def _bits(values: Array) -> int:
    return int(np.bitwise_count(values).sum())


def _page(parts: Sequence[Difference], limit: int, offset: int) -> list[PartitionDifference]:
    """Objects are made for the page alone."""
    if not parts:
        return []
    worst, part, place = [], [], []
    for number, each in enumerate(parts):
        total = len(each.row) + len(each.came) + len(each.went)
        keys = np.full(total, _STILL)
        opened = each.opened
        keys[: len(opened)] = np.where(opened == 0, _STILL, opened & -opened)
        worst.append(keys)
        part.append(np.full(total, number))
        place.append(np.arange(total))
    order = np.argsort(np.concatenate(worst), kind="stable")[offset : offset + limit]
    numbers, places = np.concatenate(part)[order], np.concatenate(place)[order]
    objects: dict[int, PartitionDifference] = {}
    for number in np.unique(numbers).tolist():
        here = np.flatnonzero(numbers == number)
        objects |= zip(here.tolist(), _objects(parts[number], places[here]), strict=True)
    return [objects[at] for at in range(len(order))]


def _objects(part: Difference, places: Array) -> Iterator[PartitionDifference]:
    """In the order changed, added, removed."""
    was, now, names = part.before, part.after, part.after.catalog.risk_names
    isrs = differences.isr_of(was), differences.isr_of(now)
    assigned = differences.assignment_of(was), differences.assignment_of(now)
    both, came = len(part.row), len(part.came)
    for at in places.tolist():
        if at >= both + came:
            yield PartitionDifference(*_name(was, part.went[at - both - came]), "went")
        elif at >= both:
            yield PartitionDifference(*_name(now, part.came[at - both]), "came")
        else:
            rows = part.old_row[at], part.row[at]
            leaders = was[Partitions].leader[rows[0]], now[Partitions].leader[rows[1]]
            yield PartitionDifference(
                *_name(now, rows[1]),
                "changed",
                LeaderDifferences(*map(int, leaders)) if part.leader[at] else None,
                BrokerLists(*_ids(isrs, rows)) if part.isr[at] else None,
                BrokerLists(*_ids(assigned, rows)) if part.replicas[at] else None,
                _risks(names, int(part.opened[at])),
                _risks(names, int(part.closed[at])),
            )


def _name(state: ShardState, row: int) -> tuple[str, int]:
    index = state[PartitionIndex]
    return str(state[Topics].topic[index.topic_index[row]]), int(index.partition[row])


def _ids(brokers: tuple[Array, Array], rows: tuple[int, int]) -> Iterator[list[int]]:
    """Before and after: the brokers in those rows."""
    for of, row in zip(brokers, rows, strict=True):
        yield [broker for broker in of[row].tolist() if broker != NO_BROKER]


def _risks(names: Sequence[str], bits: int) -> tuple[str, ...]:
    return tuple(name for number, name in enumerate(names) if bits >> number & 1)


def _brokers(before: ClusterView, after: ClusterView) -> list[BrokerDifference]:
    was, now = _standings(before), _standings(after)
    return [
        BrokerDifference(broker, was.get(broker), now.get(broker))
        for broker in sorted(was.keys() | now.keys())
        if was.get(broker) != now.get(broker)
    ]


def _standings(view: ClusterView) -> Mapping[int, BrokerStanding]:
    state = view.newest
    if state is None:
        return {}
    listed = state[Brokers]
    return {
        broker: BrokerStanding(
            bool(listed.listed[row]),
            plain.yes_or_no(listed.fenced[row]),
            bool(listed.answered[row]),
        )
        for row, broker in enumerate(listed.broker.tolist())
    }


def _topics(pairs: Sequence[tuple[ShardState, ShardState]]) -> list[TopicDifference]:
    """By name; the settings of the cluster once, not for each shard."""
    changed: dict[str, Mapping[str, Any]] = {}
    for was, now in pairs:
        changed = {**differences.settings(was, now), **changed}
    return [
        TopicDifference(
            topic, {name: SettingValues(*values) for name, values in changed[topic].items()}
        )
        for topic in sorted(changed)
    ]
