"""KIP-1303: replicas with too little local log come last in leader elections."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag

import numpy as np
from numpy.typing import NDArray

from twin.declare import ByBroker, KnownValues, adds_to, gauge, rule
from twin.rules.coverage import Coverage, LocalLog, compared, has_threshold
from twin.rules.election import Kind, Outcome, Slots, elect
from twin.rules.leaders import Roles
from twin.rules.next_leader import (
    Electorate,
    NextLeaders,
    by_outcome,
    coverage_of,
    hold_election,
    state_as_it_is,
    state_without,
)
from twin.rules.topic_configs import TopicConfigs, holds_unclean_elections
from twin.slots import any_slot
from twin.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int8,
    Int32,
    PartitionTable,
    ReplicaTable,
    UInt8,
    column,
)
from twin.tables.state import Partitions


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


class NextLeadersKip1303(
    PartitionTable, kind="next_leader_kip1303", version=2, api="next_leader_kip1303"
):
    """[P] who leads each partition if its leader is lost, by the rule of KIP-1303."""

    leader: Int32 = column(
        "broker id of the next leader, -1 for nobody", fill=NO_BROKER, minus_one_is_a_value=True
    )
    outcome: Int8 = column("how safe that leader is", enum=Outcome)
    coverage: Int8 = column(
        "whether it holds enough local log to lead, null for nobody", enum=Coverage
    )


class Kip1303Leadership(PartitionTable, kind="kip1303_leadership", api="kip1303"):
    """[P] what the order of KIP-1303 does to each partition's present leadership."""

    flags: UInt8 = column(
        "cold_leader_kept: a cold leader stays since the first in the order cannot lead; "
        "balancer_noop: each round of leader balancing visits it and moves nothing",
        fill=0,
        flags=LeadershipFlags,
    )


@rule
def kip1303_eligibility(local: LocalLog, configs: TopicConfigs) -> Kip1303Eligibility:
    """A replica is eligible unless every enabled threshold is known and missed.

    The KIP is about followers of tiered topics, so all replicas of others are eligible. An empty
    local log is known to hold nothing.
    """
    is_on = has_threshold(configs)
    _, fails = compared(local.local_log_span_ms, local.held_bytes, configs)
    eligible = ~fails | (configs.remote_storage == 0)[:, None]
    return Kip1303Eligibility(np.where(is_on[:, None], eligible, UNKNOWN).astype(np.int8))


def is_ineligible(eligibility: Kip1303Eligibility, roles: Roles) -> Bool:
    """[P, R] assigned replicas that KIP-1303 elects after all others."""
    ineligible: Bool = (eligibility.eligible_kip1303 == 0) & roles.is_assigned
    return ineligible


@rule
def next_leaders_kip1303(
    electorate: Electorate, eligibility: Kip1303Eligibility, stock: NextLeaders
) -> NextLeadersKip1303:
    """The next leaders by Kafka's rule, with eligible replicas before others."""
    return elected_without_kip1303(electorate, eligibility, electorate.roles.is_leader, stock)


@rule
def kip1303_leadership(
    electorate: Electorate, eligibility: Kip1303Eligibility
) -> Kip1303Leadership:
    """The effects on partitions that have a leader and an ineligible replica; no other has any."""
    cold = is_ineligible(eligibility, electorate.roles)
    flags = np.zeros(len(cold), np.uint8)
    row = np.flatnonzero(any_slot(cold) & (electorate.partitions.leader != NO_BROKER))
    if not len(row):
        return Kip1303Leadership(flags)
    state, cold = state_as_it_is(electorate).rows(row), cold[row]
    order = warm_first(~cold)
    stock, _ = elect(state, Kind.PREFERRED)
    elected, _ = elect(state, Kind.PREFERRED, order)
    first = state.broker[np.arange(len(row)), order[:, 0]]
    stays = elected == state.leader
    leads_cold = any_slot((state.broker == state.leader[:, None]) & cold)
    kept = stays & leads_cold & (first != state.leader)
    noop = stays & (state.leader != state.broker[:, 0]) & (stock == state.broker[:, 0])
    flags[row] = np.where(kept, LeadershipFlags.COLD_LEADER_KEPT, 0) | np.where(
        noop, LeadershipFlags.BALANCER_NOOP, 0
    )
    return Kip1303Leadership(flags)


def elected_without_kip1303(
    electorate: Electorate, eligibility: Kip1303Eligibility, lost: Slots, stock: NextLeaders
) -> NextLeadersKip1303:
    """[P] who leads if the brokers of those replicas [P, R] were fenced at once.

    Where every replica is eligible KIP-1303 sorts nothing, so only the other rows are elected
    again.

    Args:
        electorate: the tables that an election reads.
        eligibility: [P, R] of the same partitions.
        lost: [P, R] replicas on brokers that are fenced.
        stock: [P] who is elected by Kafka's rule.
    """
    cold = is_ineligible(eligibility, electorate.roles)
    leader, outcome = stock.leader.copy(), stock.outcome.copy()
    row = np.flatnonzero(any_slot(cold))
    if len(row):
        few = electorate.take(row)
        leader[row], outcome[row] = hold_election(
            state_without(few, lost[row]),
            holds_unclean_elections(few.topic_configs),
            warm_first(~cold[row]),
        )
    return NextLeadersKip1303(leader, outcome, coverage_of(leader, electorate))


def warm_first(eligible: Slots) -> NDArray[np.int16]:
    """[P, R] slots in KIP-1303's order: enough local log first, assignment order within each.

    Ineligible replicas are moved back, never removed: a partition with no other still elects.
    """
    return np.argsort(~eligible, axis=1, kind="stable").astype(np.int16)


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


@adds_to("kafka_twin_partition_next_leader")
def next_leader(
    partitions: Partitions, following: NextLeadersKip1303
) -> Mapping[tuple[str], KnownValues]:
    """The next leader by the rule of KIP-1303."""
    described = partitions.described_at_ms != UNKNOWN
    return {("kip1303",): KnownValues(following.leader, described)}


@adds_to("kafka_twin_broker_loss_partitions")
def loss_partitions(
    partitions: Partitions, following: NextLeadersKip1303
) -> Mapping[tuple[str, str, str], ByBroker]:
    """The partitions of each broker by outcome and coverage, by the rule of KIP-1303."""
    losses = by_outcome(partitions, following.outcome, following.coverage)
    return {("kip1303", *labels): brokers for labels, brokers in losses.items()}


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
