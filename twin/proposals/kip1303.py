"""KIP-1303: replicas with too little local log come last in leader elections."""

from __future__ import annotations

from enum import IntFlag

import numpy as np

from twin.arrays.slots import any_slot, in_slots
from twin.declarations.declare import election_rule, gauge, rule
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int8,
    PartitionTable,
    ReplicaTable,
    UInt8,
    column,
)
from twin.kafka.election import ElectionKind, elect
from twin.rules.election.ballots import Ballot, in_isr
from twin.rules.election.next_leader import (
    Electorate,
    state_as_it_is,
)
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import LocalLog, compared, has_threshold
from twin.rules.tiering.timestamps import SuspectTimestamps
from twin.tables.state import Replicas


class Kip1303Eligibility(
    ReplicaTable, kind="kip1303_eligibility", api="", on_demand="compared with the thresholds"
):
    """[P, R] whether KIP-1303 lets each replica lead before others.

    It looks at thresholds alone: a young replica is not eligible although it has the whole log on
    disk. Such a replica is warm in ``coverage``.
    """

    eligible_kip1303: Int8 = column(
        "false if the topic may be tiered and every threshold of KIP-1303 is missed; null where no "
        "threshold is set; a replica that is warm all the same has its whole log on disk",
        tri_state=True,
    )


class LeadershipFlags(IntFlag):
    """The effect of KIP-1303's order on a partition's present leadership."""

    COLD_LEADER_KEPT = 1  # the first in its order cannot lead, so a cold leader stays
    BALANCER_NOOP = 2  # each round of leader balancing visits it and moves nothing


class Kip1303Leadership(PartitionTable, kind="kip1303_leadership", api="kip1303"):
    """[P] what the order of KIP-1303 does to each partition's present leadership."""

    flags: UInt8 = column(
        "cold_leader_kept: a cold leader stays since the first in the order cannot lead; "
        "balancer_noop: each round of leader balancing visits it and moves nothing",
        fill=0,
        flags=LeadershipFlags,
    )


@rule
def kip1303_eligibility(
    local: LocalLog,
    suspect: SuspectTimestamps,
    replicas: Replicas,
    configs: TopicConfigs,
) -> Kip1303Eligibility:
    """A replica is eligible unless every enabled threshold is known and missed.

    The KIP is about followers of tiered topics, so all replicas of others are eligible. An empty
    local log is known to hold nothing. The span is the KIP's own, the time of its last answer minus
    the first timestamp: a record from the future misses every threshold.
    """
    is_on = has_threshold(configs) & (configs.tiered_compacted != 1)
    span, odd = local.local_log_span_ms, suspect.timestamp_suspect
    if odd.any():
        age_ms = replicas.sampled_at_ms - replicas.local_start_timestamp_ms
        span = np.where(odd, np.maximum(age_ms, 0), span)
    _, fails = compared(span, local.held_bytes, configs)
    eligible = (~fails).astype(np.int8)
    eligible[configs.remote_storage == 0] = 1
    eligible[~is_on] = UNKNOWN
    return Kip1303Eligibility(eligible)


def is_ineligible(eligibility: Kip1303Eligibility, roles: Roles) -> Bool:
    """[P, R] assigned replicas that KIP-1303 elects after all others."""
    return (eligibility.eligible_kip1303 == 0) & roles.is_assigned


@election_rule("kip1303", "KIP-1303")
def kip1303(roles: Roles, eligibility: Kip1303Eligibility) -> Ballot:
    """Replicas with enough local log come first.

    Ineligible replicas move to the end but stay: a partition without others still elects one.
    """
    return Ballot(in_isr(roles), is_ineligible(eligibility, roles).astype(np.int8))


@rule
def kip1303_leadership(
    electorate: Electorate, eligibility: Kip1303Eligibility
) -> Kip1303Leadership:
    """The effects on partitions that have a leader and an ineligible replica; others have none."""
    ballot = kip1303(electorate.roles, eligibility)
    cold = ballot.rank != 0
    flags = np.zeros(len(cold), np.uint8)
    row = np.flatnonzero(any_slot(cold) & (electorate.partitions.leader != NO_BROKER))
    if not len(row):
        return Kip1303Leadership(flags)
    state, cold = state_as_it_is(electorate).rows(row), cold.take(row, axis=0)
    order = ballot.take(row).order(electorate.roles.is_assigned.take(row, axis=0))
    stock, _ = elect(state, ElectionKind.PREFERRED)
    elected, _ = elect(state, ElectionKind.PREFERRED, order)
    first = state.broker[np.arange(len(row)), order[:, 0]]
    stays = elected == state.leader
    leads_cold = any_slot((state.broker == in_slots(state.leader, cold.shape[1])) & cold)
    kept = stays & leads_cold & (first != state.leader)
    noop = stays & (state.leader != state.broker[:, 0]) & (stock == state.broker[:, 0])
    flags[row] = np.where(kept, LeadershipFlags.COLD_LEADER_KEPT, 0) | np.where(
        noop, LeadershipFlags.BALANCER_NOOP, 0
    )
    return Kip1303Leadership(flags)


# ---------------------------------------------------------------- exported


@gauge(
    "election_eligible",
    "1 unless the replica is of a tiered topic and known to miss every threshold of KIP-1303; no "
    "series where no threshold is set.",
    level="replica",
)
def election_eligible(eligibility: Kip1303Eligibility) -> Array:
    """A replica of unknown size and span is eligible."""
    return eligibility.eligible_kip1303


@gauge(
    "partitions_cold_leader_kept",
    "Partitions with a cold leader that KIP-1303 leaves in place: the first replica in its order "
    "cannot lead.",
)
def partitions_cold_leader_kept(leadership: Kip1303Leadership) -> int:
    """The number of partitions with a cold leader that stays."""
    return int(((leadership.flags & LeadershipFlags.COLD_LEADER_KEPT) != 0).sum())


@gauge(
    "partitions_balancer_noop",
    "Partitions that leader balancing visits without effect under KIP-1303: replica 0 is cold.",
)
def partitions_balancer_noop(leadership: Kip1303Leadership) -> int:
    """The number of partitions that leader balancing visits without effect."""
    return int(((leadership.flags & LeadershipFlags.BALANCER_NOOP) != 0).sum())
