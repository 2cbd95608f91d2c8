"""Who may lead by an election rule, and in which order candidates are tried.

Kafka's own rule is here; ``twin.proposals`` has others, and a package may add its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin.arrays.slots import any_slot
from twin.declarations.declare import election_rule
from twin.declarations.table import KAFKA, Bool, Int8, ReplicaTable, column
from twin.kafka.election import Slots
from twin.rules.partitions.leaders import Roles


class Ballot(
    ReplicaTable, kind="ballot", on_demand="a function of stored columns", by_election_rule=True
):
    """[P, R] how an election rule treats each replica."""

    in_sync: Bool = column("in sync by the election rule", fill=False)
    rank: Int8 = column(
        "candidates of a lower rank come first, those of one rank in the order of the assignment",
        fill=0,
    )

    def order(self, is_assigned: Slots) -> NDArray[np.int16]:
        """[P, R] slots in the order in which they are tried.

        Slots that are not assigned [P, R] come last, whatever the ranks of the others: how wide
        the tables are must not decide who is preferred.
        """
        rank = np.where(is_assigned, self.rank, np.int16(np.iinfo(np.int16).max))
        return np.argsort(rank, axis=1, kind="stable").astype(np.int16)

    def differs(self, roles: Roles) -> Bool:
        """[P] partitions whose leader may differ from that by Kafka's rule."""
        return any_slot((self.rank != 0) | (self.in_sync != in_isr(roles)))


def in_isr(roles: Roles) -> Slots:
    """[P, R] members of the ISR that are assigned."""
    return roles.in_isr & roles.is_assigned


@election_rule(KAFKA, "Kafka")
def kafka(roles: Roles) -> Ballot:
    """The ISR, in the order of the assignment.

    Source: PartitionChangeBuilder.electLeader, Kafka 4.3.
    """
    members = in_isr(roles)
    return Ballot(members, np.zeros(members.shape, np.int8))
