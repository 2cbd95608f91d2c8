"""Elections by KIP-501: replicas that its solution 1 keeps in the ISR may lead.

A slow leader removes healthy followers from the ISR. If the leader is lost then, no replica
in sync is left. The KIP wants to prevent that outage.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import election_rule
from twin.declarations.table import UNKNOWN
from twin.proposals.kip501 import InSyncKip501, would_have_stayed
from twin.rules.election.ballots import Ballot, in_isr
from twin.rules.partitions.leaders import Roles
from twin.rules.replication.isr_shrinks import IsrShrinks
from twin.tables.state import Assignment


@election_rule("kip501", "KIP-501")
def kip501(
    roles: Roles, assignment: Assignment, shrinks: IsrShrinks, now_in_sync: InSyncKip501
) -> Ballot:
    """The ISR, and replicas that left it in the last minutes and would have stayed.

    A replica whose pending fetch is not known, or that is known to be out of sync now, is not in
    sync by this rule either.
    """
    members = in_isr(roles)
    left = shrinks.pick((would_have_stayed(shrinks) == 1) & (shrinks.rejoined_at_ms == UNKNOWN))
    if len(left):
        at, slot = np.nonzero(assignment.broker[left.row] == left.broker[:, None])
        row = left.row[at]
        members[row, slot] |= roles.is_assigned[row, slot] & (
            now_in_sync.in_sync_kip501[row, slot] != 0
        )
    return Ballot(members, np.zeros(members.shape, np.int8))
