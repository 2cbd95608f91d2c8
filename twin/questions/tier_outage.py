"""What is out of reach of a shard's readers and replicas while remote storage is away.

What disks take meanwhile is another question: ``twin.cluster_rules.disks`` foretells it for the
whole cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

import numpy as np

from twin.arrays.slots import in_slots, over_slots
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Float64, Int32, Int64
from twin.engine.shard_state import ShardState
from twin.questions.adds_up import AddsUp, same
from twin.questions.whatif import Loss
from twin.questions.whatif_groups import hurt_by_loss
from twin.rules.election.next_leader import NextLeaders
from twin.rules.groups.moves import GroupMoves
from twin.rules.groups.reads import GroupReads, ReadsFrom
from twin.rules.groups.usage import is_in_use
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.upload import UploadLag, open_bytes
from twin.tables.state import (
    Assignment,
    Configs,
    GroupOffsets,
    Groups,
    PartitionIndex,
    Partitions,
    Replicas,
    Topics,
)

_FAR: Final = np.int64(1) << 62


@dataclass(frozen=True, slots=True)
class Offsets(AddsUp):
    """Offsets of some partitions; bytes are of records of known size."""

    partitions: int
    records: int
    bytes: int


NO_OFFSETS: Final = Offsets(0, 0, 0)


@dataclass(frozen=True, slots=True)
class OffsetsOnNoDisk:
    """Offsets of a partition, from the first one to before the end."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    bytes: int


MOST_RANGES: Final = 20


Ranges = tuple[OffsetsOnNoDisk, ...]


def largest(one: Ranges, other: Ranges) -> Ranges:
    """The largest of both, by bytes and then by records."""
    return tuple(sorted((*one, *other), key=_largest_first)[:MOST_RANGES])


def _largest_first(of: OffsetsOnNoDisk) -> tuple[int, int, str, int]:
    return -of.bytes, of.first_offset - of.end_offset, of.topic, of.partition


@dataclass(frozen=True, slots=True)
class TopicOnDisk(AddsUp):
    """What the replicas of a tiered topic write to all disks, and keep there though uploaded.

    Its local retention is -1 without a limit, and -2 if unknown.
    """

    written_bytes_per_s: float
    uploaded_bytes: int
    local_retention_ms: Annotated[int, same]
    local_retention_bytes: Annotated[int, same]


@dataclass(frozen=True, slots=True)
class Exposure(AddsUp):
    """What is out of reach while remote storage is away.

    By the name of a group: partitions of which it cannot read its next records.
    """

    tiered_partitions: int = 0
    unknown_partitions: int = 0  # whether they are tiered, or what is uploaded, is unknown
    on_no_disk: Offsets = NO_OFFSETS  # offsets that only remote storage has
    ranges_on_no_disk: Annotated[Ranges, largest] = ()  # the largest of them
    groups: Mapping[str, Offsets] = field(default_factory=dict)  # that read remotely
    groups_after_loss: Mapping[str, Offsets] = field(default_factory=dict)  # more of them by a loss
    cannot_start: int = 0  # followers that need what remote storage has of leader epochs
    no_new_replica: int = 0  # partitions of which an empty follower cannot start
    after_leader_change: Offsets = NO_OFFSETS  # on the leader's disk, and not on the next leader's
    groups_after_leader_change: Mapping[str, Offsets] = field(default_factory=dict)
    waiting_bytes: Mapping[int, float] = field(default_factory=dict)  # by leader
    open_bytes: Mapping[int, float] = field(default_factory=dict)  # of those, in open segments
    written_bytes_per_s: Mapping[int, float] = field(default_factory=dict)  # to upload, by leader
    topics: Mapping[str, TopicOnDisk] = field(default_factory=dict)


