"""Replicas on their way into the ISR: how far they are, and whether they move at all.

Every follower outside the ISR whose broker is alive is catching up: its fetcher never stops
trying. One that was empty when the twin first saw it is a bootstrap, and the path it took shows in
where its local log begins (KIP-1023). So is one that ends below its leader's local log: the leader
has not got the next record on disk, so the follower drops its log and starts as an empty one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from typing import Any, Final

import numpy as np

from twin.arrays import keys
from twin.arrays.slots import in_slots, set_slots
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.signature import Before, Lazy, NowMs
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Float64,
    Int8,
    Int32,
    Int64,
    Rows,
    SparseTable,
    column,
)
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.isr.isr_verdicts import LEADERS_FAULT
from twin.rules.isr.slow_leader import SUSPECTED_MS
from twin.rules.partitions.growth import moving_average
from twin.rules.partitions.leaders import Leaders, Roles, has_flag
from twin.rules.tiering.bootstrap import (
    BootstrapOff,
    BootstrapOn,
    BootstrapPath,
    FollowerFeatures,
    path_as_configured,
)
from twin.tables.enums import ReplicaFlags
from twin.tables.state import (
    Assignment,
    Brokers,
    Partitions,
    PendingUploadLookups,
    Replicas,
)

ANSWER_DUE_MS: Final = 60_000
"""By then a leader has mostly answered the fetch on which it worked as it removed a follower. In
KIP-501's example it takes 25 s."""

STUCK_AFTER_MS: Final = 10_000
"""Ten tries of a fetcher that backs off for a second (replica.fetch.backoff.ms)."""

EMPTY_STUCK_AFTER_MS: Final = 60_000
"""An empty replica of a tiered topic waits for its own remote log metadata, and for the first task
of its leader: twice remote.log.manager.task.interval.ms (KAFKA-19523)."""


class StuckReason(IntEnum):
    """Why a replica that catches up does not move. The values are stored."""

    STUCK_IDLE = 0  # everything is tiered and nobody writes: one record would free it
    NOTHING_TIERED_YET = 1  # it waits for the first upload
    BELOW_LOG_START = 2  # it waits for an upload beyond the log start
    LEADER_LEARNING = 3  # the leader has not learnt what is tiered
    LEADER_SILENT = 4  # the leader does not answer the twin either
    BROKER_SILENT = 5  # its own broker does not answer the twin
    UNEXPLAINED = 6  # its broker's log says more
    COPIES_DISABLED = 7  # it waits for an upload, and there is none any more (KIP-950)


SILENCE: Final = (StuckReason.LEADER_SILENT, StuckReason.BROKER_SILENT)
"""A broker that does not answer is a risk of its own; the same cause pages once."""


class CatchingUp(SparseTable, kind="catching_up"):
    """[N] one row a replica that is catching up."""

    broker: Int32 = column("broker id of the replica")
    since_ms: Int64 = column("when it was first seen outside the ISR")
    path: Int8 = column("where it started, null while that is unknown", enum=BootstrapPath)
    start_offset: Int64 = column("the first offset that it copied")
    end_offset: Int64 = column("its log end")
    sampled_at_ms: Int64 = column("when that was sampled")
    moved_at_ms: Int64 = column("when its log end last moved")
    records_per_s: Float64 = column("rate at which it copies, a moving average")
    stuck: Int8 = column("why it does not move, null while it does", enum=StuckReason)


