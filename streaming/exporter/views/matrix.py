"""Topics by brokers: counts of replicas by state, for a picture of the whole cluster.

A page of topics is made from arrays over all partitions; only topics of the page become objects.
With brokers to lose it also has the leaders after the loss, by the same function as ``whatif
lose``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final, Literal, TypedDict

import numpy as np

from streaming.bus.view import ClusterView, ShardView
from streaming.exporter.views.partitions import NO_RISK
from streaming.questions.loss import brokers_lost
from streaming.questions.parameters import DEFAULT_ROWS, limit, number, offset, text
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Int8, Int32, Int64, Rows
from twin.engine.risks import OpenRisks
from twin.engine.shard_state import ShardState
from twin.questions.whatif import on_brokers
from twin.rules.partitions.leaders import Roles, has_flag
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, PartitionIndex, Partitions, Replicas, Topics

MAX_LISTED: Final = 1_000
"""Partitions that a topic lists at most."""


class Square(IntEnum):
    """The state of one replica; of several that hold, the worst for consumers and producers."""

    LEADS = 0
    LEADS_COLD = 1
    WARM = 2  # in sync, like the next five
    COLD = 3
    ASSUMED = 4
    NOT_JUDGED = 5
    ELR = 6
    OUT_OF_SYNC = 7
    JOINING = 8  # added by a reassignment, not in sync yet
    OFFLINE = 9
    UNKNOWN = 10  # the partition was not described yet


SquareName = Literal[
    "leads", "leads_cold", "warm", "cold", "assumed", "not_judged", "elr", "out_of_sync", "joining",
    "offline", "unknown",
]  # fmt: skip

_IN_SYNC: Final = {
    Coverage.WARM: Square.WARM,
    Coverage.COLD: Square.COLD,
    Coverage.ASSUMED: Square.ASSUMED,
    Coverage.NOT_JUDGED: Square.NOT_JUDGED,
}


class MatrixPartition(TypedDict):
    """A partition: its replicas by broker, and with brokers lost, who leads then by each rule."""

    partition: int
    leader: int | None
    risk: str | None
    replicas: dict[str, SquareName]
    then: dict[str, int] | None


class MatrixTopic(TypedDict):
    """A topic: its replicas counted by broker and square.

    ``risk`` is the worst of its partitions, ``offline`` those without a leader. With brokers lost,
    ``would_lead`` counts by rule and broker the partitions that get another leader, and
    ``nobody_leads`` by rule those that get none. ``listed`` has its partitions if they are few.
    """

    topic: str
    partitions: int
    at_risk: int
    risk: str | None
    offline: int
    brokers: dict[str, dict[SquareName, int]]
    would_lead: dict[str, dict[str, int]]
    nobody_leads: dict[str, int]
    listed: list[MatrixPartition] | None


class Matrix(TypedDict):
    """A page of topics, the worst first; ``total`` of them match."""

    total: int
    lost: list[int]
    topics: list[MatrixTopic]
    observed_at_ms: int | None


@dataclass(frozen=True, slots=True)
class MatrixFilter:
    """A selection of topics, and the brokers that are assumed to be lost."""

    topic: Annotated[str, text("this topic alone")] = ""
    search: Annotated[str, text("topics whose names contain this, in upper or lower case")] = ""
    broker: Annotated[Sequence[int], number("a broker to take as lost", repeated=True)] = ()
    rack: Annotated[Sequence[str], text("a rack to take as lost", repeated=True)] = ()
    partitions: Annotated[
        int,
        number(
            "topics with at most that many partitions list them, at most "
            f"{MAX_LISTED}; 0 by default",
            most=MAX_LISTED,
        ),
    ] = 0
    limit: Annotated[int, limit("topics")] = DEFAULT_ROWS
    offset: Annotated[int, offset("topics")] = 0


def matrix(view: ClusterView, selection: MatrixFilter) -> Matrix:
    """A page of the matching topics, those with the worst risk first, then by name.

    Raises:
        NotThereError: a broker or rack to lose that does not exist.
    """
    states = view.states
    lost_brokers = brokers_lost(states, selection.broker, selection.rack)
    shards = _Shards(states)
    matching = shards.matching(selection)
    page = matching[selection.offset : selection.offset + selection.limit]
    topics = shards.rows(page)
    place = np.full(len(shards.names), UNKNOWN, np.int64)
    place[page] = np.arange(len(page))
    few = shards.partitions[page] <= selection.partitions
    for each, lists in zip(topics, few.tolist(), strict=True):
        each["listed"] = [] if lists else None
    shown = list(_on_page(view, shards, place, lost_brokers))
    _count_replicas(topics, shown)
    _count_losses(topics, shown)
    for of_shard in shown:
        _list_partitions(topics, of_shard, few)
    for each in topics:
        if each["listed"] is not None:
            each["listed"].sort(key=lambda partition: partition["partition"])
    at_ms = view.observed_at_ms
    return {
        "total": len(matching),
        "lost": lost_brokers,
        "topics": topics,
        "observed_at_ms": None if at_ms == UNKNOWN else at_ms,
    }


def squares(state: ShardState, rows: Rows) -> Int8:
    """[N, R] a Square for each slot of these rows; values of slots without a replica are
    undefined."""
    roles, flags = state[Roles].take(rows), state[Replicas].replica_flags[rows]
    coverage = state[ReplicaCoverage].coverage[rows]
    square = np.full(coverage.shape, Square.ASSUMED, np.int8)
    for value, name in _IN_SYNC.items():
        square[coverage == value] = name
    square[~roles.in_isr] = Square.OUT_OF_SYNC
    square[~roles.in_isr & roles.in_elr] = Square.ELR
    square[~roles.in_isr & has_flag(flags, ReplicaFlags.ADDING)] = Square.JOINING
    square[roles.is_leader] = Square.LEADS
    square[roles.is_leader & (coverage == Coverage.COLD)] = Square.LEADS_COLD
    square[roles.is_offline] = Square.OFFLINE
    square[state[Partitions].described_at_ms[rows] == UNKNOWN] = Square.UNKNOWN
    return square


# ---------------------------------------------------------------- inside


class _Shards:
    """The topics of all shards: names [T], and counts over the partitions of each."""

    def __init__(self, states: Sequence[ShardState]) -> None:
        ids: dict[str, int] = {}
        self.index: list[Int64] = []  # for each shard, [P] the topic of each partition
        for state in states:
            own = [ids.setdefault(name, len(ids)) for name in state[Topics].topic.tolist()]
            self.index.append(np.array(own, np.int64)[state[PartitionIndex].topic_index])
        self.names = np.array(list(ids), np.str_)
        self.risk_names = states[0].catalog.risk_names if states else ()
        size = len(self.names)
        self.partitions = np.zeros(size, np.int64)
        self._at_risk, self._offline = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._worst = np.full(size, NO_RISK)
        for state, index in zip(states, self.index, strict=True):
            bits = state[OpenRisks].bits.astype(np.int64)
            self.partitions += np.bincount(index, minlength=size)
            self._at_risk += np.bincount(index[bits != 0], minlength=size)
            self._offline += np.bincount(index[_nobody_leads(state)], minlength=size)
            # The lowest bit is the risk that a person would act on first.
            np.minimum.at(self._worst, index[bits != 0], (bits & -bits)[bits != 0])

    def matching(self, selection: MatrixFilter) -> Rows:
        """[N] the matching topics, in the order of the answer."""
        matches = self.partitions > 0
        if selection.topic:
            matches &= self.names == selection.topic
        if selection.search:
            text = selection.search.lower()
            matches &= np.array([text in name.lower() for name in self.names.tolist()], bool)
        rows = np.flatnonzero(matches)
        return rows[np.lexsort((self.names[rows], self._worst[rows]))]

    def rows(self, page: Rows) -> list[MatrixTopic]:
        """The objects of those topics, without the counts by broker."""
        return [
            {
                "topic": name,
                "partitions": partitions,
                "at_risk": at_risk,
                "risk": _risk_name(self.risk_names, worst if at_risk else 0),
                "offline": offline,
                "brokers": {},
                "would_lead": {},
                "nobody_leads": {},
                "listed": None,
            }
            for name, partitions, at_risk, worst, offline in zip(
                self.names[page].tolist(), self.partitions[page].tolist(),
                self._at_risk[page].tolist(), self._worst[page].tolist(),
                self._offline[page].tolist(), strict=True,
            )
        ]  # fmt: skip


def _nobody_leads(state: ShardState) -> Bool:
    partitions = state[Partitions]
    return (partitions.leader == NO_BROKER) & (partitions.described_at_ms != UNKNOWN)


def _risk_name(names: Sequence[str], bits: int) -> str | None:
    """The worst of those risks."""
    return names[(bits & -bits).bit_length() - 1] if bits else None


@dataclass(frozen=True, slots=True)
class _ShownRows:
    """[N] rows of a shard whose topics are on the page."""

    state: ShardState
    row: Rows
    place: Int64  # the topic's place on the page
    square: Int8  # [N, R]
    then: Mapping[str, Int64]  # by rule: who leads after the loss, see ``_leaders_then``


def _on_page(
    view: ClusterView, shards: _Shards, place: Int64, lost_brokers: Sequence[int]
) -> Iterator[_ShownRows]:
    """The rows on the page, by shard; ``place`` [T] is UNKNOWN for topics on other pages."""
    for shard, index in zip(view.shards, shards.index, strict=True):
        row = np.flatnonzero(place[index] != UNKNOWN)
        if len(row):
            leaders_by_rule = _leaders_then(shard, lost_brokers)
            then = {rule: leaders[row] for rule, leaders in leaders_by_rule.items()}
            yield _ShownRows(shard.state, row, place[index[row]], squares(shard.state, row), then)


def _count_replicas(topics: list[MatrixTopic], shown: Sequence[_ShownRows]) -> None:
    """Count the replicas by broker and square, for all shards at once: a third of the time."""
    if not shown:
        return
    keys = [_replicas(each) for each in shown]
    for at, on, what, count in _counted(*map(np.concatenate, zip(*keys, strict=True))):
        topics[at]["brokers"].setdefault(str(on), {})[_NAMES[what]] = count


def _replicas(shown: _ShownRows) -> tuple[Int64, Int32, Int8]:
    """[M] for each replica of those rows: the topic's place, the broker, the square."""
    state = shown.state
    assigned = np.arange(state.slots) < state[Partitions].assigned[shown.row, None]
    row, slot = np.nonzero(assigned)
    broker = state[Assignment].broker[shown.row[row], slot]
    return shown.place[row], broker, shown.square[row, slot]


