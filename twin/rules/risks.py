"""Which partitions a person should worry about: a short list of predicates over what is known.

Each is a bit of the ``risks`` column, in the order in which a person would act on them. They read
the columns that the other rules wrote and add nothing of their own.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Fleet
from twin.rules.election import LossOutcome, effective_min_isr
from twin.tables import NO_BROKER, UNKNOWN, Coverage, Slot


class Risk(IntFlag):
    """A partition at risk has at least one of these. The values are stored and never change."""

    OFFLINE = 1  # nobody leads it
    NO_CLEAN_SUCCESSOR = 2  # losing its leader takes it offline, or loses records
    UNDER_MIN_ISR = 4  # producers with acks=all are refused
    AT_MIN_ISR = 8  # a replica is missing, and one more refuses producers
    LEADER_THIN = 16  # its leader reads from remote storage what another has on disk
    NEXT_LEADER_THIN = 32  # so will its next leader


SENTENCE: Final = {
    Risk.OFFLINE: "nobody leads it",
    Risk.NO_CLEAN_SUCCESSOR: "losing its leader takes it offline or loses records",
    Risk.UNDER_MIN_ISR: "fewer replicas in sync than min.insync.replicas",
    Risk.AT_MIN_ISR: "a replica is missing; one more and producers are refused",
    Risk.LEADER_THIN: "its leader has too little local log",
    Risk.NEXT_LEADER_THIN: "its next leader has too little local log",
}


def isr_size(fleet: Fleet) -> NDArray[np.int64]:
    """[P] replicas in the ISR."""
    size: NDArray[np.int64] = (fleet.marked(Slot.IN_ISR) & fleet.present).sum(axis=1)
    return size


def settled(fleet: Fleet) -> NDArray[np.int64]:
    """[P] replicas that ought to be in sync: those a reassignment still adds need not be.

    Source: Partition.isUnderReplicated and OngoingReassignmentState.replicationFactor.
    """
    settled: NDArray[np.int64] = (fleet.present & ~fleet.marked(Slot.ADDING)).sum(axis=1)
    return settled


def risks(fleet: Fleet) -> NDArray[np.int32]:
    """[P] the bits of the risks that hold. Partitions no listing described yet have none."""
    described = fleet.described_at_ms != UNKNOWN
    has_leader = fleet.leader != NO_BROKER
    isr, least = isr_size(fleet), effective_min_isr(fleet)
    outcome = fleet.next_outcome_kafka
    holds = {
        Risk.OFFLINE: ~has_leader,
        Risk.NO_CLEAN_SUCCESSOR: has_leader & (outcome >= LossOutcome.LAST_KNOWN),
        Risk.UNDER_MIN_ISR: isr < least,
        Risk.AT_MIN_ISR: (isr == least) & (isr < settled(fleet)),
        Risk.LEADER_THIN: has_leader & (fleet.of_leader(fleet.coverage) == Coverage.THIN),
        Risk.NEXT_LEADER_THIN: has_leader & (outcome == LossOutcome.CLEAN_THIN),
    }
    bits = np.zeros(len(fleet), np.int32)
    for risk, where in holds.items():
        bits |= np.where(described & where, np.int32(risk), np.int32(0))
    return bits