@rule
def catching_up(
    partitions: Partitions,
    assignment: Assignment,
    replicas: Replicas,
    roles: Roles,
    leaders: Leaders,
    brokers: Brokers,
    features: Lazy[FollowerFeatures],
    on: Lazy[BootstrapOn],
    off: Lazy[BootstrapOff],
    lookups: PendingUploadLookups,
    shrinks: IsrShrinks,
    before: Before[CatchingUp],
    now_ms: NowMs,
) -> CatchingUp:
    """The followers outside the ISR on live brokers, of partitions that have a leader."""
    outside = in_slots(partitions.leader != NO_BROKER, roles.is_leader.shape[1])
    outside &= roles.is_assigned & ~roles.is_leader
    row, slot = set_slots(outside & ~roles.in_isr & ~roles.is_offline)
    if not len(row):
        return CatchingUp.empty()
    broker = assignment.broker[row, slot]
    place = keys.find(keys.pack(before.row, before.broker), keys.pack(row, broker))
    was_here = place != UNKNOWN

    def previous(values: Array, missing: Any) -> Array:
        """[N] a column as the previous cycle left it, ``missing`` for replicas that are new."""
        if not len(values):
            return np.full(len(row), missing, values.dtype)
        return np.where(was_here, values[place], np.array(missing, values.dtype))

    end, at_ms = replicas.log_end_offset[row, slot], replicas.sampled_at_ms[row, slot]
    prev_end = previous(before.end_offset, UNKNOWN)
    prev_at_ms = previous(before.sampled_at_ms, UNKNOWN)
    path, start = _origin(
        _Samples(row, slot, broker, end, replicas, leaders),
        lookups,
        previous(before.path, UNKNOWN),
        previous(before.start_offset, UNKNOWN),
        was_here,
        prev_end,
    )
    local = replicas.local_log_start_offset[row, slot]
    copied_from = np.where(_starts_anew(local, prev_end), local, prev_end)
    moved = (end != prev_end) & (end != UNKNOWN) & (prev_end != UNKNOWN)
    moved_at_ms = np.where(moved, now_ms, previous(before.moved_at_ms, now_ms))
    rows = CatchingUp(
        row=row.astype(np.int32),
        broker=broker,
        since_ms=previous(before.since_ms, now_ms),
        path=path,
        start_offset=start,
        end_offset=end,
        sampled_at_ms=at_ms,
        moved_at_ms=moved_at_ms,
        records_per_s=_rate(
            end - copied_from,
            at_ms - prev_at_ms,
            (prev_end != UNKNOWN) & (at_ms > prev_at_ms),
            previous(before.records_per_s, UNKNOWN),
        ),
        stuck=np.full(len(row), UNKNOWN, np.int8),
    )
    path_if_empty = path_as_configured(features(), on, off, row, slot)
    stuck = _stuck(rows, path_if_empty, partitions, leaders, brokers, now_ms)
    unexplained = np.flatnonzero(stuck == StuckReason.UNEXPLAINED)
    if len(unexplained):
        waits = _waits_for_leader(rows.pick(unexplained), shrinks, now_ms)
        stuck[unexplained[waits]] = UNKNOWN
    return replace(rows, stuck=stuck)


class _Samples:
    """Places of replicas, with the offsets that they and their leaders report."""

    def __init__(
        self, row: Rows, slot: Rows, broker: Int32, end: Int64, replicas: Replicas,
        leaders: Leaders,
    ) -> None:  # fmt: skip
        self.row, self.broker, self.end = row, broker, end
        self.local = replicas.local_log_start_offset[row, slot]
        self.leader_local = leaders.local_log_start_offset[row]
        self.is_added = has_flag(replicas.replica_flags[row, slot], ReplicaFlags.ADDING)


def _origin(
    samples: _Samples, lookups: PendingUploadLookups, path: Int8, start: Int64, was_here: Bool,
    prev_end: Int64,
) -> tuple[Int8, Int64]:  # fmt: skip
    """[N] the path and the first offset of each replica, kept once they are known.

    A replica began empty if it was known before and had no records, if a reassignment adds it, or
    if it has dropped its log since. Any other replica only catches up, from the offset at which it
    was first seen.
    """
    begins = (start == UNKNOWN) & (samples.end > 0)
    was_empty = begins & (was_here | samples.is_added)
    was_empty |= _starts_anew(samples.local, prev_end)
    has_local_starts = (samples.local != UNKNOWN) & (samples.leader_local != UNKNOWN)
    answer = keys.look_up(
        keys.pack(lookups.row, lookups.broker),
        lookups.pending_upload_offset,
        keys.pack(samples.row, samples.broker),
    )
    took = np.select(
        [
            (answer > 0) & (answer == samples.local),  # its log begins where its leader answered
            ~has_local_starts,
            samples.local == 0,
            samples.local > samples.leader_local,
        ],
        [
            BootstrapPath.FROM_PENDING_UPLOAD,
            UNKNOWN,
            BootstrapPath.FROM_ZERO,
            BootstrapPath.FROM_PENDING_UPLOAD,
        ],
        BootstrapPath.FROM_LOCAL_START,
    )
    return (
        np.where(was_empty, took, path).astype(np.int8),
        np.where(was_empty, samples.local, np.where(begins, samples.end, start)),
    )


def _starts_anew(local: Int64, prev_end: Int64) -> Bool:
    """[N] the local log begins beyond its previous end: the replica has dropped it since.

    Retention does not get that far: it deletes whole segments below the end.
    """
    return (prev_end != UNKNOWN) & (local > prev_end)


def _rate(records: Int64, elapsed_ms: Int64, measured: Bool, average: Float64) -> Float64:
    """[N] records a second as a moving average, UNKNOWN before two samples."""
    rate = np.maximum(records, 0) / (np.where(measured, elapsed_ms, 1) / 1000)
    return np.where(measured, moving_average(average, rate), average)


