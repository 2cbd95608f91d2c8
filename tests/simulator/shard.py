"""A seeded cluster that emits observations as a collector would: for tests and the bench.

It knows how a Kafka cluster moves (traffic, tiering, retention, lost brokers, joining replicas) and
nothing of how the twin judges it. The same seed and the same calls give the same frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tests.simulator.tier import NOT_TIERED_RECORDS, Event, SimulatedTier
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Table
from twin.engine.frames import Frame, FrameHeader
from twin.tables.enums import (
    CLUSTER_WIDE,
    NOT_SET,
    GroupState,
    GroupType,
    PendingUpload,
    ReplicaFlags,
    ReplicaSelector,
)
from twin.tables.observations import (
    BrokersFrame,
    ConfigsFrame,
    EpochsFrame,
    FetchesFrame,
    GroupOffsetsFrame,
    GroupsFrame,
    PartitionsFrame,
    ReplicasFrame,
    SegmentsFrame,
)

RECORD_BYTES: Final = 1_000
MS_PER_RECORD: Final = 10
CONFIG_EVERY_CYCLES: Final = 12
FETCH_WAIT_MS: Final = 500


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of the simulated shard: its size, and what it observes."""

    topics: int = 4
    partitions: int = 8  # of each topic
    replication: int = 3
    brokers: int = 6
    racks: int = 3
    min_isr: int = 2
    eligible_ms: int = 600_000
    written_share: float = 1.0  # partitions that a cycle of traffic writes
    cold_share: float = 0.05  # replicas that joined lately and hold little
    fetches: bool = False  # report the last fetch of each follower in each cycle
    tier: bool = False  # report remote segments and leader epochs in each cycle
    groups: int = 0  # groups of consumers
    readers: int = 0  # groups that read each partition; all if 0
    behind_every: int = 4  # of so many partitions of a group it is behind in three


def _none() -> Array:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class _Truth:
    """The state of the simulated partitions: a row a partition, a column a replica."""

    topic: Array = field(default_factory=_none)  # [P]: index in SimulatedShard.topics
    partition: Array = field(default_factory=_none)
    leader: Array = field(default_factory=_none)
    epoch: Array = field(default_factory=_none)
    broker: Array = field(default_factory=_none)  # [P, R]
    isr: Array = field(default_factory=_none)
    end: Array = field(default_factory=_none)
    local: Array = field(default_factory=_none)

    def followed_by(self, other: _Truth) -> _Truth:
        """These partitions and the other's below them."""
        if not len(self.topic):
            return other
        return self._each(lambda name: np.concatenate([getattr(self, name), getattr(other, name)]))

    def where(self, mask: Array) -> _Truth:
        """The partitions of that ``[P]`` mask."""
        return self._each(lambda name: getattr(self, name)[mask])

    def _each(self, column: Callable[[str], Array]) -> _Truth:
        return _Truth(**{one.name: column(one.name) for one in fields(self)})


