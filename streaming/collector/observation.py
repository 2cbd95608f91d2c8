"""The result of one cycle, and its messages for the bus: frames of every shard with one stamp.

Every shard gets all brokers and its complete listing in each cycle, even if it has no topic: only a
complete listing makes a partition disappear. Columns that depend on the placement are kept with it.
The frames of a shard go into one message as long as they fit, so that they arrive together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from streaming.bus.arrow import dictionary, fixed, lists, numbers, texts
from streaming.collector.brokers import Address, BrokerResponse
from streaming.collector.epochs import EpochHistory
from streaming.collector.group_frames import GroupFrames
from streaming.collector.group_round import GroupRound
from streaming.collector.listing import Array, Listing, Placement
from streaming.collector.log_dirs import DiskSpace, LogDirSizes
from streaming.collector.metadata import RegisteredBroker
from streaming.collector.offsets import ReplicaOffsets
from streaming.collector.problem import Problem
from twin import frames
from twin.frames import Frame, FrameHeader
from twin.table import UNKNOWN
from twin.tables.columns import BROKER_CONFIGS
from twin.tables.observations import (
    BrokersFrame,
    EpochsFrame,
    PartitionsFrame,
    ProblemsFrame,
    ReplicasFrame,
)

_MOST_EPOCHS: Final = 20_000
"""Rows of a frame of histories: half of what a message may hold."""

QUORUM_SHARD: Final = 0
"""The shard that holds the controller quorum: no rule of the others reads it."""

PROBLEM_SHARD: Final = 0
"""The shard that holds the problems: each is about the cluster, or about a broker."""

MOST_PROBLEMS: Final = 1_000
"""More are left out; they are few, unless each of a hundred brokers refuses all that is asked."""

MOST_TEXT: Final = 300
"""Characters of a problem's text: 1 000 such texts fit into a frame."""