def _stuck(
    rows: CatchingUp, path: Int8, partitions: Partitions, leaders: Leaders, brokers: Brokers,
    now_ms: int,
) -> Int8:  # fmt: skip
    """[N] a StuckReason for those that have something to copy and do not move, else UNKNOWN.

    ``path``: [N] where each would start if it were empty.
    If the leader's answers explain it, two samples are enough; otherwise more time must pass.
    """
    goal = leaders.log_end_offset[rows.row]
    behind = (rows.end_offset == UNKNOWN) | (goal == UNKNOWN) | (rows.end_offset < goal)
    empty = rows.end_offset == 0
    explained = np.select(
        [
            empty & (path == BootstrapPath.STUCK_IDLE),
            empty & (path == BootstrapPath.NOTHING_TIERED_YET),
            empty & (path == BootstrapPath.BELOW_LOG_START),
            empty & (path == BootstrapPath.COPIES_DISABLED),
        ],
        [
            StuckReason.STUCK_IDLE,
            StuckReason.NOTHING_TIERED_YET,
            StuckReason.BELOW_LOG_START,
            StuckReason.COPIES_DISABLED,
        ],
        UNKNOWN,
    )
    answers = brokers.broker[brokers.answered]
    otherwise = np.select(
        [
            ~np.isin(rows.broker, answers),
            ~np.isin(partitions.leader[rows.row], answers),
            empty & (path == BootstrapPath.LEADER_LEARNING),
        ],
        [StuckReason.BROKER_SILENT, StuckReason.LEADER_SILENT, StuckReason.LEADER_LEARNING],
        StuckReason.UNEXPLAINED,
    )
    still_ms = now_ms - rows.moved_at_ms
    begins = empty & (leaders.local_log_start_offset[rows.row] > leaders.log_start_offset[rows.row])
    enough_ms = np.where(begins, EMPTY_STUCK_AFTER_MS, STUCK_AFTER_MS)
    return np.select(
        [~behind, (explained != UNKNOWN) & (still_ms > 0), still_ms >= enough_ms],
        [UNKNOWN, explained, otherwise],
        UNKNOWN,
    ).astype(np.int8)


def _waits_for_leader(rows: CatchingUp, shrinks: IsrShrinks, now_ms: int) -> Bool:
    """[N] the leader removed the replica lately and is slow, which is the risk ``slow_leader``.

    Or it may be slow: nobody knows how long it works on a fetch until it answers.
    """
    age_ms = now_ms - shrinks.at_ms
    is_slow = np.isin(shrinks.verdict, LEADERS_FAULT) & (age_ms <= SUSPECTED_MS)
    removed = shrinks.pick(is_slow | (age_ms <= ANSWER_DUE_MS))
    return np.isin(keys.pack(rows.row, rows.broker), keys.pack(removed.row, removed.broker))


# ---------------------------------------------------------------- risks


@risk(
    "bootstrap_stuck",
    rank=60,
    severity="page",
    sentence="a replica that catches up does not move",
    source="KIP-1023; measured on Kafka 4.3.1",
    alert=Alert(
        summary="wait for a replica that does not move",
        description="A replica of {n} partitions of {cluster} that should catch up is stuck; "
        "kafka_twin_replicas_stuck names the reasons. An idle tiered partition is freed by one "
        "record.",
        # The twin has waited for its own proof already.
        wait="0s",
        keep_firing_for="3m",
    ),
)
def is_stuck(rows: CatchingUp, partitions: Partitions) -> Bool:
    """A replica of the partition is stuck, and both brokers answer."""
    return rows.pick((rows.stuck != UNKNOWN) & ~np.isin(rows.stuck, SILENCE)).row_mask(
        len(partitions.leader)
    )


# ---------------------------------------------------------------- exported


@gauge(
    "replicas_catching_up",
    "Replicas on their way into the ISR, by where they started.",
    labels=("path",),
)
def replicas_catching_up(rows: CatchingUp) -> Mapping[tuple[str], int]:
    """The replicas by path, which is unknown if they were not empty when first seen."""
    took = (
        BootstrapPath.FROM_ZERO,
        BootstrapPath.FROM_LOCAL_START,
        BootstrapPath.FROM_PENDING_UPLOAD,
    )
    counts = {(path.name.lower(),): int((rows.path == path).sum()) for path in took}
    return {("unknown",): int((rows.path == UNKNOWN).sum()), **counts}


@gauge(
    "replicas_stuck",
    "Replicas that should catch up and do not move, by reason.",
    labels=("reason",),
)
def replicas_stuck(rows: CatchingUp) -> Mapping[tuple[str], int]:
    """The stuck replicas by reason, also for reasons that hold nowhere."""
    return {(reason.name.lower(),): int((rows.stuck == reason).sum()) for reason in StuckReason}