def exposure(state: ShardState, lost: Collection[int] = (), loss: Loss | None = None) -> Exposure:
    """What is out of reach in the shard while remote storage is away.

    Sums of bytes are of partitions whose records have a known size.

    Args:
        state: the shard as it is.
        lost: brokers that are lost as well.
        loss: the loss of these brokers; None if nobody is lost.
    """
    configs, leaders, roles = state[TopicConfigs], state[Leaders], state[Roles]
    assignment, replicas = state[Assignment], state[Replicas]
    is_tiered = (configs.remote_storage == 1) & (leaders.log_start_offset != UNKNOWN)
    is_lost = np.isin(assignment.broker, list(lost))
    live = roles.is_assigned & ~roles.is_offline & ~is_lost
    size = np.nan_to_num(state[RecordSizes].bytes_per_record)
    local_start = replicas.local_log_start_offset
    on_disk = np.where(live & (local_start != UNKNOWN), local_start, _FAR)
    first_on_disk = over_slots(np.minimum, on_disk)
    only_remote = np.where(first_on_disk < _FAR, first_on_disk - leaders.log_start_offset, 0)
    only_remote = np.where(is_tiered, np.maximum(only_remote, 0), 0)
    leader = state[Partitions].leader
    if loss is not None:
        leader = leader.copy()
        leader[loss.row] = loss.kafka.leader
    cold, cold_groups = _after_leader_change(state, is_tiered, leader, size)
    starts_late = is_tiered & (leaders.local_log_start_offset > leaders.log_start_offset)
    lacks = replicas.log_end_offset < leaders.local_log_start_offset[:, None]
    behind = live & ~roles.in_isr & starts_late[:, None] & lacks
    uploads, lag = is_tiered & (configs.copies_disabled != 1), state[UploadLag]
    written = np.maximum(state[Growth].appended_records_per_s, 0) * size
    return Exposure(
        tiered_partitions=int(is_tiered.sum()),
        unknown_partitions=int(
            (configs.remote_storage == UNKNOWN).sum()
            + (uploads & (lag.upload_lag_records == UNKNOWN)).sum()
        ),
        on_no_disk=_range(only_remote, size),
        ranges_on_no_disk=_ranges(state, leaders.log_start_offset, only_remote, size),
        groups=_reading_remotely(state),
        groups_after_loss=_by_loss(state, lost, loss),
        cannot_start=int(behind.sum()),
        no_new_replica=int(starts_late.sum()),
        after_leader_change=cold,
        groups_after_leader_change=cold_groups,
        waiting_bytes=_by_broker(leader, np.nan_to_num(lag.upload_lag_bytes), uploads),
        open_bytes=_by_broker(leader, np.nan_to_num(open_bytes(lag, configs)), uploads),
        written_bytes_per_s=_by_broker(leader, written, uploads),
        topics=_topics(state, uploads, live, written, lag),
    )


def _range(records: Int64, size: Float64) -> Offsets:
    """The sums over those records [P] of partitions."""
    return Offsets(int((records > 0).sum()), int(records.sum()), int((records * size).sum()))


def _ranges(state: ShardState, first: Int64, records: Int64, size: Float64) -> Ranges:
    """The largest ranges of those records [P] of partitions, from those offsets [P] on."""
    row = np.flatnonzero(records > 0)
    amount = records[row] * size[row]
    row = row[np.lexsort((-records[row], -amount))[:MOST_RANGES]]
    index, topics = state[PartitionIndex], state[Topics].topic
    columns = (
        topics[index.topic_index[row]], index.partition[row], first[row],
        first[row] + records[row], (records[row] * size[row]).astype(np.int64),
    )  # fmt: skip
    each = zip(*(values.tolist() for values in columns), strict=True)
    return tuple(OffsetsOnNoDisk(str(topic), *of) for topic, *of in each)


def _reading_remotely(state: ShardState) -> dict[str, Offsets]:
    """The groups in use whose next records come from remote storage."""
    offsets, reads = state[GroupOffsets], state[GroupReads]
    if not len(offsets):
        return {}
    row = np.flatnonzero((reads.reads_from == ReadsFrom.REMOTE) & _in_use(state))
    return _by_group(state, row, np.maximum(reads.remote_records[row], 0))


def _by_loss(state: ShardState, lost: Collection[int], loss: Loss | None) -> dict[str, Offsets]:
    """The groups that would read more remotely by the loss."""
    if loss is None:
        return {}
    harms = hurt_by_loss(state, lost, loss)
    return {
        each.group: Offsets(each.remote, each.remote_records, each.remote_bytes)
        for each in harms
        if each.remote
    }


