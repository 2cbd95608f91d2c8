"""The leader and the number of in-sync replicas of each partition, by each election rule.

Kafka's rule gives the present state. The other rules give the state as it would be if they decided
which replicas are in sync and in which order candidates are tried. KIP-501 argues with such
numbers of partitions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twin.arrays.slots import any_slot, count_slots
from twin.declarations.declare import gauge, other_elections, rule
from twin.declarations.signature import EachRule
from twin.declarations.table import NO_BROKER, UNKNOWN, Int32, PartitionTable, column
from twin.kafka.election import Outcome
from twin.rules.election.after_loss import LeadersAfterLoss
from twin.rules.election.ballots import Ballot, in_isr
from twin.rules.election.next_leader import Electorate, hold_election, state_as_it_is
from twin.rules.isr.isr_sizes import IsrSizes
from twin.rules.partitions.topic_configs import (
    LeaderMinIsr,
    TopicConfigs,
    holds_unclean_elections,
    min_isr_under,
)
from twin.tables.state import Brokers, Partitions


class Standings(
    PartitionTable, kind="standing", api="standing", on_demand="an election over stored columns",
    by_election_rule=True,
):  # fmt: skip
    """[P] who leads each partition now, and how many of its replicas are in sync."""

    leader: Int32 = column("broker id, -1 for nobody", fill=NO_BROKER, minus_one_is_a_value=True)
    in_sync: Int32 = column("replicas in sync by the election rule")


@rule
def standings(partitions: Partitions, sizes: IsrSizes) -> Standings:
    """The leader and the size of the ISR as the controller has them."""
    return Standings(partitions.leader, sizes.size)


@other_elections
def standings_by_others(electorate: Electorate, ballot: Ballot, kafka: Standings) -> Standings:
    """A leader that may lead stays; a partition without one elects one.

    A rule that only sorts the members of the ISR has no leader where Kafka has none.
    """
    leader, in_sync = kafka.leader.copy(), kafka.in_sync.copy()
    row = np.flatnonzero(ballot.differs(electorate.roles))
    if len(row):
        few, electors = ballot.take(row), electorate.take(row)
        elected, _ = hold_election(
            state_as_it_is(electors, few.in_sync),
            holds_unclean_elections(electors.topic_configs),
            few.order(electors.roles.is_assigned),
        )
        only_sorts = ~any_slot(few.in_sync != in_isr(electors.roles))
        leader[row] = np.where(only_sorts & (leader[row] == NO_BROKER), NO_BROKER, elected)
        in_sync[row] = count_slots(few.in_sync)
    return Standings(leader, in_sync)


_OUTSIDE_ISR = (Outcome.ELR, Outcome.LAST_KNOWN, Outcome.UNCLEAN)


@gauge(
    "partitions_by_election_rule",
    "Partitions by election rule that are offline or under min ISR, and that would be offline, or "
    "led from outside the ISR, if their leader were lost. A partition may be in several states.",
    labels=("rule", "state"),
)
def partitions_by_election_rule(
    partitions: Partitions,
    least: LeaderMinIsr,
    configs: TopicConfigs,
    brokers: Brokers,
    now: EachRule[Standings],
    after: EachRule[LeadersAfterLoss],
) -> Mapping[tuple[str, str], int]:
    """The partitions in each state; those that nobody has described yet count in none."""
    is_described = partitions.described_at_ms != UNKNOWN
    counts: dict[tuple[str, str], int] = {}
    for name, each in now.items():
        is_led, outcome = each.leader != NO_BROKER, after[name].outcome
        needed = min_isr_under(each.leader, least.min_isr, partitions, configs, brokers)
        states = {
            "offline": ~is_led,
            "under_min_isr": is_led & (each.in_sync < needed),
            "offline_if_leader_lost": is_led & (outcome == Outcome.NONE),
            "outside_isr_if_leader_lost": is_led & np.isin(outcome, _OUTSIDE_ISR),
        }
        counts |= {
            (name, state): int((is_described & in_it).sum()) for state, in_it in states.items()
        }
    return counts
