"""Racks that have no in-sync replica of a partition: their consumers read it from another rack.

Fetching from followers (KIP-392) keeps traffic inside a rack only where an in-sync replica is in
it. The twin does not know what consumers read. A consumer that reads a whole partition from another
rack moves at least what is written to it.
"""

from __future__ import annotations

import numpy as np

from twin.arrays import plain
from twin.declarations.declare import api_field, gauge, rule
from twin.declarations.results import ByRack
from twin.declarations.table import UNKNOWN, Float64, Int32, SparseTable, column
from twin.rules.brokers.racks import rack_names, racks_of
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Roles
from twin.tables.state import Assignment, Brokers, Partitions


class RackGaps(SparseTable, kind="rack_gaps", on_demand="racks of the ISR, looked up"):
    """[N] one row a partition and rack that has no in-sync replica of it."""

    rack: Int32 = column("place in the sorted names of racks")
    bytes_per_s: Float64 = column(
        "bytes written to the partition a second; NaN if unknown", fill=float("nan")
    )


@rule
def rack_gaps(
    assignment: Assignment,
    roles: Roles,
    partitions: Partitions,
    brokers: Brokers,
    growth: Growth,
    sizes: RecordSizes,
) -> RackGaps:
    """The racks without an in-sync replica, for every described partition and every rack."""
    racks = len(rack_names(brokers))
    place = racks_of(brokers, assignment.broker)
    serves = roles.in_isr & roles.is_assigned & ~roles.is_offline & (place != UNKNOWN)
    covered = np.zeros((len(place), racks), bool)
    row, slot = np.nonzero(serves)
    covered[row, place[row, slot]] = True
    row, rack = np.nonzero(~covered & (partitions.described_at_ms != UNKNOWN)[:, None])
    rate = growth.appended_records_per_s
    written = np.where(rate == 0, 0.0, rate * sizes.bytes_per_record)
    written = np.where(rate == UNKNOWN, np.nan, written)
    return RackGaps(row.astype(np.int32), rack.astype(np.int32), written[row])


@gauge(
    "partitions_without_in_sync_replica",
    "Partitions without an in-sync replica in the rack, whose consumers read from another rack.",
    level="rack",
)
def partitions_without_in_sync_replica(gaps: RackGaps) -> ByRack:
    """The partitions by rack."""
    return ByRack(gaps.rack)


@gauge(
    "without_in_sync_replica_bytes_per_second",
    "Bytes written a second to partitions without an in-sync replica in the rack; partitions of "
    "unknown rate are left out.",
    level="rack",
)
def without_in_sync_replica_bytes_per_second(gaps: RackGaps) -> ByRack:
    """The whole bytes by rack, which add up over shards."""
    has_rate = ~np.isnan(gaps.bytes_per_s)
    return ByRack(gaps.rack[has_rate], np.rint(gaps.bytes_per_s[has_rate]).astype(np.int64))


@gauge(
    "without_in_sync_replica_unknown_rates",
    "Partitions without an in-sync replica in the rack whose bytes written a second are unknown.",
    level="rack",
)
def without_in_sync_replica_unknown_rates(gaps: RackGaps) -> ByRack:
    """The partitions that no sum of bytes includes."""
    return ByRack(gaps.rack[np.isnan(gaps.bytes_per_s)])


@api_field(
    "racks_without_in_sync_replica",
    "racks that have brokers and no in-sync replica of the partition: their consumers read from "
    "another rack",
)
def racks_without_in_sync_replica(
    gaps: RackGaps, brokers: Brokers, partitions: Partitions
) -> list[list[str]]:
    """The names of the racks."""
    names = rack_names(brokers)
    return plain.by_partition(
        gaps.row, (names[place] for place in gaps.rack.tolist()), len(partitions.leader)
    )
