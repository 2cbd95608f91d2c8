"""What KIP-1303's order does to the balance of leaders, and for how long.

Kafka keeps counting replica 0 as the preferred leader (PartitionRegistration.hasPreferredLeader,
ReplicationControlManager.maybeBalancePartitionLeaders), so a thin replica 0 leaves its partition
imbalanced: the balancer finds it every 300 s and its election changes nothing, until that replica
has grown to the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.rules.coverage import held_bytes, is_empty, span_ms
from twin.rules.election import Ballot, Kind, as_it_stands, elect, warm_first
from twin.rules.growth import bytes_per_record
from twin.tables import NO_BROKER, UNKNOWN, Coverage, Election

NEVER: Final = np.inf
"""Seconds until a replica is eligible where no growth can get it there."""

HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Balance:
    """[P] who would lead once leader balancing has run, under each rule."""

    kafka: Array
    kip1303: Array


def balanced(fleet: Fleet) -> Balance:
    """Leaders after a PREFERRED election of every partition, as the balancer holds it."""
    ballot = as_it_stands(fleet)
    kafka, _ = elect(ballot, Kind.PREFERRED)
    kip1303 = kafka.copy()
    thin = (fleet.coverage == Coverage.THIN) & fleet.present
    row = np.flatnonzero(thin.any(axis=1))
    if len(row):
        kip1303[row], _ = elect(ballot.rows(row), Kind.PREFERRED, warm_first(~thin[row]))
    return Balance(kafka, kip1303)


def election(fleet: Fleet) -> NDArray[np.uint8]:
    """[P] bits of Election. Partitions without thin replicas, or without a leader, have none."""
    thin = (fleet.coverage == Coverage.THIN) & fleet.present
    bits = np.zeros(len(fleet), np.uint8)
    row = np.flatnonzero(thin.any(axis=1) & (fleet.leader != NO_BROKER))
    if not len(row):
        return bits
    ballot: Ballot = as_it_stands(fleet).rows(row)
    order = warm_first(~thin[row])
    stock, _ = elect(ballot, Kind.PREFERRED)
    sorted_first = ballot.broker[np.arange(len(row)), order[:, 0]]
    elected, _ = elect(ballot, Kind.PREFERRED, order)
    stays = elected == ballot.leader
    leader_thin = ((ballot.broker == ballot.leader[:, None]) & thin[row]).any(axis=1)
    kept = stays & leader_thin & (sorted_first != ballot.leader)
    noop = stays & (ballot.leader != ballot.broker[:, 0]) & (stock == ballot.broker[:, 0])
    bits[row] = np.where(kept, Election.THIN_LEADER_KEPT, 0) | np.where(
        noop, Election.BALANCER_NOOP, 0
    )
    return bits


def seconds_to_eligible(fleet: Fleet, now_ms: int) -> NDArray[np.float64]:
    """[P, R] until a thin replica reaches a threshold; 0 unless thin, NaN where nobody can tell.

    By span it gets there with the clock, as long as its log is not empty; by bytes as its partition
    grows. Local retention bounds both: a threshold beyond it is never reached (NEVER).
    """
    seconds = np.zeros(fleet.broker.shape)
    thin = (fleet.coverage == Coverage.THIN) & fleet.present
    row = np.flatnonzero(thin.any(axis=1))
    if len(row):
        by_span = _seconds_by_span(fleet, row, now_ms)
        by_bytes = _seconds_by_bytes(fleet, row)
        soonest = np.fmin(by_span, by_bytes)
        # One way that is never reached does not settle it while the other is unknown.
        unsure = (np.isnan(by_span) | np.isnan(by_bytes)) & (soonest == NEVER)
        seconds[row] = np.where(thin[row], np.where(unsure, np.nan, soonest), 0.0)
    return seconds


def unreachable(fleet: Fleet) -> NDArray[np.bool_]:
    """[P] thresholds are set, and local retention lets no replica reach any of them."""
    least_ms = fleet.topic_setting("eligible_local_log_ms")
    least_bytes = fleet.topic_setting("eligible_local_log_bytes")
    on_ms, on_bytes = least_ms > 0, least_bytes > 0
    reachable = (on_ms & ~_above(least_ms, fleet, "local_retention_ms")) | (
        on_bytes & ~_above(least_bytes, fleet, "local_retention_bytes")
    )
    beyond: NDArray[np.bool_] = (on_ms | on_bytes) & ~reachable
    return beyond


def out_of_rack(fleet: Fleet) -> NDArray[np.bool_]:
    """[P] led from another rack than its preferred replica's, both racks known."""
    leader, preferred = racks_of(fleet, fleet.leader), racks_of(fleet, fleet.broker[:, 0])
    apart: NDArray[np.bool_] = (leader != preferred) & (leader != UNKNOWN) & (preferred != UNKNOWN)
    return apart


