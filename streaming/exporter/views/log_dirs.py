"""Log directories as plain data for the JSON API, with the partitions that are offline in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.views.api import observed, shards_not_reported
from streaming.questions.parameters import DEFAULT_ROWS
from twin.arrays import plain
from twin.cluster_rules.disks.log_dirs import LogDirUse
from twin.declarations.table import UNKNOWN, Bool, Column
from twin.engine.state import ShardState
from twin.rules.brokers.log_dirs import STORAGE_ERROR, ReplicaDirs
from twin.rules.partitions.leaders import Roles
from twin.tables.state import Assignment, PartitionIndex

_LEFT_OUT: Final = ("number", "volume", "observed_at_ms", "is_current")


def columns() -> list[Column]:
    """The columns that are fields of a log directory as they are."""
    return [c for c in LogDirUse.columns if c.name not in _LEFT_OUT]


@dataclass(frozen=True, slots=True)
class LogDirFilter:
    """A selection of log directories."""

    broker: int = UNKNOWN
    failed: bool = False
    limit: int = DEFAULT_ROWS  # of the partitions of each


def log_dirs(view: ClusterView, selection: LogDirFilter, now_ms: int) -> Mapping[str, Any]:
    """The directories that match, by broker and path."""
    if view.cluster is None or shards_not_reported(view.cluster):
        return {"log_dirs": None}
    use = view.cluster[LogDirUse]
    failed = use.error_code == STORAGE_ERROR
    matches = failed | (not selection.failed)
    if selection.broker != UNKNOWN:
        matches &= use.broker == selection.broker
    fields = {c.name: plain.column_values(c, getattr(use, c.name)) for c in columns()}
    path = {
        (broker, number): name
        for broker, number, name in zip(
            use.broker.tolist(), use.number.tolist(), use.log_dir.tolist(), strict=True
        )
    }
    found = []
    for row in np.flatnonzero(matches).tolist():
        broker, number = int(use.broker[row]), int(use.number[row])
        offline: list[dict[str, Any]] = []
        total = 0
        if failed[row]:
            is_only = int(failed[use.broker == broker].sum()) == 1
            for shard in view.shards:
                there = _offline(shard.state, broker, number, is_only=is_only)
                total += int(there.sum())
                rows = np.flatnonzero(there)[: selection.limit - len(offline)]
                offline += _named(shard.state, rows)
        found.append({
            **{name: values[row] for name, values in fields.items()},
            "volume": path.get((broker, int(use.volume[row]))),
            "has_failed": bool(failed[row]),
            "offline": offline,
            "offline_left_out": total - len(offline),
            **observed(int(use.observed_at_ms[row]), now_ms),
        })  # fmt: skip
    return {"log_dirs": found}


def _offline(state: ShardState, broker: int, number: int, *, is_only: bool) -> Bool:
    """[P] a replica is offline in that directory; of unknown directory, if one alone has failed."""
    roles, where = state[Roles], state[ReplicaDirs].number
    there = (where == number) | ((where == UNKNOWN) & is_only)
    there &= roles.is_offline & roles.is_assigned & (state[Assignment].broker == broker)
    found: Bool = there.any(axis=1)
    return found


def _named(state: ShardState, rows: Any) -> list[dict[str, Any]]:
    names, numbers = state.topic_names()[rows], state[PartitionIndex].partition[rows]
    return [
        {"topic": str(topic), "partition": number}
        for topic, number in zip(names.tolist(), numbers.tolist(), strict=True)
    ]
