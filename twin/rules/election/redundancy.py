"""Partitions with too few replicas to survive a loss, whatever the state of the cluster.

A partition with one replica is offline without its broker. A partition with no more replicas than
min.insync.replicas refuses acks=all if any of them is missing. Both follow from configuration, so
they are counted separately and left out of the verdicts on the loss of a broker.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from twin.declarations.declare import gauge, rule
from twin.declarations.results import ByBroker
from twin.declarations.table import UNKNOWN, Bool, Int8, PartitionTable, column
from twin.kafka.election import Outcome
from twin.rules.election.after_loss import LeadersAfterLoss, Shortfalls
from twin.rules.isr.isr_sizes import IsrSizes
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr, TopicConfigs
from twin.tables.state import Assignment, Partitions


class Spare(IntEnum):
    """Whether a partition can do without one of its replicas, once all are in sync."""

    SPARE = 0
    NO_SPARE = 1  # no more replicas than min.insync.replicas
    ONE_REPLICA = 2
    ONE_REPLICA_ACCEPTED = 3  # accepted by cluster.one_replica_topics
    NOT_JUDGED = 4  # diskless: any broker can serve it


class Redundancy(
    PartitionTable, kind="redundancy", api="", on_demand="numbers of replicas, compared"
):
    """[P] whether each partition can do without one of its replicas, once all are in sync."""

    redundancy: Int8 = column(
        "spare: it can do without one replica; no_spare: it has no more than min.insync.replicas; "
        "one_replica; one_replica_accepted: its topic matches `cluster.one_replica_topics`; "
        "not_judged: it is diskless",
        enum=Spare,
    )


@rule
def redundancy(
    partitions: Partitions, sizes: IsrSizes, least: LeaderMinIsr, configs: TopicConfigs
) -> Redundancy:
    """By the number of assigned replicas, without those that a reassignment still adds."""
    one = np.where(configs.one_replica_accepted == 1, Spare.ONE_REPLICA_ACCEPTED, Spare.ONE_REPLICA)
    more = np.where(sizes.expected <= least.min_isr, Spare.NO_SPARE, Spare.SPARE)
    spare = np.where(sizes.expected == 1, one, more)
    spare = np.where(configs.diskless == 1, Spare.NOT_JUDGED, spare)
    is_known = (partitions.described_at_ms != UNKNOWN) & (sizes.expected > 0)
    return Redundancy(np.where(is_known, spare, UNKNOWN).astype(np.int8))


def has_one_replica(redundancy: Redundancy) -> Bool:
    """[P] the partition has one replica, accepted or not."""
    return np.isin(redundancy.redundancy, (Spare.ONE_REPLICA, Spare.ONE_REPLICA_ACCEPTED))


# ---------------------------------------------------------------- exported


@gauge("partitions_one_replica", "Partitions of one replica, without those that are accepted.")
def partitions_one_replica(redundancy: Redundancy) -> int:
    """The partitions with one replica that the configuration does not accept."""
    return int((redundancy.redundancy == Spare.ONE_REPLICA).sum())


@gauge(
    "partitions_one_replica_accepted",
    "Partitions of one replica that the configuration accepts (cluster.one_replica_topics).",
)
def partitions_one_replica_accepted(redundancy: Redundancy) -> int:
    """The partitions with one replica that the configuration accepts."""
    return int((redundancy.redundancy == Spare.ONE_REPLICA_ACCEPTED).sum())


@gauge(
    "partitions_no_spare_replica",
    "Partitions of several replicas, but no more than min.insync.replicas: without any of them "
    "acks=all is refused.",
)
def partitions_no_spare_replica(redundancy: Redundancy) -> int:
    """The partitions that refuse acks=all without one of their brokers."""
    return int((redundancy.redundancy == Spare.NO_SPARE).sum())


@gauge("partitions_not_described", "Partitions that no listing has described yet.")
def partitions_not_described(partitions: Partitions) -> int:
    """The partitions of which neither replicas nor leaders are known."""
    return int((partitions.described_at_ms == UNKNOWN).sum())


@gauge(
    "one_replica_partitions",
    "Partitions that have their only replica on the broker, without those that are accepted.",
    level="broker",
)
def one_replica_partitions(
    redundancy: Redundancy, roles: Roles, assignment: Assignment
) -> ByBroker:
    """The single replicas by broker."""
    return _by_broker(redundancy, Spare.ONE_REPLICA, roles, assignment)


@gauge(
    "one_replica_accepted_partitions",
    "Partitions that have their only replica on the broker, as the configuration accepts.",
    level="broker",
)
def one_replica_accepted_partitions(
    redundancy: Redundancy, roles: Roles, assignment: Assignment
) -> ByBroker:
    """The accepted single replicas by broker."""
    return _by_broker(redundancy, Spare.ONE_REPLICA_ACCEPTED, roles, assignment)


def _by_broker(
    redundancy: Redundancy, spare: Spare, roles: Roles, assignment: Assignment
) -> ByBroker:
    here = roles.is_assigned & (redundancy.redundancy == spare)[:, None]
    return ByBroker(assignment.broker[here])


@gauge(
    "loss_harmed_partitions",
    "Partitions that losing the broker would take offline, make lose records, or leave under min "
    "ISR, of those whose replication can prevent that. 0: the broker can be lost.",
    level="broker",
)
def loss_harmed_partitions(
    redundancy: Redundancy,
    after: LeadersAfterLoss,
    shortfalls: Shortfalls,
    sizes: IsrSizes,
    least: LeaderMinIsr,
    roles: Roles,
    assignment: Assignment,
) -> ByBroker:
    """A leader without a safe successor, or a member of an ISR that has no member to spare.

    As ``whatif lose`` has it. A partition that is under min ISR already is not counted again.
    """
    can_fall = (redundancy.redundancy == Spare.SPARE) & (sizes.size >= least.min_isr)
    unsafe = (after.outcome >= Outcome.LAST_KNOWN) & ~has_one_replica(redundancy)
    harmed = roles.is_leader & unsafe[:, None] | shortfalls.falls_short & can_fall[:, None]
    described = ~np.isin(redundancy.redundancy, (UNKNOWN, Spare.NOT_JUDGED))
    return ByBroker(assignment.broker[harmed & roles.is_assigned & described[:, None]])
