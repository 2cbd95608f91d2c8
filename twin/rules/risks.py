"""What a person should worry about: numbered conditions over what the other rules found.

Each is a bit of the ``risks`` columns, in the order in which a person would act on them. A
condition reads the columns and functions of the other rules and adds nothing of its own; when it is
opened and closed is decided by ``twin.hysteresis`` with the times given here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.rules import balance, joining, shrinks, tiering, upload
from twin.rules.election import LossOutcome, effective_min_isr
from twin.tables import NO_BROKER, UNKNOWN, Coverage, OutOfRange, Slot

STALE_MS: Final = 60_000
"""Twelve cycles of the default interval, and as long as a session of a broker may last."""


_REFUSING: Final = np.uint8(OutOfRange.UNAVAILABLE | OutOfRange.TOO_SMALL)
"""A consumer in these windows asks for what is committed. In the others it waits for a moment."""


class Risk(IntFlag):
    """A partition at risk has at least one of these. The values are stored."""

    OFFLINE = 1 << 0
    TIER_GAP = 1 << 1
    NO_CLEAN_SUCCESSOR = 1 << 2
    UNDER_MIN_ISR = 1 << 3
    AT_MIN_ISR = 1 << 4
    BOOTSTRAP_STUCK = 1 << 5
    LEADER_THIN = 1 << 6
    NEXT_LEADER_THIN = 1 << 7
    SLOW_LEADER = 1 << 8
    ISR_THRASH = 1 << 9
    UPLOAD_LAG_VS_LOCAL_RETENTION = 1 << 10
    COLD_READ_REPLICA = 1 << 11
    OUT_OF_RANGE_WINDOW = 1 << 12
    BOOTSTRAP_LATE = 1 << 13
    ELIGIBILITY_UNREACHABLE = 1 << 14
    RACK_SKEW = 1 << 15
    DANGLING_UPLOAD = 1 << 16
    ORPHAN_SEGMENTS = 1 << 17
    STALE_ROW = 1 << 18


Severity = Literal["page", "warn", "info"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One risk: how bad it is, how long it must hold to open and be gone to close, and why."""

    risk: Risk
    severity: Severity
    open_after_ms: int
    close_after_ms: int
    sentence: str
    source: str

    @property
    def name(self) -> str:
        """As it is written in labels, events and the API."""
        return str(self.risk.name).lower()


_S: Final = 1_000

RULES: Final = (
    Rule(Risk.OFFLINE, "page", 0, 0, "nobody leads it", "PartitionRegistration, Kafka 4.3"),
    Rule(Risk.TIER_GAP, "page", 0, 0,
         "offsets below its tiered end are neither in remote storage nor on a live replica",
         "tiered lineage"),
    Rule(Risk.NO_CLEAN_SUCCESSOR, "warn", 0, 10 * _S,
         "losing its leader takes it offline or loses records",
         "PartitionChangeBuilder.electLeader, Kafka 4.3; KIP-966"),
    Rule(Risk.UNDER_MIN_ISR, "page", 0, 10 * _S,
         "fewer replicas in sync than min.insync.replicas: acks=all is refused",
         "Partition.isUnderMinIsr, Kafka 4.3"),
    Rule(Risk.AT_MIN_ISR, "warn", 0, 10 * _S,
         "a replica is missing; one more and producers are refused",
         "Partition.isAtMinIsr, Kafka 4.3"),
    Rule(Risk.BOOTSTRAP_STUCK, "page", 0, 0,
         "a joining replica does not move", "KIP-1023; measured on Kafka 4.3.1"),
    Rule(Risk.LEADER_THIN, "warn", 0, 10 * _S,
         "its leader has too little local log", "KIP-1303"),
    Rule(Risk.NEXT_LEADER_THIN, "warn", 0, 10 * _S,
         "its next leader has too little local log", "KIP-1303"),
    Rule(Risk.SLOW_LEADER, "warn", 0, 60 * _S,
         "followers left its ISR because the leader was slow", "KIP-501"),
    Rule(Risk.ISR_THRASH, "warn", 0, 60 * _S,
         "replicas leave its ISR and come back, again and again", "KIP-501"),
    Rule(Risk.UPLOAD_LAG_VS_LOCAL_RETENTION, "warn", 60 * _S, 30 * _S,
         "local retention is about to wait for uploads: the disk fills",
         "UnifiedLog.deletableSegments, Kafka 4.3"),
    Rule(Risk.COLD_READ_REPLICA, "info", 30 * _S, 30 * _S,
         "consumers are sent to a replica that reads from remote storage what another has on disk",
         "KIP-392, KIP-1023"),
    Rule(Risk.OUT_OF_RANGE_WINDOW, "info", 1, 10 * _S,
         "a consumer that reads from a follower would be told out of range", "KIP-392"),
    Rule(Risk.BOOTSTRAP_LATE, "warn", 30 * _S, 30 * _S,
         "a joining replica takes longer than it should", "KIP-1023"),
    Rule(Risk.ELIGIBILITY_UNREACHABLE, "warn", 30 * _S, 0,
         "its thin replicas never become eligible: the threshold is above local retention",
         "KIP-1303"),
    # Two rounds of leader balancing, each 300 s: one may just have been missed.
    Rule(Risk.RACK_SKEW, "info", 600 * _S, 0,
         "led from another rack than its preferred replica's", "KIP-1303"),
    Rule(Risk.DANGLING_UPLOAD, "info", 0, 0,
         "an upload was started and never finished; its bytes stay in remote storage",
         "RemoteLogManager, Kafka 4.3"),
    Rule(Risk.ORPHAN_SEGMENTS, "info", 60 * _S, 0,
         "remote segments no longer belong to its log and are not deleted",
         "RemoteLogManager.isRemoteSegmentWithinLeaderEpochs, Kafka 4.3"),
    Rule(Risk.STALE_ROW, "info", 0, 0,
         "what is known of its leader is older than a minute", "the twin's own clock"),
)  # fmt: skip

