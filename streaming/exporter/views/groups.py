"""Groups of consumers as plain data for the JSON API."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, Final

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.views.cluster import by_first_label, observed
from streaming.questions.parameters import DEFAULT_ROWS, limit, offset, one_of, text
from twin.arrays import plain
from twin.declarations.table import UNKNOWN
from twin.rules.groups.loss import GroupsIfLeaderLost
from twin.rules.groups.moves import GroupLags, GroupMoves
from twin.rules.groups.reach import FALLS_OFF_SOON_S, LOSES_SOON_S
from twin.rules.groups.reads import CANNOT_READ, GroupReads, ReadsFrom
from twin.rules.groups.usage import has_left
from twin.tables.columns import GroupColumns
from twin.tables.state import GroupOffsets, Groups

PLACES: Final = ("unknown", *(each.name.lower() for each in ReadsFrom))
"""Where a group may read a partition, by ``reads_from`` + 1."""

UNREAD_THEN: Final = "unread then"


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """A selection of groups."""

    topic: Annotated[str, text("groups that have committed offsets of this topic")] = ""
    search: Annotated[str, text("groups whose names contain this, in upper or lower case")] = ""
    sort: Annotated[str, one_of("`worst`: the worst first, else by name", {"worst": "worst"})] = ""
    limit: Annotated[int, limit("groups")] = DEFAULT_ROWS
    offset: Annotated[int, offset("groups")] = 0

    def matches(self, view: ClusterView, name: str) -> bool:
        """Whether the group matches."""
        if self.search and self.search.lower() not in name.lower():
            return False
        by_topic = view.totals["kafka_twin_group_topic_lag_records"]
        return not self.topic or (name, self.topic) in by_topic


def groups(view: ClusterView, selection: GroupFilter, now_ms: int) -> dict[str, Any]:
    """A page of matching groups, by name or the worst first, and the number of all of them."""
    by_name = groups_by_name(view, now_ms)
    names = [name for name in sorted(by_name) if selection.matches(view, name)]
    if selection.sort:
        names.sort(key=lambda name: badness(by_name[name]))
    page = names[selection.offset : selection.offset + selection.limit]
    return {"total": len(names), "groups": [by_name[name] for name in page]}


def badness(group: dict[str, Any]) -> tuple[float, ...]:
    """A sort key: the group with the lowest one needs attention first.

    Groups in use come before abandoned ones. They are then ordered by partitions that cannot be
    read, by the time until retention deletes unread records, by reads from remote storage now and
    soon, by the harm of a lost leader, and by lag. Unknown values come last.
    """
    reads = group["reads_from"]
    then = group.get("if_leader_lost_remote_bytes", {}).get("kafka") or 0.0
    return (
        not group["in_use"],
        -(reads["nobody"] + reads["nowhere"] + reads["ahead"]),
        _soon(group, "until_loss_seconds", LOSES_SOON_S),
        -(group.get("remote_records") or 0),
        _soon(group, "until_remote_seconds", FALLS_OFF_SOON_S),
        -group["if_leader_lost_unread"],
        -then,
        -(group.get("lag_records") or 0),
    )


def _soon(group: dict[str, Any], name: str, within_s: float) -> float:
    """The remaining seconds, if there are few."""
    seconds = group.get(name)
    return inf if seconds is None or seconds > within_s else float(seconds)


def groups_by_name(view: ClusterView, now_ms: int) -> dict[str, dict[str, Any]]:
    """Every group by its name; of several shards, the one with the newest listing counts."""
    if view.newest is None:
        return {}
    sums = by_first_label(view.newest.catalog, view.totals, "group")
    newest: dict[str, tuple[int, dict[str, Any]]] = {}
    places, in_use = _reading(view)
    for shard in view.shards:
        table = shard.state[Groups]
        columns = {
            c.name: plain.column_values(c, getattr(table, c.name)) for c in GroupColumns.columns
        }
        rows = zip(*columns.values(), strict=True)
        for listed_ms, values in zip(table.listed_at_ms.tolist(), rows, strict=True):
            group = dict(zip(columns, values, strict=True))
            name = str(group["group"])
            read_ms = group.pop("read_at_ms")
            if name in newest and newest[name][0] >= listed_ms:
                continue
            age = observed(UNKNOWN if read_ms is None else read_ms, now_ms)
            reads = {
                "in_use": name in in_use or bool(group["members"]),
                "reads_from": {place: places[name, place] for place in PLACES},
                "if_leader_lost_unread": places[name, UNREAD_THEN],
            }
            newest[name] = listed_ms, {**group, **reads, **sums.get(name, {}), **age}
    return {name: group for name, (_, group) in newest.items()}


def _reading(view: ClusterView) -> tuple[Counter[tuple[str, str]], set[str]]:
    """Partitions by group and place of reading, and the groups in use.

    The snapshots have this for each partition. It is counted here: totals that rules declare also
    become series of /metrics, which would be five for each group.
    """
    places: Counter[tuple[str, str]] = Counter()
    in_use: set[str] = set()
    kinds = (*PLACES, UNREAD_THEN)
    for shard in view.shards:
        state = shard.state
        offsets, names = state[GroupOffsets], state[Groups].group.tolist()
        has = offsets.committed_offset != UNKNOWN
        has &= ~has_left(offsets, state[GroupMoves].was_assigned)
        now, then = state[GroupReads].reads_from, state[GroupsIfLeaderLost].reads_from
        stops = has & ~np.isin(now, CANNOT_READ) & np.isin(then, CANNOT_READ)
        first = offsets.group_index * len(kinds)
        codes = ((first + now + 1)[has], (first + len(PLACES))[stops])
        counts = np.bincount(np.concatenate(codes), minlength=len(names) * len(kinds))
        for number in np.flatnonzero(counts).tolist():
            group, place = divmod(number, len(kinds))
            places[names[group], kinds[place]] += int(counts[number])
        used = np.unique(offsets.group_index[state[GroupLags].in_use])
        in_use.update(names[group] for group in used.tolist())
    return places, in_use
