"""Rules of proposals that no Kafka has yet: KIP-1303 and KIP-501, one file an idea.

Each proposal can be switched off by configuration; then its tables are neither computed nor stored.
The rules of ``twin.rules`` do not depend on them.
"""

from __future__ import annotations

from twin.proposals import (
    kip501,
    kip501_election,
    kip501_handovers,
    kip1303,
    kip1303_balance,
    kip1303_reports,
)

PROPOSALS = {
    "kip1303": (kip1303, kip1303_balance, kip1303_reports),
    "kip501": (kip501, kip501_election, kip501_handovers),
}
"""Modules of each proposal, by the name that the configuration uses."""