BY_NAME: Final = {rule.name: rule for rule in RULES}


def isr_size(fleet: Fleet) -> NDArray[np.int64]:
    """[P] replicas in the ISR."""
    size: NDArray[np.int64] = (fleet.marked(Slot.IN_ISR) & fleet.present).sum(axis=1)
    return size


def expected_isr(fleet: Fleet) -> NDArray[np.int64]:
    """[P] replicas that ought to be in sync: those a reassignment still adds need not be.

    Source: Partition.isUnderReplicated and OngoingReassignmentState.replicationFactor.
    """
    expected: NDArray[np.int64] = (fleet.present & ~fleet.marked(Slot.ADDING)).sum(axis=1)
    return expected


def seen(fleet: Fleet, now_ms: int) -> NDArray[np.int32]:
    """[P] the bits of the conditions that hold. Partitions no listing described yet have none."""
    described = fleet.described_at_ms != UNKNOWN
    bits = np.zeros(len(fleet), np.int32)
    for risk, where in _conditions(fleet, now_ms).items():
        bits |= np.where(described & where, np.int32(risk), np.int32(0))
    return bits


def _conditions(fleet: Fleet, now_ms: int) -> dict[Risk, Array]:
    has_leader = fleet.leader != NO_BROKER
    isr, least = isr_size(fleet), effective_min_isr(fleet)
    outcome = fleet.next_outcome_kafka
    any_thin = ((fleet.coverage == Coverage.THIN) & fleet.present).any(axis=1)
    return {
        Risk.OFFLINE: ~has_leader,
        Risk.TIER_GAP: tiering.gaps(fleet),
        Risk.DANGLING_UPLOAD: tiering.dangling(fleet, now_ms),
        Risk.ORPHAN_SEGMENTS: tiering.orphans(fleet),
        Risk.NO_CLEAN_SUCCESSOR: has_leader & (outcome >= LossOutcome.LAST_KNOWN),
        Risk.UNDER_MIN_ISR: isr < least,
        Risk.AT_MIN_ISR: (isr == least) & (isr < expected_isr(fleet)),
        Risk.BOOTSTRAP_STUCK: joining.stuck(fleet),
        Risk.BOOTSTRAP_LATE: joining.late(fleet, now_ms),
        Risk.LEADER_THIN: has_leader & (fleet.of_leader(fleet.coverage) == Coverage.THIN),
        Risk.NEXT_LEADER_THIN: has_leader & (outcome == LossOutcome.CLEAN_THIN),
        Risk.UPLOAD_LAG_VS_LOCAL_RETENTION: upload.lags_retention(fleet),
        Risk.SLOW_LEADER: shrinks.blamed(fleet),
        Risk.ISR_THRASH: shrinks.thrashing(fleet),
        Risk.COLD_READ_REPLICA: fleet.cold_read_records > 0,
        Risk.OUT_OF_RANGE_WINDOW: ((fleet.out_of_range & _REFUSING) != 0).any(axis=1),
        Risk.ELIGIBILITY_UNREACHABLE: any_thin & balance.unreachable(fleet),
        Risk.RACK_SKEW: has_leader & balance.out_of_rack(fleet),
        Risk.STALE_ROW: _stale(fleet, now_ms),
    }


def _stale(fleet: Fleet, now_ms: int) -> Array:
    """[P] nobody listed the partition, or its leader said nothing, for STALE_MS."""
    sampled = fleet.of_leader(fleet.sampled_at_ms)
    silent = (fleet.leader != NO_BROKER) & (sampled != UNKNOWN) & (now_ms - sampled > STALE_MS)
    stale: Array = silent | (now_ms - fleet.described_at_ms > STALE_MS)
    return stale
