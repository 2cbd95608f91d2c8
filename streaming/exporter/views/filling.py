"""What fills each log directory: topics, the one that adds most bytes a second first.

Added up at the time of the question, from the states of the shards: as a table it would have a row
for each topic in each directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from streaming.bus.view import ClusterView
from twin.cluster_rules.disks.dir_contents import LogDirUse, places
from twin.declarations.signature import parameters
from twin.declarations.table import UNKNOWN, Array, Bool, Float64, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.rules.brokers.log_dirs import ReplicaDirs
from twin.rules.disks.curves import growth_bytes_per_s
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LocalLog
from twin.tables.enums import NOT_SET
from twin.tables.state import Assignment, PartitionIndex, Topics

NAMED: Final = 10
"""Topics of a directory; of the others only their number."""

UNLIMITED: Final = -1
"""Of a retention."""

_READS: Final = parameters(growth_bytes_per_s)


@dataclass(frozen=True, slots=True)
class Filling:
    """[M] what topics write into directories, by directory, the one that adds most first."""

    directory: Rows  # row in LogDirUse
    topic: Array  # its name
    written_bytes_per_s: Float64
    grows_bytes_per_s: Float64
    local_log_bytes: Int64

    def of(self, directory: int) -> tuple[list[dict[str, Any]], int]:
        """The first topics of a directory, and how many more write there."""
        begins, ends = np.searchsorted(self.directory, [directory, directory + 1]).tolist()
        some = slice(begins, min(begins + NAMED, ends))
        named = [
            {
                "topic": str(topic),
                "written_bytes_per_s": written,
                "grows_bytes_per_s": grows,
                "local_log_bytes": held,
            }
            for topic, written, grows, held in zip(
                self.topic[some].tolist(),
                self.written_bytes_per_s[some].tolist(),
                self.grows_bytes_per_s[some].tolist(),
                self.local_log_bytes[some].tolist(),
                strict=True,
            )
        ]
        return named, ends - begins - len(named)


def filling(view: ClusterView, use: LogDirUse, wanted: Bool) -> Filling:
    """What fills those directories.

    Args:
        view: the states of the shards.
        use: [K] all directories.
        wanted: [K] those that are asked about.
    """
    states = [shard.state for shard in view.shards]
    names = [state[Topics].topic.astype(str) for state in states]
    every, where = np.unique(np.concatenate([*names, np.array([], str)]), return_inverse=True)
    first = np.cumsum([0, *map(len, names)])
    each = [
        _of_shard(state, use, wanted, where[begins : begins + len(own)], len(every))
        for state, own, begins in zip(states, names, first.tolist(), strict=False)
    ]
    cells, *sums = (
        (np.concatenate(parts) for parts in zip(*each, strict=True))
        if each
        else (np.array([], np.int64), *np.zeros((3, 0)))
    )
    cell, at = np.unique(cells, return_inverse=True)
    written, grows, held = (
        np.bincount(at, values, len(cell)).astype(np.float64) for values in sums
    )
    directory, topic = np.divmod(cell, max(len(every), 1))
    writes = written > 0
    order = np.lexsort((-written, -grows, directory))
    order = order[writes[order]]
    return Filling(
        directory[order],
        every[topic[order]],
        written[order],
        grows[order],
        np.rint(held[order]).astype(np.int64),
    )


def _of_shard(
    state: ShardState, use: LogDirUse, wanted: Bool, topic: Rows, topics: int
) -> tuple[Array, ...]:
    """[M] cells, directory by topic, that a shard has replicas in, and the sums of these.

    ``topic``: [T] the place of each topic of the shard among the ``topics`` of all.
    """
    roles, broker = state[Roles], state[Assignment].broker
    row, slot = np.nonzero(roles.is_assigned & ~roles.is_offline)
    everywhere = np.ones(len(use.broker), bool)
    place = places(use, broker[row, slot], state[ReplicaDirs].number[row, slot], everywhere)
    is_wanted = np.append(wanted, False)[place]
    row, slot, place = row[is_wanted], slot[is_wanted], place[is_wanted]
    cell = place * topics + topic[state[PartitionIndex].topic_index[row]]
    cells, at = np.unique(cell, return_inverse=True)
    written, grows = (each[row] for each in growth_bytes_per_s(**state.arguments(_READS)))
    held = np.maximum(state[LocalLog].held_bytes[row, slot], 0)
    sums = (np.nan_to_num(written), np.nan_to_num(grows), held)
    return cells, *(np.bincount(at, values, len(cells)) for values in sums)


# ---------------------------------------------------------------- settings


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """What decides how much of a topic is on disk; -1 is without a limit, None is unknown."""

    tiered: bool | None
    settings: Mapping[str, int | None]  # by Kafka's name
    is_compacted: bool  # and no retention deletes anything
    replicas: int
    oldest_ms: int | None  # age of the first record on disk, of the partition with the oldest one

    @property
    def by_time(self) -> str:
        """The setting that keeps by time."""
        return next(name for name in self.settings if name.endswith("retention.ms"))


def settings_of(view: ClusterView, topics: Sequence[str]) -> Mapping[str, RetentionSettings]:
    """The settings of those topics, by the first partition of each."""
    wanted = set(topics)
    found: dict[str, RetentionSettings] = {}
    for state in (shard.state for shard in view.shards):
        for place, name in enumerate(state[Topics].topic.tolist()):
            if name in wanted:
                rows = np.flatnonzero(state[PartitionIndex].topic_index == place)
                if len(rows):
                    of_shard = _settings(state, rows)
                    found[name] = _older(found.get(name), of_shard)
    return found


def _older(one: RetentionSettings | None, other: RetentionSettings) -> RetentionSettings:
    """Of two shards, the one with the older record."""
    return other if one is None or (one.oldest_ms or 0) < (other.oldest_ms or 0) else one


def _settings(state: ShardState, rows: Rows) -> RetentionSettings:
    configs, first = state[TopicConfigs], int(rows[0])
    tiered = {1: True, 0: False}.get(int(configs.remote_storage[first]))
    prefix, kafka = ("local_", "local.") if tiered else ("", "")
    spans = state[Leaders].values_of(state[LocalLog].local_log_span_ms)[rows]
    oldest = int(spans.max(initial=UNKNOWN))
    assigned = state[Roles].is_assigned[rows].sum(axis=1)
    return RetentionSettings(
        tiered,
        dict(_each_setting(configs, first, prefix, kafka)),
        bool(configs.compacted[first] == 1 and configs.retention_ms[first] == UNLIMITED),
        int(assigned.max(initial=0)),
        None if oldest == UNKNOWN else oldest,
    )


def _each_setting(
    configs: TopicConfigs, row: int, prefix: str, kafka: str
) -> Iterator[tuple[str, int | None]]:
    for unit in ("ms", "bytes"):
        value = int(getattr(configs, f"{prefix}retention_{unit}")[row])
        yield f"{kafka}retention.{unit}", None if value == NOT_SET else value
