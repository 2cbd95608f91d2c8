"""One group of consumers as plain data: its worst partitions, and the harm of each leader's
loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypedDict

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.views.groups import groups_by_name
from streaming.exporter.views.partitions import partition_objects
from twin.declarations.table import UNKNOWN, Rows
from twin.engine.shard_state import ShardState
from twin.rules.groups.loss import GroupsIfLeaderLost, ReadsThen
from twin.rules.groups.moves import GroupLags
from twin.rules.groups.reads import CANNOT_READ, GroupReads, ReadsFrom
from twin.tables.state import GroupOffsets, Groups, Partitions

_WORST_FIRST: Final = (
    ReadsFrom.NOBODY, ReadsFrom.AHEAD, ReadsFrom.NOWHERE, UNKNOWN, ReadsFrom.REMOTE
)  # fmt: skip


class GroupThen(TypedDict):
    """The bytes that the group would read remotely if a leader were lost.

    ``unknown`` counts partitions of unknown size, ``unread`` those that it could not read.
    """

    remote_bytes: float
    unread: int
    unknown: int


class GroupLeader(TypedDict):
    """A broker, the number of partitions that it leads, and the harm of its loss by rule."""

    broker: int
    partitions: int
    if_lost: dict[str, GroupThen]


def group(view: ClusterView, name: str, now_ms: int, most: int) -> dict[str, Any] | None:
    """One group and its committed offsets, or None if it is unknown.

    At most ``most`` of its partitions are listed: first those that it cannot read, then those that
    it reads remotely, then those with the largest lag; by shard, topic and number.
    """
    by_name = groups_by_name(view, now_ms)
    if name not in by_name:
        return None
    states = view.states
    places = [_places(state, name) for state in states]
    worst = _worst(states, places, most)
    rows = [
        row
        for state, here in zip(states, worst, strict=True)
        for row in _partitions(state, name, here, now_ms)
    ]
    return {
        **by_name[name],
        "leaders": _leaders(states, places),
        "partitions": rows,
        "partitions_left_out": sum(map(len, places)) - len(rows),
    }


def _places(state: ShardState, name: str) -> Rows:
    """[N] the group's rows of ``group_offsets``."""
    number = np.flatnonzero(state[Groups].group == name)
    return np.flatnonzero(np.isin(state[GroupOffsets].group_index, number))


def _worst(states: Sequence[ShardState], places: Sequence[Rows], most: int) -> list[Rows]:
    """The worst of those places, by shard, in their original order."""
    rank, lag = [], []
    for state, here in zip(states, places, strict=True):
        reads = state[GroupReads].reads_from[here]
        ranks = np.full(len(here), len(_WORST_FIRST))
        for number, each in enumerate(_WORST_FIRST):
            ranks[reads == each] = number
        rank.append(ranks)
        lag.append(state[GroupLags].lag_records[here])
    is_worst = np.zeros(sum(map(len, places)), bool)
    if len(is_worst):
        is_worst[np.lexsort((-np.concatenate(lag), np.concatenate(rank)))[:most]] = True
    ends = np.cumsum([len(here) for here in places])[:-1]
    parts = np.split(is_worst, ends) if places else []
    return [here[part] for here, part in zip(places, parts, strict=True)]


def _partitions(state: ShardState, name: str, places: Rows, now_ms: int) -> list[dict[str, Any]]:
    """The offsets of the group at those places."""
    rows = []
    of_partition = state[GroupOffsets].row[places].astype(np.intp)
    for partition in partition_objects(state, of_partition, now_ms):
        for each in partition["groups"]:
            if each["group"] != name:
                continue
            del each["group"]
            about = {key: partition[key] for key in ("topic", "partition", "leader", "risks")}
            rows.append(about | each)
    return rows


def _leaders(states: Sequence[ShardState], places: Sequence[Rows]) -> list[GroupLeader]:
    """The leaders of the group's partitions, over all shards."""
    leaders: dict[int, GroupLeader] = {}
    for state, here in zip(states, places, strict=True):
        has = here[state[GroupOffsets].committed_offset[here] != UNKNOWN]
        leader = state[Partitions].leader[state[GroupOffsets].row[has]]
        rules = {r: state[GroupsIfLeaderLost.under(r)] for r in state.catalog.election_rules}
        for broker in np.unique(leader[leader >= 0]).tolist():
            mine = has[leader == broker]
            entry = leaders.setdefault(broker, {"broker": broker, "partitions": 0, "if_lost": {}})
            entry["partitions"] += len(mine)
            for rule, then in rules.items():
                sums = entry["if_lost"].setdefault(
                    rule, {"remote_bytes": 0.0, "unread": 0, "unknown": 0}
                )
                _add(sums, then, mine)
    return [leaders[broker] for broker in sorted(leaders)]


def _add(sums: GroupThen, then: ReadsThen, mine: Rows) -> None:
    size, unread = then.remote_bytes[mine], np.isin(then.reads_from[mine], CANNOT_READ)
    sums["remote_bytes"] += float(np.nansum(size[~unread]))
    sums["unread"] += int(unread.sum())
    sums["unknown"] += int((np.isnan(size) & ~unread).sum())
