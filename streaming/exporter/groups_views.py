"""Groups of consumers as plain data for the JSON API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.api_views import by_first_label, observed, partition_objects
from streaming.exporter.parameters import DEFAULT_ROWS, MAX_ROWS
from twin import plain
from twin.state import ShardState
from twin.table import UNKNOWN, Rows
from twin.tables.columns import GroupColumns
from twin.tables.state import GroupOffsets, Groups


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Which groups are asked for."""

    topic: str = ""  # that they have offsets of
    limit: int = DEFAULT_ROWS
    offset: int = 0

    def matches(self, view: ClusterView, name: str) -> bool:
        """The group is asked for."""
        by_topic = view.totals["kafka_twin_group_topic_lag_records"]
        return not self.topic or (name, self.topic) in by_topic


def groups(view: ClusterView, asked: GroupFilter, now_ms: int) -> dict[str, Any]:
    """The groups asked for, sorted by name, and how many match in all."""
    by_name = _known(view, now_ms)
    names = [name for name in sorted(by_name) if asked.matches(view, name)]
    chosen = names[asked.offset : asked.offset + asked.limit]
    return {"total": len(names), "groups": [by_name[name] for name in chosen]}


def group(view: ClusterView, name: str, now_ms: int) -> dict[str, Any] | None:
    """One group and what it has committed, or None if nobody knows it."""
    by_name = _known(view, now_ms)
    if name not in by_name:
        return None
    states = [shard.state for shard in view.shards]
    rows = [row for state in states for row in _partitions(state, name, now_ms)][:MAX_ROWS]
    return {
        **by_name[name],
        "partitions": rows,
        "partitions_left_out": sum(len(_rows_of(state, name)) for state in states) - len(rows),
    }


def _known(view: ClusterView, now_ms: int) -> dict[str, dict[str, Any]]:
    """Every group by its name. Of what several shards say the newest counts."""
    if view.newest is None:
        return {}
    sums = by_first_label(view.newest.catalog, view.totals, "group")
    newest: dict[str, tuple[int, dict[str, Any]]] = {}
    for shard in view.shards:
        table = shard.state[Groups]
        columns = {
            c.name: plain.column_values(c, getattr(table, c.name)) for c in GroupColumns.columns
        }
        rows = zip(*columns.values(), strict=True)
        for listed_ms, values in zip(table.listed_at_ms.tolist(), rows, strict=True):
            said = dict(zip(columns, values, strict=True))
            name = str(said["group"])
            read_ms = said.pop("read_at_ms")
            if name in newest and newest[name][0] >= listed_ms:
                continue
            age = observed(UNKNOWN if read_ms is None else read_ms, now_ms)
            newest[name] = listed_ms, {**said, **sums.get(name, {}), **age}
    return {name: said for name, (_, said) in newest.items()}


def _partitions(state: ShardState, name: str, now_ms: int) -> list[dict[str, Any]]:
    """The offsets of the group in this shard, in the order of topics and numbers."""
    rows = []
    for partition in partition_objects(state, _rows_of(state, name)[:MAX_ROWS], now_ms):
        for place, each in enumerate(partition["groups"]):
            if each["group"] != name:
                continue
            if "groups_kip1303" in partition:
                other = partition["groups_kip1303"][place]["if_leader_lost"]
                each |= {"if_leader_lost_kip1303": other}
            del each["group"]
            about = {key: partition[key] for key in ("topic", "partition", "leader", "risks")}
            rows.append(about | each)
    return rows


def _rows_of(state: ShardState, name: str) -> Rows:
    """[N] the partitions of which the group has committed an offset."""
    offsets, place = state[GroupOffsets], np.flatnonzero(state[Groups].group == name)
    return offsets.row[np.isin(offsets.group_index, place)].astype(np.intp)