def _counted(*keys: Array) -> Iterator[tuple[int, ...]]:
    """The distinct tuples of the keys, each followed by its count.

    Tuples are encoded as one number: sorting rows of an array takes ten times as long.
    """
    least = [int(key.min(initial=0)) for key in keys]
    spans = [int(key.max(initial=0)) - low + 1 for key, low in zip(keys, least, strict=True)]
    shifted = [key.astype(np.int64) - low for key, low in zip(keys, least, strict=True)]
    codes, counts = np.unique(np.ravel_multi_index(shifted, spans), return_counts=True)
    columns = [
        (column + low).tolist()
        for column, low in zip(np.unravel_index(codes, spans), least, strict=True)
    ]
    return zip(*columns, counts.tolist(), strict=True)


_NAMES: Final[Mapping[int, SquareName]] = {int(s): s.name.lower() for s in Square}  # type: ignore[misc]
_KEPT: Final = -2
"""The partition does not lose its leader."""


def _leaders_then(shard: ShardView, lost_brokers: Sequence[int]) -> dict[str, Int64]:
    """By rule, [P] the leader after the loss: NO_BROKER for nobody, _KEPT if it does not change."""
    if not lost_brokers:
        return {}
    state, loss = shard.state, shard.lose(lost_brokers)
    changes = on_brokers(state[Partitions].leader[loss.row], lost_brokers)
    then: dict[str, Int64] = {}
    for rule, following in loss.next_leaders.items():
        leaders = np.full(state.partitions, _KEPT, np.int64)
        leaders[loss.row[changes]] = following.leader[changes]
        then[rule] = leaders
    return then