def rack_names(fleet: Fleet) -> list[str]:
    """The racks brokers are in, sorted."""
    return sorted({str(rack) for rack in fleet.brokers.rack if rack})


def racks_of(fleet: Fleet, broker: Array) -> NDArray[np.int64]:
    """The place in ``rack_names`` of each broker, any shape; UNKNOWN without a rack."""
    ids = fleet.brokers.broker
    if not len(ids):
        return np.full(broker.shape, UNKNOWN)
    place = {name: i for i, name in enumerate(rack_names(fleet))}
    of_broker = np.array([place.get(str(rack), UNKNOWN) for rack in fleet.brokers.rack])
    at = np.minimum(np.searchsorted(ids, broker), len(ids) - 1)
    return np.where(ids[at] == broker, of_broker[at], UNKNOWN)


def _above(least: Array, fleet: Fleet, retention: str) -> Array:
    """[P] local retention is known to delete before the threshold is reached."""
    kept = fleet.topic_setting(retention)
    above: Array = (kept >= 0) & (least > kept) & (fleet.topic_setting("remote_storage") == 1)
    return above


def _seconds_by_span(fleet: Fleet, row: Array, now_ms: int) -> Array:
    least = fleet.topic_setting("eligible_local_log_ms")
    span = span_ms(fleet, now_ms)[row]
    left = np.where(span == UNKNOWN, np.nan, np.maximum(least[row][:, None] - span, 0) / 1000)
    never = (least <= 0) | _above(least, fleet, "local_retention_ms")
    # An empty log has no first record; its span begins with the next one that is written.
    waits = is_empty(fleet)[row] & (fleet.appended_per_s[row] <= 0)[:, None]
    return np.where(never[row][:, None] | waits, NEVER, left)


def _seconds_by_bytes(fleet: Fleet, row: Array) -> Array:
    least = fleet.topic_setting("eligible_local_log_bytes")
    held = held_bytes(fleet)[row]
    missing = np.where(held == UNKNOWN, np.nan, np.maximum(least[row][:, None] - held, 0))
    rate = fleet.appended_per_s[row]
    growth = np.where(rate == UNKNOWN, np.nan, rate) * bytes_per_record(fleet)[row]
    growth = np.where(rate == 0, 0.0, growth)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(growth == 0, NEVER, missing / growth)
    never = (least <= 0) | _above(least, fleet, "local_retention_bytes")
    return np.where(never[row][:, None], NEVER, left)


@dataclass(frozen=True, slots=True)
class ReportTraffic:
    """[P] AlterPartition reports an hour that KIP-1303 would add. Whole numbers: shards add up."""

    every_change_min: NDArray[np.int64]
    every_change_max: NDArray[np.int64]
    crossings: NDArray[np.int64]


def report_traffic(fleet: Fleet, now_ms: int) -> ReportTraffic:
    """What leaders would tell the controller, if every change counts or only crossings do.

    Every append changes the bytes of each follower, and the leader reports per partition: no less
    than one report for each partition that grew between two polls, no more than one a record.
    Crossings are those predicted for the next hour.
    """
    rate = np.maximum(fleet.appended_per_s, 0)
    grows = fleet.of_leader(fleet.log_end_offset) > fleet.leader_end_before_offset
    grew = grows & (fleet.leader_end_before_offset != UNKNOWN) & (rate > 0)
    interval_ms = fleet.observed_at_ms - fleet.before_at_ms
    polled = UNKNOWN not in (fleet.observed_at_ms, fleet.before_at_ms) and interval_ms > 0
    soon = seconds_to_eligible(fleet, now_ms)
    return ReportTraffic(
        every_change_min=grew * (HOUR_MS // interval_ms if polled else 0),
        every_change_max=np.rint(rate * (HOUR_MS / 1000)).astype(np.int64),
        crossings=((soon > 0) & (soon <= HOUR_MS / 1000)).sum(axis=1),
    )
