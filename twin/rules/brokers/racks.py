"""The rack of each broker, and of the leader of each partition."""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import Alert, risk
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Int64
from twin.tables.state import Assignment, Brokers, Partitions


def rack_names(brokers: Brokers) -> list[str]:
    """The racks that brokers are in, sorted."""
    return sorted({str(rack) for rack in brokers.rack if rack})


def racks_of(brokers: Brokers, broker: Array) -> Int64:
    """The place in ``rack_names`` of each broker, any shape; UNKNOWN without a rack."""
    place = {name: i for i, name in enumerate(rack_names(brokers))}
    racks = [*(place.get(str(rack), UNKNOWN) for rack in brokers.rack), UNKNOWN]
    return np.array(racks, np.int64).take(keys.find_sorted(brokers.broker, broker))


@risk(
    "rack_skew",
    rank=160,
    severity="info",
    # Two rounds of leader balancing, each 300 s: one may just have been missed.
    open_after_ms=600_000,
    sentence="the partition is led from another rack than that of its preferred replica",
    source="KIP-1303",
    alert=Alert(
        summary="are led from another rack than preferred",
        description="{n} partitions of {cluster} are led from another rack than that of their "
        "preferred replica; kafka_twin_rack_time_to_balance_seconds is the time until their "
        "leaders can be balanced.",
        wait="10m",
        keep_firing_for="10m",
    ),
)
def is_out_of_rack(partitions: Partitions, assignment: Assignment, brokers: Brokers) -> Bool:
    """The racks of the leader and of the preferred replica are known and differ."""
    leader, preferred = partitions.leader, assignment.broker[:, 0]
    apart: Bool = (leader != preferred) & (leader != NO_BROKER)
    row = np.flatnonzero(apart)
    here, there = racks_of(brokers, leader[row]), racks_of(brokers, preferred[row])
    apart[row] = (here != there) & (here != UNKNOWN) & (there != UNKNOWN)
    return apart