class SimulatedShard:
    """One shard of a cluster. Methods change the truth; ``observe`` reports it."""

    def __init__(
        self, shape: Shape = Shape(), seed: int = 0, cluster: str = "sim", shard: int = 0,
        shards: int = 1,
    ) -> None:  # fmt: skip
        self.shape, self.cluster, self.shard, self.shards = shape, cluster, shard, shards
        self._random = np.random.default_rng((seed, shard))
        self._born = 0
        self._remote = SimulatedTier()
        self.cycle = 0
        self.alive = np.ones(shape.brokers + 1, bool)  # by broker id, from 1
        self.answers = np.ones(shape.brokers + 1, bool)
        self.kafka_versions = dict.fromkeys(range(1, shape.brokers + 1), "4.1")
        self.topics: list[tuple[str, bytes]] = []
        self._truth = _Truth()
        for i in range(shape.topics):
            self.create_topic(f"topic-{shard}-{i}")

    # ------------------------------------------------------------ what happens to it

    def create_topic(self, name: str) -> None:
        """A new topic with a new id, replicas spread over the brokers."""
        shape, random = self.shape, self._random
        self._born += 1
        topic_id = (self.shard << 64 | self._born).to_bytes(16, "big")
        self.topics.append((name, topic_id))
        size = (shape.partitions, shape.replication)
        first = random.integers(0, shape.brokers, shape.partitions)
        broker = (first[:, None] + np.arange(shape.replication)) % shape.brokers + 1
        end = np.repeat(random.integers(100_000, 1_000_000, (shape.partitions, 1)), size[1], axis=1)
        cold = random.random(size) < shape.cold_share
        cold[:, 0] = False
        local = np.maximum(end - np.where(cold, 3_000, 90_000), 0)
        created = _Truth(
            topic=np.full(shape.partitions, len(self.topics) - 1),
            partition=np.arange(shape.partitions),
            leader=broker[:, 0].copy(),
            epoch=np.zeros(shape.partitions, np.int64),
            broker=broker,
            isr=np.ones(size, bool),
            end=end,
            local=local,
        )
        self._truth = self._truth.followed_by(created)

    def delete_topic(self, name: str) -> None:
        """Gone, with its partitions."""
        at = [topic for topic, _ in self.topics].index(name)
        self._truth = self._truth.where(self._truth.topic != at)
        self._truth.topic = self._truth.topic - (self._truth.topic > at)
        del self.topics[at]

    def lose(self, broker: int) -> None:
        """The controller fences the broker: out of every ISR that has another, leaders move."""
        self.alive[broker] = self.answers[broker] = False
        self._lead()

    def restore(self, broker: int) -> None:
        """The broker is back and in sync again."""
        self.alive[broker] = self.answers[broker] = True
        self._truth.isr |= self._truth.broker == broker
        self._lead()

    def silence(self, broker: int) -> None:
        """The broker stops answering, and nobody has noticed yet."""
        self.answers[broker] = False

    def upgrade(self, broker: int) -> None:
        """The broker runs the next release of Kafka."""
        self.kafka_versions[broker] = "4.2"

    def move_leader(self, row: int, slot: int) -> None:
        """Another in-sync replica leads."""
        self._truth.leader[row] = self._truth.broker[row, slot]
        self._truth.epoch[row] += 1

    def shrink(self, row: int, slot: int) -> None:
        """A follower leaves the ISR."""
        self._truth.isr[row, slot] = False

    def traffic(self, elapsed_ms: int) -> None:
        """Producers write, the tail is uploaded, old local segments go."""
        written = self._random.poisson(elapsed_ms / MS_PER_RECORD, (len(self._truth.end), 1))
        if self.shape.written_share < 1:
            written *= self._random.random(written.shape) < self.shape.written_share
        truth = self._truth
        follows = truth.isr & self.alive[truth.broker]
        truth.end = truth.end + np.where(follows & (truth.leader > 0)[:, None], written, 0)
        truth.local = np.maximum(truth.local, truth.end - 90_000)

    # ------------------------------------------------------------ what a collector would see

    def observe(self, at_ms: int) -> list[Frame]:
        """All frames of one cycle."""
        self.cycle += 1
        tables = [self._brokers(), self._partitions(), self._replicas(at_ms)]
        if self.cycle % CONFIG_EVERY_CYCLES == 1:
            tables.append(self._configs())
        if self.shape.fetches:
            tables.append(self._fetches(at_ms))
        if self.shape.tier:
            tables += self._tier(at_ms)
        if self.shape.groups:
            tables += self._groups(at_ms)
        return [
            Frame(
                FrameHeader(table.kind, self.cluster, self.shard, self.shards, at_ms, self.cycle),
                rows,
            )
            for table, rows in tables
        ]

    def _header(self, kind: str, at_ms: int) -> FrameHeader:
        return FrameHeader(kind, self.cluster, self.shard, self.shards, at_ms, self.cycle)

    def run(self, cycles: int, start_ms: int, interval_ms: int = 5_000) -> Iterable[list[Frame]]:
        """Cycles with traffic between them and now and then a mishap."""
        for i in range(cycles):
            self.traffic(interval_ms)
            if len(self._truth.leader) and self._random.random() < 0.3:
                self._mishap()
            yield self.observe(start_ms + i * interval_ms)

    def _mishap(self) -> None:
        broker = int(self._random.integers(1, self.shape.brokers + 1))
        row = int(self._random.integers(0, len(self._truth.leader)))
        slot = int(self._random.integers(0, self._truth.broker.shape[1]))
        match int(self._random.integers(0, 4)):
            case 0 if self.alive.sum() > 2:
                self.lose(broker)
            case 1:
                self.restore(broker)
            case 2 if self._truth.broker[row, slot] != self._truth.leader[row]:
                self.shrink(row, slot)
            case 3 if self._truth.isr[row, slot] and self.alive[self._truth.broker[row, slot]]:
                self.move_leader(row, slot)
            case _:
                pass

    def _lead(self) -> None:
        live = self.alive[self._truth.broker]
        # A broker leaves the ISR unless it is the last in it.
        others = (self._truth.isr & live).sum(axis=1)
        self._truth.isr &= live | (others == 0)[:, None]
        able = self._truth.isr & live
        leads = (self._truth.broker == self._truth.leader[:, None]) & able
        first = np.take_along_axis(self._truth.broker, able.argmax(axis=1)[:, None], axis=1)[:, 0]
        leader = np.where(
            leads.any(axis=1), self._truth.leader, np.where(able.any(axis=1), first, NO_BROKER)
        )
        self._truth.epoch = self._truth.epoch + (leader != self._truth.leader)
        self._truth.leader = leader

    def _brokers(self) -> tuple[type[Table], pa.Table]:
        ids = np.arange(1, self.shape.brokers + 1)
        racks = [f"az-{chr(ord('a') + (i - 1) % self.shape.racks)}" for i in ids]
        return BrokersFrame, rows(
            BrokersFrame,
            broker=ids,
            rack=racks,
            host=[f"127.0.0.1:{19_090 + i}" for i in ids],
            fenced=~self.alive[ids],
            listed=np.ones(len(ids), bool),
            kafka_version=[self.kafka_versions[i] for i in ids.tolist()],
            answered=self.answers[ids],
            answered_in_ms=np.where(self.answers[ids], 20, UNKNOWN),
            log_dir_total_bytes=np.full(len(ids), 10**12),
            log_dir_usable_bytes=np.full(len(ids), 5 * 10**11),
            replica_selector=np.full(len(ids), int(ReplicaSelector.RACK_AWARE)),
            follower_last_tiered_fetch=np.full(len(ids), 1),
            lag_time_max_ms=np.full(len(ids), 30_000),
            retention_check_ms=np.full(len(ids), 300_000),
            fetch_wait_max_ms=np.full(len(ids), 500),
        )

    def _partitions(self) -> tuple[type[Table], pa.Table]:
        slot = np.where(self._truth.isr, int(ReplicaFlags.IN_ISR), 0)
        slot = slot | np.where(self.alive[self._truth.broker], 0, int(ReplicaFlags.OFFLINE))
        return PartitionsFrame, rows(
            PartitionsFrame,
            **self._keys(self._truth.topic, self._truth.partition),
            leader=self._truth.leader,
            leader_epoch=self._truth.epoch,
            elr_known=np.ones(len(self._truth.leader), bool),
            replicas=lists(self._truth.broker, pa.int32()),
            replica_flags=lists(slot, pa.uint8()),
        )

    def _replicas(self, at_ms: int) -> tuple[type[Table], pa.Table]:
        answers = self.answers[self._truth.broker]
        row = np.broadcast_to(np.arange(len(self._truth.leader))[:, None], answers.shape)[answers]
        end, local = self._truth.end[answers], self._truth.local[answers]
        tiered = np.maximum(end - NOT_TIERED_RECORDS, 0)
        return ReplicasFrame, rows(
            ReplicasFrame,
            **self._keys(self._truth.topic[row], self._truth.partition[row]),
            broker=self._truth.broker[answers],
            log_start_offset=np.zeros(len(end), np.int64),
            local_log_start_offset=local,
            log_end_offset=end,
            last_tiered_offset=tiered - 1,
            pending_upload_offset=tiered,
            pending_upload=np.full(len(end), int(PendingUpload.KNOWN)),
            local_log_bytes=(end - local) * RECORD_BYTES,
            local_start_timestamp_ms=at_ms - (end - local) * MS_PER_RECORD,
        )

    def _fetches(self, at_ms: int) -> tuple[type[Table], pa.Table]:
        """A frame in which each live follower asked for its log end, and has its answer by now."""
        leader = self._truth.leader[:, None]
        follows = self.alive[self._truth.broker] & (self._truth.broker != leader)
        follows &= leader != NO_BROKER
        row, slot = np.nonzero(follows)
        leads = (self._truth.broker == self._truth.leader[:, None]).argmax(axis=1)
        count = len(row)
        ends = np.where(self._truth.isr, self._truth.end, np.iinfo(np.int64).max)
        committed = np.where(self._truth.isr.any(axis=1), ends.min(axis=1), UNKNOWN)
        return FetchesFrame, rows(
            FetchesFrame,
            **self._keys(self._truth.topic[row], self._truth.partition[row]),
            leader=self._truth.leader[row],
            broker=self._truth.broker[row, slot],
            broker_epoch=np.ones(count, np.int64),
            leader_epoch=self._truth.epoch[row],
            arrived_at_ms=np.full(count, at_ms - FETCH_WAIT_MS),
            completed_at_ms=np.full(count, at_ms),
            queue_ms=np.zeros(count, np.int64),
            local_ms=np.zeros(count, np.int64),
            remote_ms=np.full(count, FETCH_WAIT_MS),
            fetch_offset=self._truth.end[row, slot],
            log_start_offset=np.zeros(count, np.int64),
            leader_end_offset=self._truth.end[row, leads[row]],
            leader_end_estimate_offset=self._truth.end[row, leads[row]],
            high_watermark=committed[row],
        )

    def _tier(self, at_ms: int) -> list[tuple[type[Table], pa.Table]]:
        """Frames of the segments that leaders copied since the last cycle, and of their epochs."""
        leads = (self._truth.broker == self._truth.leader[:, None]).argmax(axis=1)
        events: list[tuple[int, Event]] = []
        epochs: list[tuple[int, int, int]] = []
        for row in np.flatnonzero(self._truth.leader != NO_BROKER).tolist():
            key = self.topics[self._truth.topic[row]][1], int(self._truth.partition[row])
            end = int(self._truth.end[row, leads[row]])
            copied, history = self._remote.cycle(key, int(self._truth.epoch[row]), end)
            events += [(row, event) for event in copied]
            epochs += [(row, *entry) for entry in history]
        return [self._segments(events, at_ms), self._epochs(epochs)]

    def _segments(
        self, row_events: list[tuple[int, Event]], at_ms: int
    ) -> tuple[type[Table], pa.Table]:
        row = np.array([row for row, _ in row_events], np.int64)
        events = [event for _, event in row_events]
        records = [event.end_offset - event.start_offset + 1 for event in events]
        return SegmentsFrame, rows(
            SegmentsFrame,
            **self._keys(self._truth.topic[row], self._truth.partition[row]),
            segment_id=[event.segment.to_bytes(16, "big") for event in events],
            state=[int(event.state) for event in events],
            metadata_offset=[event.metadata_offset for event in events],
            event_at_ms=np.full(len(events), at_ms),
            start_offset=[event.start_offset for event in events],
            end_offset=[event.end_offset for event in events],
            log_bytes=np.array(records, np.int64) * RECORD_BYTES,
            leader_epochs=[[epoch for epoch, _ in event.epochs] for event in events],
            epoch_start_offsets=[[start for _, start in event.epochs] for event in events],
        )

    def _epochs(self, entries: list[tuple[int, int, int]]) -> tuple[type[Table], pa.Table]:
        row, epoch, start = np.array(entries, np.int64).reshape(-1, 3).T
        return EpochsFrame, rows(
            EpochsFrame,
            **self._keys(self._truth.topic[row], self._truth.partition[row]),
            leader_epoch=epoch,
            start_offset=start,
        )

    def _groups(self, at_ms: int) -> list[tuple[type[Table], pa.Table]]:
        """Some keep up, others are far behind or have stopped."""
        truth, groups = self._truth, self.shape.groups
        names = [f"group-{i}" for i in range(groups)]
        count = len(truth.topic)
        readers = self.shape.readers or groups
        row = np.repeat(np.arange(count), readers)
        group = np.arange(count * readers) % groups
        kind = (group + row) % self.shape.behind_every
        behind = np.array([100, 5_000, 85_000, 300_000])[np.where(kind < 4, kind, 0)]
        end = truth.end.max(axis=1, initial=0)[row]
        stopped = kind == 3
        offset = np.maximum(np.where(stopped, 100_000, end) - behind, 0)
        rack = np.array([""] + [f"az-{c}" for c in "abc"])[(group + 2 * row) % 4]
        listed = rows(
            GroupsFrame,
            group=names,
            group_type=np.full(groups, int(GroupType.CLASSIC)),
            group_state=np.full(groups, int(GroupState.STABLE)),
            coordinator=np.full(groups, 1),
            members=np.arange(groups) % 3,
            read_at_ms=np.full(groups, at_ms),
        )
        read = rows(
            GroupOffsetsFrame,
            **self._keys(truth.topic[row], truth.partition[row]),
            group=pa.DictionaryArray.from_arrays(pa.array(group, pa.int32()), names),
            committed_offset=offset,
            read_at_ms=np.full(len(row), at_ms),
            assigned=np.ones(len(row), np.int64),
            rack=rack,
        )
        return [(GroupsFrame, listed), (GroupOffsetsFrame, read)]

    def _configs(self) -> tuple[type[Table], pa.Table]:
        names = [CLUSTER_WIDE, *sorted(topic for topic, _ in self.topics)]
        same: dict[str, int] = {
            "min_insync_replicas": self.shape.min_isr,
            "unclean_leader_election": 0,
            "remote_storage": 1,
            "compacted": 0,
            "tiered_compacted": 0,
            "copies_disabled": 0,
            "diskless": 0,
            "local_retention_ms": 900_000,
            "local_retention_bytes": UNKNOWN,
            "retention_ms": 86_400_000,
            "retention_bytes": UNKNOWN,
            "replica_lag_time_max_ms": 30_000,
            "one_replica_accepted": 0,
            "elr_enabled": 0,
            "unclean_elections": 1,
            "last_tiered_fetch": 1,
            "upload_delay_ms": 0,
            "upload_delay_bytes": 0,
            "segment_ms": 604_800_000,
            "segment_bytes": 1 << 30,
            "min_compaction_lag_ms": 0,
            "min_dirty_percent": 50,
        }
        eligible = np.full(len(names), NOT_SET)
        eligible[0] = self.shape.eligible_ms
        return ConfigsFrame, rows(
            ConfigsFrame,
            topic=names,
            eligible_local_log_ms=eligible,
            **{name: np.full(len(names), value) for name, value in same.items()},
        )

    def _keys(self, topic: Array, partition: Array) -> dict[str, Any]:
        index = pa.array(topic, pa.int32())
        names = pa.array([name for name, _ in self.topics], pa.string())
        ids = pa.array([topic_id for _, topic_id in self.topics], pa.binary(16))
        return {
            "topic": pa.DictionaryArray.from_arrays(index, names),
            "topic_id": pa.DictionaryArray.from_arrays(index, ids),
            "partition": partition,
        }


def rows(table: type[Table], **columns: Any) -> pa.Table:
    """An Arrow table of exactly the kind's schema from arrays or lists; a column that is not given
    has its fill."""
    arrays, count = [], len(next(iter(columns.values())))
    for column in table.columns:
        value = columns[column.name] if column.name in columns else [column.fill] * count
        if not isinstance(value, pa.Array):
            value = pa.array(value)
        if pa.types.is_dictionary(column.arrow) and not pa.types.is_dictionary(value.type):
            value = value.cast(column.arrow.value_type).dictionary_encode()
        arrays.append(value.cast(column.arrow))
    return pa.table(arrays, schema=table.schema())


def lists(matrix: Array, kind: pa.DataType) -> pa.ListArray:
    """[P, S] as a column of lists of S values."""
    offsets = np.arange(len(matrix) + 1, dtype=np.int32) * matrix.shape[-1]
    return pa.ListArray.from_arrays(
        offsets, pa.array(matrix.ravel().astype(kind.to_pandas_dtype()))
    )