def _after_leader_change(
    state: ShardState, is_tiered: Bool, leader: Int32, size: Float64
) -> tuple[Offsets, dict[str, Offsets]]:
    """What leaders have on disk and the next leaders have not, and who reads that next."""
    broker, following = state[Assignment].broker, state[NextLeaders].leader
    starts = state[Replicas].local_log_start_offset

    def start_of(who: Int32) -> Int64:
        """[P] the first offset on the disk of that replica; UNKNOWN of nobody."""
        mine = (broker == in_slots(who, broker.shape[1])) & (who != NO_BROKER)[:, None]
        return over_slots(np.maximum, np.where(mine, starts, UNKNOWN))

    now, then = start_of(leader), start_of(following)
    is_known = is_tiered & (now != UNKNOWN) & (then != UNKNOWN) & (following != leader)
    lost = np.where(is_known, np.maximum(then - now, 0), 0)
    offsets = state[GroupOffsets]
    if not len(offsets):
        return _range(lost, size), {}
    at, committed = offsets.row.astype(np.intp), offsets.committed_offset
    hit = (lost[at] > 0) & (committed >= now[at]) & (committed < then[at])
    row = np.flatnonzero(hit & _in_use(state))
    return _range(lost, size), _by_group(state, row, then[at[row]] - committed[row])


def _in_use(state: ShardState) -> Bool:
    """[N] the group reads the partition, in the order of ``group_offsets``."""
    moves = state[GroupMoves]
    return is_in_use(
        state[GroupOffsets], state[Groups], moves.was_assigned, moves.moved_at_ms, state[Configs],
        state.observed_at_ms,
    )  # fmt: skip


def _by_group(state: ShardState, row: Array, records: Int64) -> dict[str, Offsets]:
    """The sums of those rows of ``group_offsets`` by group."""
    if not len(row):
        return {}
    offsets, names = state[GroupOffsets], state[Groups].group
    size = np.nan_to_num(state[RecordSizes].bytes_per_record)[offsets.row[row]]
    group, at = np.unique(offsets.group_index[row], return_inverse=True)
    counts = np.bincount(at)
    sums = np.bincount(at, records).astype(np.int64)
    in_bytes = np.bincount(at, records * size).astype(np.int64)
    of_group = zip(counts.tolist(), sums.tolist(), in_bytes.tolist(), strict=True)
    return {
        str(name): Offsets(*each)
        for name, each in zip(names[group].tolist(), of_group, strict=True)
    }


def _by_broker(leader: Int32, values: Float64, counts: Bool) -> dict[int, float]:
    """The sums of partitions that count, by leader."""
    counts = counts & (leader != NO_BROKER)
    broker, at = np.unique(leader[counts], return_inverse=True)
    sums = np.bincount(at, values[counts], len(broker)).tolist()
    return dict(zip(broker.tolist(), sums, strict=True))


def _topics(
    state: ShardState, uploads: Bool, live: Bool, written: Float64, lag: UploadLag
) -> dict[str, TopicOnDisk]:
    """The topics that are uploaded."""
    row = np.flatnonzero(uploads)
    if not len(row):
        return {}
    index, names = state[PartitionIndex].topic_index[row], state[Topics].topic
    held = np.where(live[row], np.maximum(state[Replicas].local_log_bytes[row], 0), 0)
    waits = np.nan_to_num(lag.upload_lag_bytes[row])[:, None]
    uploaded = np.maximum(held - np.where(live[row], waits, 0), 0).sum(axis=1)
    topic, at = np.unique(index, return_inverse=True)
    per_s = np.bincount(at, written[row] * live[row].sum(axis=1))
    kept = np.bincount(at, uploaded).astype(np.int64)
    configs, first = state[TopicConfigs], row[np.unique(at, return_index=True)[1]]
    columns = (per_s, kept, configs.local_retention_ms[first], configs.local_retention_bytes[first])
    each = zip(*(values.tolist() for values in columns), strict=True)
    return {
        str(name): TopicOnDisk(*of) for name, of in zip(names[topic].tolist(), each, strict=True)
    }
