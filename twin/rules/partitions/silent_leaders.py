"""Partitions whose leader does not answer, although Kafka has elected no other.

A broker that is lost is fenced once its session has expired (9 s by default), and its partitions
get other leaders. Nobody is fenced or elected while the controllers have no majority, and nobody
can be elected if all candidates are lost. Then the metadata still name a leader that is gone.
"""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import Alert, risk
from twin.declarations.table import Bool
from twin.tables.state import Brokers, Partitions


@risk(
    "leader_silent",
    rank=15,
    severity="page",
    # Longer than a session, also a longer one than the default: Kafka elects another if it can.
    open_after_ms=30_000,
    sentence="the leader does not answer, and Kafka has elected no other",
    source="answers of brokers",
    alert=Alert(
        summary="have a leader that does not answer",
        description="The leaders of {n} partitions of {cluster} do not answer, and Kafka has "
        "elected no others. Unless only the twin cannot reach them, clients can neither write nor "
        "read there.",
        wait="0s",
        keep_firing_for="1m",
    ),
)
def has_silent_leader(partitions: Partitions, brokers: Brokers) -> Bool:
    """The leader's broker is known and did not answer in this cycle."""
    answered = np.append(brokers.answered, True)  # for leaders that are not known as brokers
    return ~answered[keys.find_sorted(brokers.broker, partitions.leader)]
