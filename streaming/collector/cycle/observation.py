"""The result of one cycle, and its messages for the bus: frames of all shards, with one time.

In each cycle every shard gets all brokers and its complete listing, even if it has no topic: a
partition disappears only by a complete listing. The columns of partitions, replicas and brokers
come from the readings of all sources, and are joined here by the names that the frames declare.
Columns that depend only on the placement are encoded once for each placement. The frames of a shard
go into one message as long as they fit, so that they arrive together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from streaming.bus.arrow import dictionary, fixed, lists, numbers, texts
from streaming.collector.listing import Array, ListedPlacement
from streaming.collector.problem import Problem
from streaming.collector.reading import Readings, Rows
from streaming.collector.wire.connections import Address
from twin.arrays.columns_in_arrow import to_arrow
from twin.declarations.table import Column, Observation, blank
from twin.engine import frames
from twin.engine.frames import Frame, FrameHeader
from twin.tables.observations import BrokersFrame, PartitionsFrame, ProblemsFrame, ReplicasFrame

PROBLEM_SHARD: Final = 0
"""The shard that holds the problems, since a problem is about the cluster or a broker."""

MOST_PROBLEMS: Final = 1_000
"""The maximum. There are few problems, unless each of a hundred brokers refuses all requests."""

MOST_TEXT: Final = 300
"""Characters of a problem's text: 1 000 such texts fit into a frame."""

_KEYS: Final = 3
"""Columns that identify a partition: topic, topic id and number."""


@dataclass(frozen=True, slots=True)
class CycleResult:
    """The result of one cycle: the readings of its sources, and the problems."""

    cluster: str
    shards: int
    observed_at_ms: int
    cycle: int
    placement: ListedPlacement
    readings: Readings
    problems: Sequence[Problem] = ()

    @property
    def brokers(self) -> pa.Table:
        """One row for each broker that is registered, or may be."""
        return _brokers(self.readings)

    @property
    def incomplete(self) -> set[str]:
        """Kinds of frames that lack some existing rows."""
        kinds = {kind for reading in self.readings for kind in reading.incomplete}
        return kinds | ({"problems"} if len(self.problems) > MOST_PROBLEMS else set())

    def addresses(self) -> list[Address]:
        """The address of each broker of the table; empty for a broker that is not listed."""
        rows = self.brokers.select(["broker", "host", "rack"]).to_pylist()
        places = [(row["broker"], *row["host"].rpartition(":")[::2], row["rack"]) for row in rows]
        return [Address(b, host, int(port or -1), rack) for b, host, port, rack in places]

    def rows(self, frame: type[Observation]) -> Iterator[pa.Table]:
        """The whole tables that sources have for a frame, of all shards."""
        for shard in range(self.shards):
            for reading in self.readings:
                yield from (rows for kind, rows in reading.tables(shard) if kind is frame)


class ObservationEncoder:
    """Encodes observations as messages; keeps the key columns of the placement."""

    def __init__(self) -> None:
        self._keys: _Keys | None = None

    def encode(self, observation: CycleResult) -> Iterator[tuple[int, bytes]]:
        """Shard and message, in the order they should be sent."""
        placement = observation.placement
        if self._keys is None or self._keys.placement is not placement:
            self._keys = _Keys(placement)
        joined = _JoinedFrames(observation.readings, self._keys)
        brokers, problems = observation.brokers, problems_table(observation.problems)
        incomplete = observation.incomplete
        for shard in range(observation.shards):
            tables: list[Rows] = [(BrokersFrame, brokers)]
            if shard == PROBLEM_SHARD:
                tables.append((ProblemsFrame, problems))
            tables += joined.tables(shard)
            for reading in observation.readings:
                tables += reading.tables(shard)
            encoded: list[bytes] = []
            for frame, rows in tables:
                is_complete = frame.kind not in incomplete
                header = _header(observation, shard, frame.kind, complete=is_complete)
                encoded += frames.encode_parts(Frame(header, rows), kinds={frame.kind: frame})
            for message in frames.batch_messages(encoded):
                yield shard, message


def _header(observation: CycleResult, shard: int, kind: str, *, complete: bool) -> FrameHeader:
    return FrameHeader(
        kind=kind,
        cluster=observation.cluster,
        shard=shard,
        shards=observation.shards,
        observed_at_ms=observation.observed_at_ms,
        cycle=observation.cycle,
        complete=complete,
    )


