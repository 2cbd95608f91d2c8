"""What a broker has to copy when it comes back after some time, and from whom.

A replica lacks what was written while it was away. The leader sends that as long as its own local
log still begins before it. Otherwise the follower truncates everything and starts anew at the
leader's local log start; the rest is in remote storage only, or deleted by retention. KIP-1023
changes nothing: it is for replicas without records.

Source: AbstractFetcherThread.fetchOffsetAndTruncate and handleOffsetsMovedToTieredStorage, and
ReplicaFetcherThread.shouldFetchFromLastTieredOffset, Kafka 4.3; measured on Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from twin.cluster_rules.copy_rates import CopyRates
from twin.declarations.table import NO_BROKER, UNKNOWN, Bool, Float64, Int8, Int32, Rows
from twin.engine.shard_state import ShardState
from twin.questions.adds_up import AddsUp
from twin.questions.incoming import Growths
from twin.questions.room.disks import Disks, later, place_of, still
from twin.questions.room.verdict import (
    BrokerRoom,
    Received,
    RoomUnknown,
    growths_on,
    judged,
    nowhere,
)
from twin.questions.whatif import electorate_of, is_judged, replicas_on
from twin.rules.brokers.log_dirs import ReplicaDirs
from twin.rules.election.next_leader import elected_without
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.tier_states import TierState, TierStates
from twin.rules.tiering.upload import UploadLag
from twin.tables.enums import NOT_SET
from twin.tables.state import Assignment, Replicas


@dataclass(frozen=True, slots=True)
class Recovery(AddsUp):
    """What the replicas of a broker copy once it is back. Unknown ones are in no sum."""

    partitions: int
    unknown: int  # those whose growth, record size, offsets or retention are unknown
    offline: int  # those that nobody leads meanwhile, so nothing is written
    restarted: int  # those that start anew, since the leader's log begins later by then
    preferred: int  # those that it leads again once it is in sync
    from_leader_bytes: float
    remote_only_bytes: float  # of what was written meanwhile, copied by nobody
    written_bytes_per_s: float
    sent: tuple[tuple[int, float], ...]  # bytes by leader
    # By the number of a log directory, UNKNOWN where a broker has one.
    copied: tuple[tuple[int, float], ...]  # bytes
    freed: tuple[tuple[int, float], ...]  # bytes of replicas that start anew: deleted before
    unclear: tuple[tuple[int, int], ...]  # replicas of which nobody knows what they copy


def copied_per_s(cluster: ShardState | None, broker: int) -> int | None:
    """Bytes a second that the broker copied when it last came back, else the least of the others.

    None if no return was measured, or the cluster's own shard is unknown.
    """
    if cluster is None:
        return None
    rates = cluster[CopyRates]
    rates = rates.pick(~np.isnan(rates.bytes_per_s))
    if not len(rates.broker):
        return None
    own = rates.bytes_per_s[rates.broker == broker]
    return int(own[0] if len(own) else rates.bytes_per_s.min())


def recovery(state: ShardState, broker: int, away_s: float) -> Recovery:
    """What a broker copies if it comes back after that time from now, and nothing else fails.

    Records are written as fast as now. Retention limits the leader's log as it does now.
    """
    row = replicas_on(state, broker)
    row = row[is_judged(state)[row]]
    on_broker = (state[Assignment].broker[row] == broker) & state[Roles].is_assigned[row]
    slot = on_broker.argmax(axis=1)
    leader = elected_without(electorate_of(state).take(row), on_broker).leader
    has_leader = leader != NO_BROKER
    size = state[RecordSizes].bytes_per_record[row]
    lacks, rate = _lacks(state, row, slot, away_s, has_leader)
    kept = _kept(state, row, lacks)
    restarts = lacks > kept
    copies = np.minimum(lacks, kept)  # NaN where it may start anew
    is_tiered = state[TopicConfigs].remote_storage[row] == 1
    remote_only = np.where(restarts & is_tiered, lacks - copies, 0.0)
    copied_bytes = _bytes(copies, size)
    written = np.where(has_leader, _bytes(rate, size), 0.0)
    is_known = ~np.isnan(copied_bytes)
    directory = state[ReplicaDirs].number[row, slot]
    held = np.maximum(state[Replicas].local_log_bytes[row, slot], 0)
    return Recovery(
        partitions=len(row),
        unknown=int((~is_known).sum()),
        offline=int((~has_leader).sum()),
        restarted=int((restarts & is_known).sum()),
        preferred=int((slot == 0).sum()),
        from_leader_bytes=float(copied_bytes[is_known].sum()),
        remote_only_bytes=float(np.nansum(np.where(is_known, _bytes(remote_only, size), 0.0))),
        written_bytes_per_s=float(np.nansum(np.where(is_known, written, 0.0))),
        sent=_by_leader(leader, np.where(is_known & has_leader, copied_bytes, 0.0)),
        copied=_by_directory(directory, np.where(is_known, copied_bytes, 0.0)),
        freed=_by_directory(directory, np.where(restarts & is_known, held, 0.0)),
        unclear=tuple(
            (number, int(count)) for number, count in _by_directory(directory, (~is_known) * 1.0)
        ),
    )


def room_after(
    disks: Disks | None, broker: int, found: Recovery, away_s: float,
    growths: Growths | None = None,
) -> BrokerRoom:  # fmt: skip
    """Whether the broker has room for what it copies once it is back.

    A replica that starts anew deletes what it has first (LocalLog.truncateFullyAndStartAt; the
    files go after file.delete.delay.ms, a minute). What retention may delete of the others by then
    is there until they have started, so it counts as nothing.

    Args:
        disks: None if nothing is known of them.
        broker: its id.
        found: what it copies, of all shards.
        away_s: how long it is away from now on.
        growths: of a broker that is out already, what its logs take from now on, of all shards. Its
            volumes have no curves, and are as it listed them last.
    """
    known = [value for _, value in found.copied]
    size = np.concatenate([known, np.full(found.unknown, np.nan)])
    if disks is None:
        return replace(nowhere(broker, size), replicas=found.partitions)
    then = later(disks if growths is None else still(disks), away_s)
    volume = np.flatnonzero(disks.broker == broker)

    def on_volumes(pairs: Sequence[tuple[int, float]]) -> tuple[Float64, bool]:
        """[C] the sum of each volume, and whether some bytes are on no known volume."""
        number = np.array([each for each, _ in pairs], np.int64)
        values = np.array([value for _, value in pairs], np.float64)
        at = place_of(disks, volume, np.full(len(pairs), broker, np.int32), number)
        sums = np.bincount(at[at != UNKNOWN], values[at != UNKNOWN], len(volume))
        return sums.astype(np.float64), bool(values[at == UNKNOWN].any())

    each = (on_volumes(pairs) for pairs in (found.copied, found.freed, found.unclear))
    (copied, freed, unclear), is_elsewhere = zip(*each, strict=True)
    least, most, judged_bytes = np.zeros(()), np.zeros(()), 1.0
    if growths is not None:
        least, most, judged_bytes = growths_on(
            then, volume, growths.later(away_s), broker, np.zeros((2, len(volume)))
        )
    got = Received(
        size, volume, copied, copied, freed, unclear.astype(np.int64), least, most,
        is_blind=judged_bytes == 0 and found.from_leader_bytes > 0,
        gap=RoomUnknown.DIRECTORY if any(is_elsewhere) else RoomUnknown.NONE,
    )  # fmt: skip
    room = judged(then, broker, got, from_ms=disks.now_ms + 1_000 * away_s)
    return replace(room, replicas=found.partitions)


def _lacks(
    state: ShardState, row: Rows, slot: Rows, away_s: float, has_leader: Bool
) -> tuple[Float64, Float64]:
    """[N] records that a replica lacks by then, NaN where that is unknown; and records a second."""
    growth = state[Growth].appended_records_per_s[row]
    rate = np.where(growth == UNKNOWN, np.nan, growth)
    end = state[Leaders].log_end_offset[row]
    own = state[Replicas].log_end_offset[row, slot]
    behind = np.where((end == UNKNOWN) | (own == UNKNOWN), np.nan, np.maximum(end - own, 0))
    in_isr = state[Roles].in_isr[row, slot]
    behind = np.where(in_isr, 0.0, behind)
    return np.where(has_leader, behind + rate * away_s, 0.0), rate


def _kept(state: ShardState, row: Rows, lacks: Float64) -> Float64:
    """[N] records in the leader's local log by then; NaN where that is unknown."""
    configs, leaders = state[TopicConfigs].take(row), state[Leaders].take(row)
    rate = state[Growth].appended_records_per_s[row]
    size = state[RecordSizes].bytes_per_record[row]
    is_tiered = configs.remote_storage == 1
    kept_ms = np.where(is_tiered, configs.local_retention_ms, configs.retention_ms)
    kept_bytes = np.where(is_tiered, configs.local_retention_bytes, configs.retention_bytes)
    by_ms = np.where(kept_ms < 0, np.inf, kept_ms / 1_000 * np.maximum(rate, 0))
    by_bytes = np.where(kept_bytes < 0, np.inf, kept_bytes / size)
    limit = np.where(
        (kept_ms == NOT_SET) | (kept_bytes == NOT_SET), np.nan, np.minimum(by_ms, by_bytes)
    )
    # What is not uploaded stays on disk; while nothing is, that is the whole log.
    waiting = np.maximum(state[UploadLag].upload_lag_records[row], 0)
    is_stuck = state[TierStates].tier_state[row] == TierState.NOTHING_UPLOADED
    limit = np.where(is_stuck, np.inf, np.maximum(limit, waiting))
    has_log = (leaders.log_end_offset != UNKNOWN) & (leaders.local_log_start_offset != UNKNOWN)
    now = np.where(has_log, leaders.log_end_offset - leaders.local_log_start_offset, np.nan)
    return np.where(lacks == 0, 0.0, np.minimum(now + lacks, limit))


def _bytes(records: Float64, size: Float64) -> Float64:
    """[N] no records have no size, also where that of a record is unknown."""
    return np.where(records == 0, 0.0, records * size)


def _by_directory(number: Int8, values: Float64) -> tuple[tuple[int, float], ...]:
    each, at = np.unique(number, return_inverse=True)
    return tuple(zip(each.tolist(), np.bincount(at, values, len(each)).tolist(), strict=True))


def _by_leader(leader: Int32, sent: Float64) -> tuple[tuple[int, float], ...]:
    brokers, place = np.unique(leader[leader != NO_BROKER], return_inverse=True)
    sums = np.bincount(place, sent[leader != NO_BROKER], len(brokers))
    return tuple(zip(brokers.tolist(), sums.tolist(), strict=True))
