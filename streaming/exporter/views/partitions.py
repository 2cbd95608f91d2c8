"""Partitions and their replicas as plain data for the JSON API.

The catalog declares the fields: the columns of tables with an ``api`` name, and the API fields.
Unknown is null. Every object has the time at which it was observed, and its age.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.views.cluster import observed
from streaming.questions.parameters import (
    DEFAULT_ROWS,
    limit,
    number,
    offset,
    one_of,
    text,
    yes_or_no,
)
from streaming.runtime.kafka.uuids import uuid_text
from twin.arrays import plain
from twin.declarations.table import UNKNOWN, Array, Bool, PartitionTable, ReplicaTable, Rows, Table
from twin.engine.catalog import Catalog
from twin.engine.risks import OpenRisks
from twin.engine.shard_state import ShardState
from twin.questions.whatif import brokers_in
from twin.rules.election.redundancy import Redundancy, Spare
from twin.tables.state import (
    Assignment,
    PartitionIndex,
    Partitions,
    Replicas,
    Topics,
)

ALL_RISKS: Final = -1
"""As a filter: any risk."""

NO_RISK: Final = np.int64(1) << 62
"""For sorting: after every risk."""


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """A selection of partitions."""

    topic: Annotated[str, text("partitions of this topic")] = ""
    partition: Annotated[int, number("partitions of this number")] = UNKNOWN
    search: Annotated[
        str,
        text(
            "partitions whose topic's name contains this, or whose own name (`orders-1`) does, in "
            "upper or lower case"
        ),
    ] = ""
    broker: Annotated[int, number("partitions that have a replica on this broker")] = UNKNOWN
    rack: Annotated[str, text("partitions that have a replica on a broker of this rack")] = ""
    at_risk: Annotated[bool, yes_or_no("partitions that have any risk")] = False
    risk: Annotated[
        int,
        one_of(
            "partitions that have this risk, by its name in the [runbook](runbook.md)",
            lambda catalog: {name: 1 << bit for bit, name in enumerate(catalog.risk_names)},
        ),
    ] = 0
    redundancy: Annotated[
        int,
        one_of(
            "partitions that can do without one replica, or cannot",
            {each.name.lower(): int(each) for each in Spare},
        ),
    ] = UNKNOWN
    sort: Annotated[str, one_of("`worst`: those with the worst risk first", {"worst": "worst"})] = (
        ""
    )
    limit: Annotated[int, limit("partitions")] = DEFAULT_ROWS
    offset: Annotated[int, offset("partitions")] = 0

    @property
    def page(self) -> slice:
        """Which of the matching rows are shown."""
        return slice(self.offset, self.offset + self.limit)

    @property
    def risks(self) -> int:
        """The bits of risks of which a partition must have one; 0 if it need not."""
        return self.risk or (ALL_RISKS if self.at_risk else 0)

    def matching(self, state: ShardState) -> Rows:
        """[N] the matching rows of a shard."""
        index = state[PartitionIndex]
        matches = np.ones(state.partitions, bool)
        if self.topic:
            matches &= (state[Topics].topic == self.topic)[index.topic_index]
        if self.partition != UNKNOWN:
            matches &= index.partition == self.partition
        if self.search:
            matches &= _named_like(state, self.search)
        if self.broker != UNKNOWN:
            matches &= _has_replica_on(state, [self.broker])
        if self.rack:
            matches &= _has_replica_on(state, brokers_in(state, [self.rack]))
        if self.redundancy != UNKNOWN:
            matches &= state[Redundancy].redundancy == self.redundancy
        if self.risks:
            matches &= (state[OpenRisks].bits & self.risks) != 0
        return np.flatnonzero(matches)


def _named_like(state: ShardState, text: str) -> Bool:
    """[P] whether the name of the topic or of the partition (``orders-1``) contains the text."""
    text, index = text.lower(), state[PartitionIndex]
    topics = [name.lower() for name in state[Topics].topic.tolist()]
    matches = np.array([text in name for name in topics], bool)[index.topic_index]
    topic, dash, number = text.rpartition("-")
    if dash and number.isascii() and number.isdecimal():
        # "orders-1" is the beginning of orders-1, orders-10, orders-11 and so on.
        ends = np.array([name.endswith(topic) for name in topics], bool)[index.topic_index]
        numbered = [str(each).startswith(number) for each in index.partition[ends].tolist()]
        matches[np.flatnonzero(ends)[numbered]] = True
    return matches


def _has_replica_on(state: ShardState, brokers: Sequence[int]) -> Bool:
    """[P] whether one of the assigned replicas is on one of those brokers."""
    assigned = np.arange(state.slots) < state[Partitions].assigned[:, None]
    has_replica = np.zeros(state.partitions, bool)
    has_replica |= (np.isin(state[Assignment].broker, brokers) & assigned).any(axis=1)
    return has_replica


def partitions(view: ClusterView, selection: PartitionFilter, now_ms: int) -> dict[str, Any]:
    """A page of the matching partitions, and the number of all matching ones.

    They are in the order of shard, topic and number. With a filter or sort order by risk, the worst
    risk comes first.
    """
    states = view.states
    matching = [selection.matching(state) for state in states]
    ranks: list[Array] = [np.zeros(len(rows)) for rows in matching]
    if selection.risks or selection.sort:
        ranks = [
            _worst(state[OpenRisks].bits[r]) for state, r in zip(states, matching, strict=True)
        ]
    return paged(
        "partitions", states, matching, ranks, selection.page,
        lambda state, rows: partition_objects(state, rows, now_ms),
    )  # fmt: skip


def _worst(risks: Array) -> Array:
    """The lowest bit is the risk that a person would act on first."""
    return np.where(risks == 0, NO_RISK, risks & -risks)


def paged(
    name: str, states: Sequence[ShardState], matching: Sequence[Rows], ranks: Sequence[Array],
    page: slice, objects: Callable[[ShardState, Rows], list[dict[str, Any]]],
) -> dict[str, Any]:  # fmt: skip
    """The number of all matching rows, and objects of those of a page.

    Args:
        name: of the list.
        states: the shards.
        matching: the matching rows of each.
        ranks: of these rows; the lowest comes first, of equal ones the first shard and row.
        page: which of them.
        objects: those of some rows of a shard.
    """
    total = sum(map(len, matching))
    if not total:
        return {"total": 0, name: []}
    row = np.concatenate(matching)
    shard = np.repeat(np.arange(len(states)), [len(rows) for rows in matching])
    order = np.argsort(np.concatenate(ranks), kind="stable")
    shown = order[page]
    by_place: dict[int, dict[str, Any]] = {}
    for which in np.unique(shard[shown]).tolist():
        here = shown[shard[shown] == which]
        by_place |= zip(here.tolist(), objects(states[which], row[here]), strict=True)
    return {"total": total, name: [by_place[place] for place in shown.tolist()]}


def partition_objects(state: ShardState, rows: Rows, now_ms: int) -> list[dict[str, Any]]:
    """The objects of those rows. Tables on demand are computed for these rows only."""
    if not len(rows):
        return []
    page = state.take(rows)
    index, described_at_ms = page[PartitionIndex], page[Partitions].described_at_ms
    ids = page[Topics].topic_id[index.topic_index]
    objects: list[dict[str, Any]] = [
        {"topic": topic, "topic_id": uuid_text(topic_id), "partition": number}
        for topic, topic_id, number in zip(
            page.topic_names().tolist(), ids.tolist(), index.partition.tolist(), strict=True
        )
    ]
    for table in api_tables(page.catalog, PartitionTable):
        _add(objects, table.api or "", _columns(page[table]))
    names = page.catalog.risk_names
    for partition, bits in zip(objects, page[OpenRisks].bits.tolist(), strict=True):
        partition["risks"] = [name for number, name in enumerate(names) if bits >> number & 1]
    for field in page.catalog.api_fields:
        for partition, value in zip(objects, page.call(field.values, field.reads), strict=True):
            partition[field.name] = value
    for row, (partition, replicas) in enumerate(zip(objects, _replicas(page, now_ms), strict=True)):
        if described_at_ms[row] == UNKNOWN:
            partition["leader"] = None  # -1 would mean that there is none
        partition["replicas"] = replicas
        partition |= observed(int(described_at_ms[row]), now_ms)
    return objects


def api_tables(catalog: Catalog, kind: type[Table]) -> list[type[Any]]:
    """The tables of that kind that have columns in the API."""
    tables = (*catalog.stored, *catalog.on_demand)
    return [table for table in tables if issubclass(table, kind) and table.api is not None]


def _columns(table: PartitionTable | ReplicaTable, at: Any = slice(None)) -> dict[str, list[Any]]:
    """The fields of a table for those rows or replicas; each flag is a separate field."""
    fields: dict[str, list[Any]] = {}
    for c in table.columns:
        if c.in_api:
            values = getattr(table, c.name)[at]
            fields |= plain.flag_values(c, values) or {c.name: plain.column_values(c, values)}
    return fields


def _add(objects: list[dict[str, Any]], name: str, columns: dict[str, list[Any]]) -> None:
    """Add the columns as fields of the objects; a name a.b is a field b of the nested object a."""
    path = name.split(".") if name else ()
    for row, target in enumerate(objects):
        place = target
        for part in path:
            place = place.setdefault(part, {})
        for column, values in columns.items():
            place[column] = values[row]


def _replicas(page: ShardState, now_ms: int) -> list[list[dict[str, Any]]]:
    """The assigned replicas of each row, in assignment order."""
    row, slot = np.nonzero(np.arange(page.slots) < page[Partitions].assigned[:, None])
    brokers = page[Assignment].broker[row, slot].tolist()
    objects: list[dict[str, Any]] = [{"broker": broker} for broker in brokers]
    for table in api_tables(page.catalog, ReplicaTable):
        _add(objects, table.api or "", _columns(page[table], (row, slot)))
    sampled_at_ms = page[Replicas].sampled_at_ms[row, slot].tolist()
    dated = (
        each | observed(at_ms, now_ms) for each, at_ms in zip(objects, sampled_at_ms, strict=True)
    )
    return plain.by_partition(row, dated, page.partitions)