def _count_losses(topics: list[MatrixTopic], shown: Sequence[_ShownRows]) -> None:
    """Count the partitions that get another leader by broker, and those that get none."""
    for rule in shown[0].then if shown else ():
        place = np.concatenate([each.place for each in shown])
        leaders = np.concatenate([each.then[rule] for each in shown])
        changes = leaders != _KEPT
        for at, leader, count in _counted(place[changes], leaders[changes]):
            if leader == NO_BROKER:
                topics[at]["nobody_leads"][rule] = count
            else:
                topics[at]["would_lead"].setdefault(rule, {})[str(leader)] = count


def _list_partitions(topics: list[MatrixTopic], shown: _ShownRows, few: Bool) -> None:
    """Add the partitions and their squares to the topics that list their partitions."""
    listed = np.flatnonzero(few[shown.place])
    state, row = shown.state, shown.row[listed]
    partitions, names = state[Partitions], state.catalog.risk_names
    square, broker = shown.square[listed].tolist(), state[Assignment].broker[row].tolist()
    numbers = state[PartitionIndex].partition[row].tolist()
    leader, assigned = partitions.leader[row].tolist(), partitions.assigned[row].tolist()
    is_described = partitions.described_at_ms[row] != UNKNOWN
    bits = state[OpenRisks].bits[row].tolist()
    then = {rule: leaders[listed].tolist() for rule, leaders in shown.then.items()}
    for i, at in enumerate(shown.place[listed].tolist()):
        leaders = {rule: each[i] for rule, each in then.items()}
        partitions_listed = topics[at]["listed"]
        assert partitions_listed is not None  # these topics have a list
        partitions_listed.append(
            {
                "partition": numbers[i],
                "leader": leader[i] if is_described[i] else None,
                "risk": _risk_name(names, bits[i]),
                "replicas": {
                    str(broker[i][slot]): _NAMES[square[i][slot]] for slot in range(assigned[i])
                },
                "then": leaders if leaders and _KEPT not in leaders.values() else None,
            }
        )
