"""Elections by KIP-501: replicas that its solution 1 keeps in the ISR may lead.

A slow leader removes healthy followers from the ISR. If the leader is lost then, no replica
in sync is left. The KIP wants to prevent that outage.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import election_rule, rule
from twin.declarations.signature import Before, Lazy
from twin.declarations.table import NO_BROKER, Bool, Int32, SparseTable, column
from twin.proposals.kip501 import InSyncKip501, kept_isr
from twin.rules.election.ballots import Ballot, in_isr
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.partitions.leaders import Roles
from twin.tables.state import Assignment, Partitions


class Kip501Outages(SparseTable, kind="kip501_outages"):
    """[N] one row a replica that solution 1 keeps in the ISR of a partition without a leader.

    Shrinks are remembered for ten minutes, and such an outage lasts until the leader is back.
    """

    broker: Int32 = column("broker id of the replica")


@rule
def kip501_outages(
    partitions: Partitions,
    roles: Roles,
    assignment: Assignment,
    shrinks: IsrShrinks,
    now_in_sync: Lazy[InSyncKip501],
    before: Before[Kip501Outages],
) -> Kip501Outages:
    """Replicas that it keeps now, and those that it kept when the partition lost its leader."""
    is_led = partitions.leader != NO_BROKER
    if is_led.all():
        return Kip501Outages.empty()
    kept = _with_replicas(in_isr(roles), before, assignment)
    if len(shrinks):
        kept |= kept_isr(roles, assignment, shrinks, now_in_sync())
    row, slot = np.nonzero(kept & ~in_isr(roles) & roles.is_assigned & ~is_led[:, None])
    return Kip501Outages(row.astype(np.int32), assignment.broker[row, slot])


@election_rule("kip501", "KIP-501")
def kip501(
    roles: Roles,
    assignment: Assignment,
    shrinks: IsrShrinks,
    now_in_sync: InSyncKip501,
    outages: Kip501Outages,
) -> Ballot:
    """The ISR, and replicas that left it in the last minutes and would have stayed."""
    members = kept_isr(roles, assignment, shrinks, now_in_sync)
    members = _with_replicas(members, outages, assignment)
    return Ballot(members, np.zeros(members.shape, np.int8))


def _with_replicas(members: Bool, replicas: Kip501Outages, assignment: Assignment) -> Bool:
    """[P, R] the members and those replicas."""
    row = replicas.row
    at, slot = np.nonzero(assignment.broker[row] == replicas.broker[:, None])
    members[row[at], slot] = True
    return members
