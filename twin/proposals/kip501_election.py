"""Elections by KIP-501: replicas that its solution 1 keeps in the ISR may lead.

A slow leader removes healthy followers from the ISR. If the leader is lost then, no replica
in sync is left. The KIP wants to prevent that outage.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import election_rule
from twin.proposals.kip501 import InSyncKip501, kept_isr
from twin.rules.election.ballots import Ballot
from twin.rules.partitions.leaders import Roles
from twin.rules.replication.isr_shrinks import IsrShrinks
from twin.tables.state import Assignment


@election_rule("kip501", "KIP-501")
def kip501(
    roles: Roles, assignment: Assignment, shrinks: IsrShrinks, now_in_sync: InSyncKip501
) -> Ballot:
    """The ISR, and replicas that left it in the last minutes and would have stayed."""
    members = kept_isr(roles, assignment, shrinks, now_in_sync)
    return Ballot(members, np.zeros(members.shape, np.int8))
