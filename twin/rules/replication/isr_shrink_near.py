"""Replicas of an ISR that are about to leave it.

A leader removes a replica that it has not seen caught up for replica.lag.time.max.ms, and checks
twice in that time: a replica that is behind leaves the ISR after 1 to 1.5 times the limit. One that
keeps up is seen caught up more often than each half of the limit, so half of it is a warning.

Source: KIP-501, "Proposed Changes"; Partition.getOutOfSyncReplicas, Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays.slots import any_slot, in_slots
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.signature import Cycle
from twin.declarations.table import UNKNOWN, Bool, Int8, ReplicaTable, column
from twin.rules.brokers.lag_limits import LagLimits
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.replication.caught_up import CaughtUp, KnownEnds
from twin.rules.replication.high_watermark import HighWatermarks, HighWatermarkSource
from twin.tables.state import Assignment, Replicas

LATE_SHARE: Final = 0.5
"""Share of replica.lag.time.max.ms."""


class IsrShrinkNear(
    ReplicaTable, kind="isr_shrink_near", api="", on_demand="a function of caught-up times"
):
    """[P, R] whether each replica of an ISR is about to leave it."""

    isr_shrink_near: Int8 = column(
        "in the ISR, behind, and not caught up for more than half of replica.lag.time.max.ms",
        tri_state=True,
    )


@rule
def isr_shrink_near(
    caught_up: CaughtUp,
    replicas: Replicas,
    known: KnownEnds,
    roles: Roles,
    leaders: Leaders,
    watermarks: HighWatermarks,
    limits: LagLimits,
    cycle: Cycle,
) -> IsrShrinkNear:
    """A replica is near if it has not caught up for half of the limit and one cycle more.

    Samples show one cycle late that a replica was caught up, so one cycle is added.
    A replica at the leader's log end does not leave, however long ago its last fetch was. Unknown
    where it was never seen caught up, and where it does not answer and its leader says nothing.
    """
    at_ms, slots = caught_up.caught_up_at_ms, caught_up.caught_up_at_ms.shape[1]
    limit_ms = in_slots(limits.lag_time_max_ms, slots)
    if cycle.prev_observed_at_ms == UNKNOWN:
        return IsrShrinkNear(np.full(at_ms.shape, UNKNOWN, np.int8))
    allowed_ms = LATE_SHARE * limit_ms + cycle.observed_at_ms - cycle.prev_observed_at_ms
    late = cycle.observed_at_ms - at_ms > allowed_ms
    end, leader_end = known.end_offset, in_slots(leaders.log_end_offset, slots)
    is_known = (end != UNKNOWN) & (leader_end != UNKNOWN) & (limit_ms != UNKNOWN)
    is_known &= at_ms != UNKNOWN
    is_silent = replicas.sampled_at_ms < cycle.observed_at_ms
    if is_silent.any():
        says_so = watermarks.high_watermark_source == HighWatermarkSource.LEADER
        is_known &= ~is_silent | in_slots(says_so, slots)
    judged = roles.in_isr & roles.is_assigned & ~roles.is_leader
    late &= end < leader_end
    is_near = np.where(is_known, late, np.int8(UNKNOWN))
    return IsrShrinkNear(np.where(judged, is_near, np.int8(0)))


@risk(
    "isr_shrink_near",
    rank=85,
    severity="warn",
    close_after_ms=10_000,
    sentence="a replica is about to leave the ISR: it is late by half of replica.lag.time.max.ms",
    source="KIP-501; Partition.getOutOfSyncReplicas, Kafka 4.3",
    alert=Alert(
        summary="are about to lose a replica of their ISR",
        description="A replica in the ISR of {n} partitions of {cluster} has not caught up for "
        "more than half of replica.lag.time.max.ms; after the whole of that time the leader "
        "removes it from the ISR.",
        # By default there are 15 to 30 s until the ISR shrinks.
        wait="0s",
        keep_firing_for="5m",
        unless="partition_offline",
    ),
)
def is_about_to_shrink(near: IsrShrinkNear) -> Bool:
    """At least one replica is about to leave the ISR."""
    return any_slot(near.isr_shrink_near == 1)


@gauge(
    "replicas_near_isr_shrink",
    "Replicas of the broker in an ISR that have not caught up for more than half of "
    "replica.lag.time.max.ms.",
    level="broker",
)
def replicas_near_isr_shrink(near: IsrShrinkNear, assignment: Assignment) -> ByBroker:
    """The replicas by their own broker, not by their leader."""
    return ByBroker(assignment.broker[near.isr_shrink_near == 1])
