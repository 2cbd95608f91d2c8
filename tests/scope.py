"""What a rule may see: a finding about a partition must not depend on the shard it is in.

A shard is a part of the cluster that the configuration decides, so a rule that sums over its shard
(the share of a broker, the mean of all partitions) flags other partitions with other numbers of
shards. ``assert_local`` plays the same cluster in several shards, and page by page, and names the
rules that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twin.cluster_step import reports
from twin.declarations.signature import DeclarationError
from twin.declarations.table import KeyedTable, PartitionTable, ReplicaTable, SparseTable, Table
from twin.engine.catalog import Catalog
from twin.engine.frames import Frame
from twin.engine.risks import OpenRisks, RiskConditions, RiskStates
from twin.engine.shard_state import ShardState
from twin.remote_log.segment_store import KINDS, SegmentStore
from twin.rules.brokers.log_dirs import LogDirsFrame
from twin.step import step, step_segments
from twin.tables.enums import CLUSTER_WIDE
from twin.tables.state import PartitionIndex

PAGE: Final = 7
"""Partitions of a page: a number that does not divide that of the partitions."""

Cycles = Sequence[tuple[Sequence[Frame], int]]
"""The frames of each cycle, and its time."""


def assert_local(catalog: Catalog, cycles: Cycles, topics: Sequence[str]) -> None:
    """Refuse a rule whose findings about a partition depend on the shard or on the page.

    Args:
        catalog: the rules.
        cycles: frames of a cluster in one shard.
        topics: all topics of these frames; shards get them in turn.

    Raises:
        DeclarationError: the names of the tables and risks that differ.
    """
    whole = played(catalog, cycles, 0, 1, frozenset(topics))
    for shards in (4, 25):
        for shard in range(shards):
            part = played(catalog, cycles, shard, shards, frozenset(topics[shard::shards]))
            _refuse(differing(whole, part), f"shard {shard} of {shards}")
    for first in range(0, whole.partitions, PAGE):
        rows = np.arange(whole.partitions)[::-1][first : first + PAGE]
        _refuse(differing(whole, whole.take(rows)), f"a page of {len(rows)} partitions")


def reported(
    catalog: Catalog, cycles: Cycles, shards: int, topics: Sequence[str]
) -> list[list[Frame]]:
    """What the shards report to the cluster's own after each cycle, in the order of shards."""
    cluster = cycles[0][0][0].header.cluster
    states = [ShardState.empty(catalog, cluster, shard, shards) for shard in range(shards)]
    by_cycle = []
    for frames, now_ms in cycles:
        for shard, state in enumerate(states):
            names = frozenset(topics[shard::shards])
            mine = [_of_shard(f, shard, shards, names) for f in frames]
            states[shard], _ = step(state, [f for f in mine if f.header.kind not in KINDS], now_ms)
        by_cycle.append([frame for state in states for frame in reports(state)])
    return by_cycle


def played(
    catalog: Catalog, cycles: Cycles, shard: int, shards: int, topics: frozenset[str]
) -> ShardState:
    """The state of a shard with those topics after all cycles."""
    cluster = cycles[0][0][0].header.cluster
    state: ShardState = ShardState.empty(catalog, cluster, shard, shards)
    store: SegmentStore = {}
    for frames, now_ms in cycles:
        mine = [_of_shard(frame, shard, shards, topics) for frame in frames]
        state, _ = step(state, [f for f in mine if f.header.kind not in KINDS], now_ms)
        remote = [f for f in mine if f.header.kind in KINDS]
        state, store, _ = step_segments(state, store, remote)
    return state


def differing(whole: ShardState, part: ShardState) -> list[str]:
    """Tables and risks in which the part's partitions differ from the same ones of the whole."""
    place = {name: row for row, name in enumerate(names(whole))}
    rows = np.array([place[name] for name in names(part)], np.intp)
    found = [
        table.kind
        for table in (*part.catalog.stored, *part.catalog.on_demand)
        if table not in (RiskConditions, RiskStates, OpenRisks)
        and not _same(table, whole[table], rows, part[table])
    ]
    bits = whole[RiskConditions].bits[rows] ^ part[RiskConditions].bits
    differ = int(np.bitwise_or.reduce(bits, initial=0))
    return found + [
        f"risk {name}" for i, name in enumerate(part.catalog.risk_names) if differ >> i & 1
    ]


def names(state: ShardState) -> list[tuple[str, int]]:
    """[P] topic and number of each partition."""
    numbers = state[PartitionIndex].partition.tolist()
    return list(zip(state.topic_names().tolist(), numbers, strict=True))


def _refuse(names: Sequence[str], where: str) -> None:
    if names:
        raise DeclarationError(
            f"{', '.join(names)}: findings about a partition differ between the whole cluster and "
            f"{where}; a rule sees one shard, so it must not sum or compare over partitions"
        )


def _of_shard(frame: Frame, shard: int, shards: int, topics: frozenset[str]) -> Frame:
    rows: Any = frame.rows
    if "topic" in rows.schema.names:
        wanted = pa.array([*topics, CLUSTER_WIDE])
        mask = pc.is_in(pc.cast(rows.column("topic"), pa.string()), value_set=wanted)
        rows = rows.filter(mask)
    elif frame.header.kind == LogDirsFrame.kind and shard != 0:
        rows = rows.slice(0, 0)  # one shard has the directories of all brokers
    return Frame(replace(frame.header, shard=shard, shards=shards), rows)


def _same(table: type[Table], whole: Any, rows: Any, part: Any) -> bool:
    if issubclass(table, PartitionTable | ReplicaTable):
        return all(map(_equal, whole.take(rows).values(), part.values()))
    if issubclass(table, SparseTable):
        return list(_sparse(whole, rows)) == list(_sparse(part, np.arange(len(rows))))
    assert issubclass(table, KeyedTable)
    return True  # of brokers, groups or counts: they add up over shards, or are the same in each


def _equal(one: Any, other: Any) -> bool:
    if one.dtype == object:
        return one.tolist() == other.tolist()
    return one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _sparse(table: Any, rows: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of those partitions, in the order of ``rows``; NaN is NaN."""
    row, *columns = table.values()
    for place, wanted in enumerate(rows.tolist()):
        for at in np.flatnonzero(row == wanted).tolist():
            values = (column[at] for column in columns)
            yield (place, *(repr(value) for value in values))
