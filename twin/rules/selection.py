"""Which replica a consumer is sent to (KIP-392), and what it meets there.

A leader with RackAwareReplicaSelector sends a consumer to an in-sync replica in the consumer's own
rack. It looks at log ends and log starts, not at what is on disk: a follower that joined by
KIP-1023 is chosen for offsets that it must read from remote storage. KIP-1023 asks for such
followers to be deprioritised. The tier-aware choice here reads that as: replicas whose local log
begins above the offset come last, in the consumer's rack as anywhere.

Brokers do not tell whether a selector is configured; the rules assume RackAwareReplicaSelector.
Source: RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.rules.balance import rack_names, racks_of
from twin.tables import NO_BROKER, UNKNOWN, OutOfRange, Slot

_NEVER = np.int64(1) << 62


@dataclass(frozen=True, slots=True)
class Views:
    """[P, R] what a selector sees of each replica."""

    broker: Array
    rack: Array  # place in rack_names, UNKNOWN without one
    log_end_offset: Array
    since_caught_up_ms: Array
    leads: Array

    def rows(self, row: Array) -> Views:
        """Those of some partitions."""
        return Views(*(getattr(self, field.name)[row] for field in fields(Views)))


@dataclass(frozen=True, slots=True)
class ColdReads:
    """[P] offsets that a consumer of some rack would read from remote storage for no need.

    The widest window over the racks: from ``start_offset`` up to, not including, ``end_offset``, on
    ``broker``; NO_BROKER and an empty window where there is none.
    """

    start_offset: Array
    end_offset: Array
    broker: Array

    @property
    def records(self) -> Array:
        """[P] offsets in the window."""
        return self.end_offset - self.start_offset


def select(views: Views, candidates: Array, rack: Array | int) -> NDArray[np.int32]:
    """[P] the broker that RackAwareReplicaSelector picks of the candidates for a client's rack.

    The leader, if no candidate is in the rack or the leader itself is; else the one with the
    highest log end, then the latest caught up, then the highest id. ``rack`` is a place in
    ``rack_names``; UNKNOWN is a client without one.
    """
    near = candidates & (views.rack == np.asarray(rack).reshape(-1, 1)) & (views.rack != UNKNOWN)
    leader = _leader(views)
    follows = (leader != NO_BROKER) & near.any(axis=1) & ~(near & views.leads).any(axis=1)
    return np.where(follows, _best(views, near), leader).astype(np.int32)


def select_warm(views: Views, candidates: Array, is_warm: Array, rack: Array | int) -> Array:
    """[P] the tier-aware choice: of the warm candidates, if there are any.

    Where the leader is not warm itself, and no warm candidate is in the rack, the best warm one of
    any rack serves.
    """
    warm = candidates & is_warm
    chosen = select(views, warm, rack)
    is_cold = ~((views.broker == chosen[:, None]) & warm).any(axis=1)
    row = np.flatnonzero(is_cold & warm.any(axis=1))
    if len(row):
        chosen[row] = _best(views.rows(row), warm[row])
    nobody = ~warm.any(axis=1)
    return np.where(nobody, select(views, candidates, rack), chosen)


def preferred_read_replica(
    fleet: Fleet, rack: str, offset: NDArray[np.int64], now_ms: int, tier_aware: bool = False
) -> NDArray[np.int32]:
    """[P] the broker a consumer of that rack is sent to for that offset, NO_BROKER without leader.

    Followers that nobody heard of are no candidates.
    """
    views, names = views_of(fleet, now_ms), rack_names(fleet)
    place = names.index(rack) if rack in names else UNKNOWN
    candidates = _candidates(fleet, offset)
    if not tier_aware:
        return select(views, candidates, place)
    local = fleet.local_log_start_offset
    is_warm = (local != UNKNOWN) & (local <= offset[:, None])
    return select_warm(views, candidates, is_warm, place).astype(np.int32)


def views_of(fleet: Fleet, now_ms: int) -> Views:
    """What the selector sees; who was never seen caught up was so the longest ago."""
    caught_up = fleet.caught_up_at_ms
    since = np.where(caught_up == UNKNOWN, _NEVER, np.maximum(now_ms - caught_up, 0))
    return Views(
        broker=fleet.broker,
        rack=racks_of(fleet, fleet.broker),
        log_end_offset=fleet.log_end_offset,
        since_caught_up_ms=np.where(fleet.leads, 0, since),
        leads=fleet.leads,
    )


def cold_reads(fleet: Fleet, now_ms: int) -> ColdReads:
    """The widest window of each partition in which a consumer is sent to a cold replica.

    Looked for between the highest log start and the lowest log end of the in-sync replicas, where
    all of them are candidates and the choice is the same for every offset.
    """
    found = ColdReads(
        start_offset=np.full(len(fleet), UNKNOWN, np.int64),
        end_offset=np.full(len(fleet), UNKNOWN, np.int64),
        broker=np.full(len(fleet), NO_BROKER, np.int32),
    )
    serving = _serving(fleet)
    local = fleet.local_log_start_offset
    highest = np.where(serving, local, UNKNOWN).max(axis=1, initial=UNKNOWN)
    lowest = np.where(serving, local, _NEVER).min(axis=1, initial=_NEVER)
    row = np.flatnonzero((highest > lowest) & (fleet.topic_setting("remote_storage") == 1))
    if not len(row):
        return found
    serving, local = serving[row], local[row]
    all_views = views_of(fleet, now_ms)
    views = all_views.rows(row)
    begins = np.where(serving, fleet.log_start_offset[row], UNKNOWN).max(axis=1)
    ends = np.where(serving, fleet.log_end_offset[row], _NEVER).min(axis=1)
    for rack in range(len(rack_names(fleet))):
        chosen = select(views, serving, rack)
        sent_to = views.broker == chosen[:, None]
        start = np.maximum(begins, lowest[row])
        end = np.minimum(ends, np.where(sent_to, local, UNKNOWN).max(axis=1))
        wider = end - start > np.maximum(found.records[row], 0)
        at = row[wider]
        found.start_offset[at], found.end_offset[at] = start[wider], end[wider]
        found.broker[at] = chosen[wider]
    return found


def high_watermark(fleet: Fleet) -> NDArray[np.int64]:
    """[P] an estimate: the lowest log end of the ISR as sampled, UNKNOWN where one is not known.

    The leader's own is at most one fetch behind it.
    """
    isr = fleet.marked(Slot.IN_ISR) & fleet.present
    ends = np.where(isr, fleet.log_end_offset, _NEVER).min(axis=1, initial=_NEVER)
    return np.where(ends == _NEVER, UNKNOWN, ends)


def windows(fleet: Fleet) -> dict[OutOfRange, tuple[Array, Array]]:
    """[P, R] first offset and end of the window of each case, empty (0, 0) where there is none.

    Followers on live brokers only. Source: KIP-392, "high watermark propagation" and the cases of
    its section on out of range errors.
    """
    end, start = fleet.log_end_offset, fleet.log_start_offset
    committed = high_watermark(fleet)[:, None]
    leader_end = fleet.of_leader(end)[:, None]
    leader_start = fleet.of_leader(start)[:, None]
    follows = fleet.present & ~fleet.leads & ~fleet.marked(Slot.OFFLINE)
    follows &= (end != UNKNOWN) & (committed != UNKNOWN)
    bounds = {
        OutOfRange.UNCOMMITTED: (committed, end),
        OutOfRange.UNAVAILABLE: (end, committed),
        OutOfRange.TOO_SMALL: (leader_start, start),
        OutOfRange.TOO_LARGE: (np.maximum(end, committed), leader_end),
    }
    found = {}
    for case, (lower, upper) in bounds.items():
        # An unknown upper end is below everything; an unknown lower one is not.
        holds = follows & (upper > lower) & (lower != UNKNOWN)
        found[case] = np.where(holds, lower, 0), np.where(holds, upper, 0)
    return found


def out_of_range(fleet: Fleet) -> NDArray[np.uint8]:
    """[P, R] bits of the cases whose window is not empty."""
    bits = np.zeros(fleet.broker.shape, np.uint8)
    for case, (lower, upper) in windows(fleet).items():
        bits |= (upper > lower) * np.uint8(case)
    return bits


def _serving(fleet: Fleet) -> Array:
    """[P, R] in-sync replicas whose offsets are known: the leader and who may be chosen."""
    told = (fleet.log_end_offset != UNKNOWN) & (fleet.local_log_start_offset != UNKNOWN)
    member = fleet.present & (fleet.leads | fleet.marked(Slot.IN_ISR))
    serving: Array = told & member & fleet.leads.any(axis=1, keepdims=True)
    return serving


def _candidates(fleet: Fleet, offset: Array) -> Array:
    """[P, R] the leader, and in-sync followers that have the offset."""
    has = (fleet.log_end_offset >= offset[:, None]) & (fleet.log_start_offset <= offset[:, None])
    known = (fleet.log_end_offset != UNKNOWN) & (fleet.log_start_offset != UNKNOWN)
    follows = fleet.marked(Slot.IN_ISR) & has & known
    candidates: Array = fleet.present & (fleet.leads | follows)
    return candidates


def _best(views: Views, among: Array) -> Array:
    """[P] the broker of them with the highest log end, the latest caught up, the highest id."""
    keys = (views.broker, -views.since_caught_up_ms, views.log_end_offset, among)
    best = np.lexsort(keys, axis=1)[:, -1]
    return views.broker[np.arange(len(best)), best]


def _leader(views: Views) -> Array:
    at = views.leads.argmax(axis=1)
    leader = views.broker[np.arange(len(at)), at]
    return np.where(views.leads.any(axis=1), leader, NO_BROKER)
