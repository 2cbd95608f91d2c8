"""Log directories as plain data for the JSON API.

Of each: the partitions that are offline in it, when its volume is full, and what fills it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.views import disk_full, disk_help
from streaming.exporter.views.cluster import answering, observed, shards_not_reported
from streaming.exporter.views.filling import Filling, RetentionSettings, filling, settings_of
from streaming.questions.parameters import DEFAULT_ROWS, limit, number, yes_or_no
from twin.arrays import plain
from twin.cluster_rules.disks.dir_contents import LogDirUse
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.declarations.table import UNKNOWN, Bool, Column
from twin.engine.shard_state import ShardState
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

    broker: Annotated[int, number("directories of this broker")] = UNKNOWN
    failed: Annotated[bool, yes_or_no("directories that have failed")] = False
    limit: Annotated[int, limit("offline partitions of each")] = DEFAULT_ROWS


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
    ahead = _Ahead(view, view.cluster, matches)
    found = []
    for row in np.flatnonzero(matches).tolist():
        broker = int(use.broker[row])
        found.append(
            {
                **{name: values[row] for name, values in fields.items()},
                "volume": path.get((broker, int(use.volume[row]))),
                "has_failed": bool(failed[row]),
                **_offline_there(view, use, row, selection.limit),
                **ahead.of(row),
                **observed(int(use.observed_at_ms[row]), now_ms),
            }
        )
    return {"log_dirs": found}


class _Ahead:
    """What is foretold of directories, what fills them, and what would help."""

    def __init__(self, view: ClusterView, cluster: ShardState, matches: Bool) -> None:
        use, forecasts = cluster[LogDirUse], cluster[DiskForecasts]
        volumes = zip(forecasts.broker.tolist(), forecasts.number.tolist(), strict=True)
        place = {volume: v for v, volume in enumerate(volumes)}
        self._volume = [
            place.get(volume)
            for volume in zip(use.broker.tolist(), use.volume.tolist(), strict=True)
        ]
        # Of a volume, all directories are asked for: replicas of all of them fill it.
        asked = {v for v, wanted in zip(self._volume, matches.tolist(), strict=True) if wanted}
        wanted = matches | np.array([v is not None and v in asked for v in self._volume], bool)
        self._filling: Filling = filling(view, use, wanted)
        self._full = disk_full.foretold(forecasts, cluster.observed_at_ms)
        named = {row: self._filling.of(row) for row in np.flatnonzero(matches).tolist()}
        topics = {each["topic"] for some, _ in named.values() for each in some}
        self._named = named
        self._settings: Mapping[str, RetentionSettings] = settings_of(view, sorted(topics))
        self._room = disk_help.with_room(forecasts, use)
        self._address = answering(view)

    def of(self, row: int) -> Mapping[str, Any]:
        """The fields of a directory."""
        volume = self._volume[row]
        full = disk_full.unknown() if volume is None else self._full[volume]
        topics, left_out = self._named[row]
        helps: list[disk_help.Help] = []
        if disk_full.is_in_sight(full):
            helps = disk_help.help_for(topics, self._settings, self._room, self._address)
        return {
            "full": full,
            "filling": [{**each, **self._kept(each["topic"])} for each in topics],
            "filling_left_out": left_out,
            "help": helps,
        }

    def _kept(self, topic: str) -> Mapping[str, Any]:
        own = self._settings[topic]
        return {"tiered": own.tiered, "settings": own.settings}


def _offline_there(view: ClusterView, use: LogDirUse, row: int, most: int) -> Mapping[str, Any]:
    """The partitions that are offline in a directory that has failed."""
    broker, number = int(use.broker[row]), int(use.number[row])
    failed = use.error_code == STORAGE_ERROR
    offline: list[dict[str, Any]] = []
    total = 0
    if failed[row]:
        is_only = int(failed[use.broker == broker].sum()) == 1
        for shard in view.shards:
            there = _offline(shard.state, broker, number, is_only=is_only)
            total += int(there.sum())
            rows = np.flatnonzero(there)[: most - len(offline)]
            offline += _named(shard.state, rows)
    return {"offline": offline, "offline_left_out": total - len(offline)}


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