class _Keys:
    """The columns that identify replicas and partitions, by shard."""

    def __init__(self, placement: ListedPlacement) -> None:
        self.placement = placement
        base = placement.topic_cuts[:-1][_shard_of_rows(placement.partition_cuts)]
        self.topic_index = (placement.topic_of - base).astype(np.int32)  # [P] within the shard
        self.replica_topic_index = self.topic_index[placement.partition_of]
        self.replica_partition = placement.partition[placement.partition_of]

    def columns(self, shard: int, index: Array, partition: Array) -> list[pa.Array]:
        """topic, topic_id and partition of these rows; both dictionaries have equal indices."""
        start, stop = self.placement.topic_cuts[shard], self.placement.topic_cuts[shard + 1]
        return [
            dictionary(index, texts(self.placement.topic[start:stop])),
            dictionary(index, fixed(self.placement.topic_id[start:stop], 16)),
            numbers(partition, pa.int32()),
        ]


def _shard_of_rows(cuts: Array) -> Array:
    return np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))


class _JoinedFrames:
    """Frames whose columns come from several sources. A column without a source is unknown."""

    def __init__(self, readings: Readings, keys: _Keys) -> None:
        self._keys = keys
        self._partitions: dict[str, Array] = {}  # [P], or [N] in lists
        self._replicas: dict[str, Array] = {"broker": keys.placement.broker}  # [N]
        self._answered = np.ones(len(keys.placement.broker), bool)  # [N]
        for reading in readings:
            self._partitions.update(reading.partition_columns)
            self._replicas.update(reading.replica_columns)
            if (answered := reading.answered_replicas) is not None:
                self._answered = answered

    def tables(self, shard: int) -> Iterator[Rows]:
        """The partitions of a shard, and its replicas if there are any."""
        yield PartitionsFrame, self._partitions_of(shard)
        replicas = self._replicas_of(shard)
        if replicas.num_rows:
            yield ReplicasFrame, replicas

    def _partitions_of(self, shard: int) -> pa.Table:
        keys, placement = self._keys, self._keys.placement
        rows = slice(placement.partition_cuts[shard], placement.partition_cuts[shard + 1])
        replicas = slice(placement.replica_cuts[shard], placement.replica_cuts[shard + 1])
        ends = placement.first[rows.start : rows.stop + 1] - replicas.start
        columns = keys.columns(shard, keys.topic_index[rows], placement.partition[rows])
        for column in PartitionsFrame.columns[_KEYS:]:
            values = self._partitions.get(column.name)
            if values is None:
                columns.append(_unknown(column, rows.stop - rows.start))
            elif pa.types.is_list(column.arrow):
                columns.append(lists(ends, values[replicas], column.arrow))
            else:
                columns.append(numbers(values[rows], column.arrow))
        return pa.Table.from_arrays(columns, schema=PartitionsFrame.schema())

    def _replicas_of(self, shard: int) -> pa.Table:
        keys, placement = self._keys, self._keys.placement
        start, stop = placement.replica_cuts[shard], placement.replica_cuts[shard + 1]
        rows: Any = slice(start, stop)
        if not self._answered[rows].all():
            rows = start + np.flatnonzero(self._answered[rows])
        partition = keys.replica_partition[rows]
        columns = keys.columns(shard, keys.replica_topic_index[rows], partition)
        for column in ReplicasFrame.columns[_KEYS:]:
            values = self._replicas.get(column.name)
            if values is None:
                columns.append(_unknown(column, len(partition)))
            else:
                columns.append(numbers(values[rows], column.arrow))
        return pa.Table.from_arrays(columns, schema=ReplicasFrame.schema())


def _unknown(column: Column, count: int) -> pa.Array:
    """A column that no source has read."""
    return to_arrow(column, blank(column, count))


def _brokers(readings: Readings) -> pa.Table:
    """The columns of all sources, in the order of the listing of brokers."""
    columns: defaultdict[str, Mapping[int, Any]] = defaultdict(dict)
    for reading in readings:
        columns.update(reading.broker_columns)
    arrays = []
    for column in BrokersFrame.columns:
        by_broker = columns[column.name]
        values = [by_broker.get(broker, column.fill) for broker in columns["broker"]]
        if pa.types.is_dictionary(column.arrow):
            arrays.append(_named(values))
        else:
            arrays.append(numbers(values, column.arrow))
    return pa.Table.from_arrays(arrays, schema=BrokersFrame.schema())


def problems_table(problems: Sequence[Problem]) -> pa.Table:
    """One row for each problem, up to a limit."""
    sent = problems[:MOST_PROBLEMS]
    columns = [
        _named([problem.source for problem in sent]),
        numbers([problem.broker for problem in sent], pa.int32()),
        _named([problem.error for problem in sent]),
        _named([problem.text[:MOST_TEXT] for problem in sent]),
    ]
    return pa.Table.from_arrays(columns, schema=ProblemsFrame.schema())


def _named(values: Sequence[str]) -> pa.Array:
    """A dictionary-encoded column of strings, since many are the same."""
    entries = sorted(set(values))
    place = {value: number for number, value in enumerate(entries)}
    return dictionary([place[value] for value in values], texts(entries))