_SCHEMA = PartitionsFrame.schema()
_REPLICAS_SCHEMA = ReplicasFrame.schema()


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of one cycle."""

    cluster: str
    shards: int
    observed_at_ms: int
    cycle: int
    brokers: pa.Table
    brokers_complete: bool  # a broker that is not in the table is not registered
    listing: Listing
    elr_known: Array  # [P]
    offsets: ReplicaOffsets  # [N]
    last_stable_offset: Array  # [N]
    local_log_bytes: Array  # [N]
    local_start_timestamp_ms: Array  # [N]
    configs: Mapping[int, pa.Table]  # by shard, where something was read
    quorum: pa.Table | None = None  # voters of the controller quorum, if they are known
    metrics: pa.Table | None = None  # of the brokers, if there are new ones
    groups: GroupRound | None = None  # if there is a new round
    histories: Sequence[EpochHistory] = ()  # those that became known in this cycle
    problems: Sequence[Problem] = ()  # what is missing from it, and why

    def addresses(self) -> list[Address]:
        """The address of each broker of the table; of one that is not listed it is empty."""
        rows = self.brokers.select(["broker", "host", "rack"]).to_pylist()
        places = [(row["broker"], *row["host"].rpartition(":")[::2], row["rack"]) for row in rows]
        return [Address(b, host, int(port or -1), rack) for b, host, port, rack in places]


class ObservationEncoder:
    """Encodes observations as messages; keeps the key columns of the placement."""

    def __init__(self) -> None:
        self._keys: _Keys | None = None

    def encode(self, observation: Observation) -> Iterator[tuple[int, bytes]]:
        """Shard and message, in the order they should be sent."""
        placement = observation.listing.placement
        if self._keys is None or self._keys.placement is not placement:
            self._keys = _Keys(placement)
        groups = None if observation.groups is None else GroupFrames(observation.groups, placement)
        for shard in range(observation.shards):
            tables = {"brokers": observation.brokers}
            if shard == QUORUM_SHARD and observation.quorum is not None:
                tables["controller_quorum"] = observation.quorum
            if shard == PROBLEM_SHARD:
                tables["problems"] = problems_table(observation.problems)
            if shard in observation.configs:
                tables["configs"] = observation.configs[shard]
            if observation.metrics is not None:
                tables["broker_metrics"] = observation.metrics
            tables["partitions"] = _partitions(observation, self._keys, shard)
            replicas = _replicas(observation, self._keys, shard)
            if replicas.num_rows:
                tables["replicas"] = replicas
            if groups is not None:
                tables |= groups.tables(shard)
            encoded: list[bytes] = []
            for kind, rows in tables.items():
                encoded += frames.encode_parts(Frame(_header(observation, shard, kind), rows))
            # A frame has the whole history of each partition that it names.
            for rows in _histories(observation, shard):
                encoded.append(frames.encode(Frame(_header(observation, shard, "epochs"), rows)))
            for message in frames.batch_messages(encoded):
                yield shard, message


def _header(observation: Observation, shard: int, kind: str) -> FrameHeader:
    return FrameHeader(
        kind=kind,
        cluster=observation.cluster,
        shard=shard,
        shards=observation.shards,
        observed_at_ms=observation.observed_at_ms,
        cycle=observation.cycle,
        complete={
            "brokers": observation.brokers_complete,
            "partitions": observation.listing.complete,
            "groups": observation.groups is not None and observation.groups.complete,
            "problems": len(observation.problems) <= MOST_PROBLEMS,
        }.get(kind, True),
    )


def _histories(observation: Observation, shard: int) -> Iterator[pa.Table]:
    """The rows of ``epochs`` of a shard, in tables that surely fit into a frame."""
    placement = observation.listing.placement
    first, stop = placement.partition_cuts[shard], placement.partition_cuts[shard + 1]
    mine = [h for h in observation.histories if first <= h.row < stop]
    batch: list[EpochHistory] = []
    for history in mine:
        if batch and sum(len(h.epochs) for h in batch) + len(history.epochs) > _MOST_EPOCHS:
            yield _epochs(placement, batch)
            batch = []
        batch.append(history)
    if batch:
        yield _epochs(placement, batch)


def _epochs(placement: Placement, histories: Sequence[EpochHistory]) -> pa.Table:
    row = np.repeat([h.row for h in histories], [len(h.epochs) for h in histories])
    topics, index = np.unique(placement.topic_of[row], return_inverse=True)
    epochs = [entry for h in histories for entry in h.epochs]
    columns = {
        "topic": dictionary(index, texts([placement.topic[t] for t in topics])),
        "topic_id": dictionary(index, fixed([placement.topic_id[t] for t in topics], 16)),
        "partition": numbers(placement.partition[row], pa.int32()),
        "leader_epoch": numbers([e for e, _ in epochs], pa.int32()),
        "start_offset": numbers([o for _, o in epochs], pa.int64()),
    }
    return pa.table(columns, schema=EpochsFrame.schema())


class _Keys:
    """The columns that identify a replica or partition, by shard."""

    def __init__(self, placement: Placement) -> None:
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


def _partitions(observation: Observation, keys: _Keys, shard: int) -> pa.Table:
    listing, placement = observation.listing, keys.placement
    rows = slice(placement.partition_cuts[shard], placement.partition_cuts[shard + 1])
    replicas = slice(placement.replica_cuts[shard], placement.replica_cuts[shard + 1])
    ends = placement.first[rows.start : rows.stop + 1] - replicas.start
    columns = [
        *keys.columns(shard, keys.topic_index[rows], placement.partition[rows]),
        numbers(listing.leader[rows], pa.int32()),
        numbers(listing.leader_epoch[rows], pa.int32()),
        numbers(observation.elr_known[rows], pa.bool_()),
        lists(ends, placement.broker[replicas], _SCHEMA.field("replicas").type),
        lists(ends, listing.replica_flags[replicas], _SCHEMA.field("replica_flags").type),
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _replicas(observation: Observation, keys: _Keys, shard: int) -> pa.Table:
    placement, offsets = keys.placement, observation.offsets
    start, stop = placement.replica_cuts[shard], placement.replica_cuts[shard + 1]
    rows: Any = slice(start, stop)
    if not offsets.answered[rows].all():
        rows = start + np.flatnonzero(offsets.answered[rows])
    replica_columns = (
        placement.broker,
        offsets.log_start,
        offsets.local_start,
        offsets.log_end,
        offsets.last_tiered,
        offsets.pending_upload,
        offsets.pending_upload_is,
        offsets.pending_upload_epoch,
        observation.last_stable_offset,
        observation.local_log_bytes,
        observation.local_start_timestamp_ms,
        offsets.error_code,
    )
    columns = [
        *keys.columns(shard, keys.replica_topic_index[rows], keys.replica_partition[rows]),
        *(
            numbers(values[rows], column.arrow)
            for values, column in zip(replica_columns, ReplicasFrame.columns[3:], strict=True)
        ),
    ]
    return pa.Table.from_arrays(columns, schema=_REPLICAS_SCHEMA)


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
    """A column of strings, many of them the same."""
    entries = sorted(set(values))
    place = {value: number for number, value in enumerate(entries)}
    return dictionary([place[value] for value in values], texts(entries))


def brokers_table(
    registered: Sequence[RegisteredBroker],
    responses: Mapping[int, BrokerResponse],
    sizes: LogDirSizes,
    configs: Mapping[int, Mapping[str, int]],
) -> pa.Table:
    """One row for each broker that is registered, or may be."""
    own = [configs.get(r.address.broker, {}) for r in registered]
    space = [sizes.disk_space.get(r.address.broker, DiskSpace()) for r in registered]
    answers = [responses.get(r.address.broker) for r in registered]
    columns: dict[str, list[Any]] = {
        "broker": [r.address.broker for r in registered],
        "rack": [r.address.rack for r in registered],
        "host": [
            f"{r.address.host}:{r.address.port}" if r.address.host else "" for r in registered
        ],
        "fenced": [r.fenced for r in registered],
        "listed": [r.listed for r in registered],
        "answered": [a is not None and a.answered for a in answers],
        "answered_in_ms": [UNKNOWN if a is None else a.after_ms for a in answers],
        "log_dir_total_bytes": [v.total_bytes for v in space],
        "log_dir_usable_bytes": [v.usable_bytes for v in space],
        **{name: [values.get(name, UNKNOWN) for values in own] for name in BROKER_CONFIGS},
    }
    arrays = []
    for column in BrokersFrame.columns:
        values = columns[column.name]
        if pa.types.is_dictionary(column.arrow):
            arrays.append(_named(values))
        else:
            arrays.append(numbers(values, column.arrow))
    return pa.Table.from_arrays(arrays, schema=BrokersFrame.schema())
