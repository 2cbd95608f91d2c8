"""How an observation changes the fleet.

The rules, each a property test:
    * a frame older than the newest cycle seen changes nothing; nor does one seen again
    * frames of one cycle give the same fleet in any order
    * of two answers about a partition the higher leader epoch wins, then the later one: a resumed
      leader answers from stale state for up to 100 ms (measured)
    * a recreated topic has a new id and starts anew
    * a partition disappears only when a whole listing no longer has it
    * what did not answer keeps its last values and ages
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from twin.fetching import merge_fetches, of_replicas
from twin.fleet import (
    Array,
    Brokers,
    Configs,
    Fleet,
    Listing,
    to_numpy,
    widened,
)
from twin.frames import Frame, FrameRefused
from twin.hysteresis import still_pending
from twin.rows import refuse_duplicate_rows, refuse_duplicates, rows_of, without
from twin.rules.joining import as_left
from twin.rules.replication import sampled_caught_up_at_ms
from twin.signals import merge_signals, of_listed
from twin.tables import CLUSTER_WIDE, CONFIGS, FLEET_REPLICAS, NO_BROKER, SAMPLE_COLUMNS, UNKNOWN
from twin.told import merge_isr_changes, merge_tier_starts, of_late

_BLANK: dict[str, Any] = {c.name: c.fill for c in FLEET_REPLICAS.columns}


def merge(fleet: Fleet, frame: Frame) -> Fleet:
    """The fleet after this frame; the same object when the frame has nothing new to say.

    Raises:
        FrameRefused: ``shard`` (another cluster, shard or number of shards), ``kind`` (no
            observation), ``rows`` (a row listed twice, or columns that contradict each other).
    """
    stamp = frame.stamp
    if (stamp.cluster, stamp.shard, stamp.shards) != (fleet.cluster, fleet.shard, fleet.shards):
        raise FrameRefused(
            "shard",
            f"{stamp.cluster}/{stamp.shard} of {stamp.shards} "
            f"in {fleet.cluster}/{fleet.shard} of {fleet.shards}",
        )
    if stamp.observed_at_ms < 0:
        raise FrameRefused("stamp", f"observed_at_ms is {stamp.observed_at_ms}")
    if stamp.kind in EVENTS:
        return EVENTS[stamp.kind](fleet, frame)
    if stamp.kind not in _MERGES:
        raise FrameRefused("kind", f"{stamp.kind} is not an observation")
    if stamp.observed_at_ms < fleet.observed_at_ms:
        return fleet
    current = fleet
    if stamp.observed_at_ms > fleet.observed_at_ms:
        current = _begin_cycle(fleet, stamp.observed_at_ms, stamp.cycle)
    return _MERGES[stamp.kind](current, frame)


def _begin_cycle(fleet: Fleet, at_ms: int, cycle: int) -> Fleet:
    """Set aside what the last cycle left: this cycle's findings derive from it, in any order."""
    end = fleet.of_leader(fleet.log_end_offset)
    end_at_ms = fleet.of_leader(fleet.sampled_at_ms)
    anchored = fleet.anchor_offset != UNKNOWN
    departures, starts = of_late(fleet, at_ms)
    return replace(
        fleet,
        configs=_used_configs(fleet),
        observed_at_ms=at_ms,
        before_at_ms=fleet.observed_at_ms,
        cycle=cycle,
        # By samples alone: a fetch may become known just before a cycle begins, or just after.
        caught_up_before_ms=sampled_caught_up_at_ms(fleet),
        slot_before=fleet.slot,
        leader_before=fleet.leader,
        leader_end_before_offset=end,
        leader_end_before_at_ms=end_at_ms,
        anchor_offset=np.where(anchored, fleet.anchor_offset, end),
        anchor_at_ms=np.where(anchored, fleet.anchor_at_ms, end_at_ms),
        appended_before_per_s=fleet.appended_per_s,
        joins=as_left(fleet.joins),
        fetches=of_replicas(fleet),
        departures=departures,
        starts=starts,
        signals=of_listed(fleet),
        risks_before=fleet.risks,
        pending=still_pending(fleet),
    )


# ---------------------------------------------------------------- brokers and configs


def _merge_brokers(fleet: Fleet, frame: Frame) -> Fleet:
    at_ms = frame.stamp.observed_at_ms
    told = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    refuse_duplicates(told["broker"], "broker")
    before = fleet.brokers
    if len(before.broker) and before.listed_at_ms.max() >= at_ms:
        return fleet
    known = np.isin(told["broker"], before.broker)
    place = np.searchsorted(before.broker, told["broker"][known])

    def held(values: Array, otherwise: Any) -> Array:
        found = np.full(len(known), otherwise)
        found[known] = values[place]
        return found

    last = held(before.answered_at_ms, UNKNOWN)
    was_silent = ~held(before.answered, otherwise=True)
    falls_silent = ~told["answered"] & ~was_silent
    until = np.where(told["answered"] & was_silent, at_ms, held(before.silent_until_ms, UNKNOWN))
    told["answered_at_ms"] = np.where(told["answered"], at_ms, last)
    told["silent_since_ms"] = np.where(falls_silent, last, held(before.silent_since_ms, UNKNOWN))
    told["silent_until_ms"] = np.where(told["answered"], until, UNKNOWN)
    told["listed_at_ms"] = np.full(len(known), at_ms)
    order = np.argsort(told["broker"])
    return replace(fleet, brokers=Brokers(**{name: v[order] for name, v in told.items()}))


def _used_configs(fleet: Fleet) -> Configs:
    """The configs without names that no topic bears since a whole listing came after them."""
    configs = fleet.configs
    old = configs.configured_at_ms < fleet.listing.whole_at_ms
    if not old.any() or len(configs.topic) <= len(fleet.topics.topic) + 1:
        return configs
    stays = ~old | np.isin(configs.topic, [*fleet.topics.topic, CLUSTER_WIDE])
    return Configs(*(getattr(configs, field.name)[stays] for field in fields(Configs)))


def _merge_configs(fleet: Fleet, frame: Frame) -> Fleet:
    at_ms = frame.stamp.observed_at_ms
    told = {name: to_numpy(frame.rows.column(name)) for name in CONFIGS.schema.names}
    refuse_duplicates(told["topic"], "topic")
    told["configured_at_ms"] = np.full(len(told["topic"]), at_ms)
    before = fleet.configs
    stays = ~np.isin(before.topic, told["topic"])
    joined = {
        field.name: np.concatenate([getattr(before, field.name)[stays], told[field.name]])
        for field in fields(Configs)
    }
    order = np.argsort(joined["topic"].astype(object), kind="stable")
    return replace(fleet, configs=Configs(**{name: v[order] for name, v in joined.items()}))


# ---------------------------------------------------------------- partitions


@dataclass(frozen=True, slots=True)
class _Described:
    """A partitions frame as arrays: [N] rows, [N, S] slots in assignment order."""

    leader: Array
    leader_epoch: Array
    elr_known: Array
    broker: Array
    slot: Array
    assigned: Array

    @staticmethod
    def of(rows: pa.Table) -> _Described:
        replicas = rows.column("replicas").combine_chunks()
        slots = rows.column("slots").combine_chunks()
        assigned = np.diff(replicas.offsets.to_numpy())
        if not np.array_equal(assigned, np.diff(slots.offsets.to_numpy())):
            raise FrameRefused("rows", "replicas and slots have different lengths")
        width = int(assigned.max(initial=0))
        if width > np.iinfo(np.uint8).max:
            raise FrameRefused("rows", f"a partition has {width} replicas")
        holds = np.arange(width) < assigned[:, None]
        broker = np.full(holds.shape, NO_BROKER, np.int32)
        broker[holds] = replicas.flatten().to_numpy()
        slot = np.zeros(holds.shape, np.uint8)
        slot[holds] = slots.flatten().to_numpy()
        if (broker[holds] < 0).any():
            raise FrameRefused("rows", "a replica has a negative broker id")
        in_order = np.sort(np.where(holds, broker, -1 - np.arange(width)), axis=1)
        if (np.diff(in_order, axis=1) == 0).any():
            raise FrameRefused("rows", "a partition lists one broker twice")
        return _Described(
            leader=to_numpy(rows.column("leader")),
            leader_epoch=to_numpy(rows.column("leader_epoch")),
            elr_known=to_numpy(rows.column("elr_known")),
            broker=broker,
            slot=slot,
            assigned=assigned.astype(np.uint8),
        )


def _merge_partitions(fleet: Fleet, frame: Frame) -> Fleet:
    at_ms = frame.stamp.observed_at_ms
    told = _Described.of(frame.rows)
    refuse_duplicate_rows(frame.rows)
    fleet, row = rows_of(fleet, frame.rows)
    columns: dict[str, Any] = {"listed_at_ms": fleet.listed_at_ms.copy()}
    columns["listed_at_ms"][row] = at_ms

    epoch = fleet.leader_epoch[row]
    wins = (told.leader_epoch > epoch) | (
        (told.leader_epoch == epoch) & (at_ms > fleet.described_at_ms[row])
    )
    fleet = _reassigned(fleet, row[wins], told.broker[wins], told.assigned[wins], at_ms)
    # The listing's marks go to its slots; guests keep none.
    width = told.slot.shape[1]
    slot = fleet.slot.copy()
    slot[row[wins]] = 0
    slot[row[wins], :width] = told.slot[wins]
    columns["slot"] = slot
    for name, value in (
        ("leader", told.leader),
        ("leader_epoch", told.leader_epoch),
        ("elr_known", told.elr_known),
        ("described_at_ms", np.full(len(row), at_ms)),
    ):
        columns[name] = getattr(fleet, name).copy()
        columns[name][row[wins]] = value[wins]
    return _listed(replace(fleet, **columns), frame)


def _reassigned(fleet: Fleet, row: Array, broker: Array, assigned: Array, at_ms: int) -> Fleet:
    """Those rows with a new assignment; every replica keeps what is known of it."""
    fleet = widened(fleet, broker.shape[1])
    target = np.full((len(row), fleet.slots), NO_BROKER, np.int32)
    target[:, : broker.shape[1]] = broker
    moved = (fleet.broker[row] != target).any(axis=1) | (fleet.assigned[row] != assigned)
    if not moved.any():
        return fleet
    row, target, assigned = row[moved], target[moved], assigned[moved]
    old = fleet.broker[row]
    # Who answered after this listing was made, and is not in it, stays as a guest.
    is_guest = (
        (old != NO_BROKER)
        & (fleet.sampled_at_ms[row] > at_ms)
        & ~(old[:, :, None] == target[:, None, :]).any(axis=2)
    )
    far = np.iinfo(np.int32).max
    guests = np.sort(np.where(is_guest, old, far), axis=1)
    width = int((assigned + is_guest.sum(axis=1)).max())
    fleet = widened(fleet, width)
    rank = np.arange(fleet.slots) - assigned[:, None].astype(np.intp)
    padded = np.full((len(row), fleet.slots), NO_BROKER, np.int32)
    padded[:, : target.shape[1]] = target[:, : fleet.slots]
    guest = np.take_along_axis(guests, np.clip(rank, 0, guests.shape[1] - 1), axis=1)
    seated = np.where(
        rank < 0, padded, np.where((rank < guests.shape[1]) & (guest != far), guest, NO_BROKER)
    ).astype(np.int32)

    old = fleet.broker[row]
    match = (seated[:, :, None] == old[:, None, :]) & (seated != NO_BROKER)[:, :, None]
    came_from = np.where(match.any(axis=2), match.argmax(axis=2), UNKNOWN)
    columns: dict[str, Any] = {"assigned": fleet.assigned.copy()}
    columns["assigned"][row] = assigned
    for name in _BLANK:
        column = getattr(fleet, name).copy()
        blank = np.array(_BLANK[name], column.dtype)
        known = np.take_along_axis(column[row], np.maximum(came_from, 0), axis=1)
        column[row] = np.where(came_from < 0, blank, known)
        columns[name] = column
    columns["broker"][row] = seated
    return replace(fleet, **columns)


def _listed(fleet: Fleet, frame: Frame) -> Fleet:
    """Note the part of the listing; drop what a whole listing of this cycle did not name."""
    stamp = frame.stamp
    listing = fleet.listing
    if not stamp.complete or listing.whole_at_ms == stamp.observed_at_ms:
        return fleet
    seen = listing.parts_seen if listing.at_ms == stamp.observed_at_ms else frozenset()
    seen |= {stamp.part}
    whole = len(seen) == stamp.parts
    listing = Listing(
        at_ms=stamp.observed_at_ms,
        parts_seen=frozenset() if whole else seen,
        whole_at_ms=stamp.observed_at_ms if whole else listing.whole_at_ms,
    )
    fleet = replace(fleet, listing=listing)
    gone = fleet.listed_at_ms < stamp.observed_at_ms
    return without(fleet, gone) if whole and gone.any() else fleet


# ---------------------------------------------------------------- replicas


def _merge_replicas(fleet: Fleet, frame: Frame) -> Fleet:
    at_ms = frame.stamp.observed_at_ms
    rows = frame.rows
    broker = to_numpy(rows.column("broker"))
    refuse_duplicate_rows(rows, broker)
    if (broker < 0).any():
        raise FrameRefused("rows", "a replica has a negative broker id")
    fleet, row = rows_of(fleet, rows, create=fleet.listing.whole_at_ms < at_ms)
    heard = row >= 0
    told = {name: to_numpy(rows.column(name)) for name in SAMPLE_COLUMNS}
    if not heard.all():  # of partitions that this cycle's whole listing does not have
        row, broker = row[heard], broker[heard]
        told = {name: value[heard] for name, value in told.items()}

    seat = _seat_of(fleet, row, broker)
    stranger = (seat < 0) & (at_ms > fleet.described_at_ms[row])
    if stranger.any():
        fleet = _with_guests(fleet, row[stranger], broker[stranger])
        seat = _seat_of(fleet, row, broker)
    place = row.astype(np.intp) * fleet.slots + seat
    fresh = (seat >= 0) & (at_ms > fleet.sampled_at_ms.ravel()[np.maximum(place, 0)])
    return _sampled(fleet, place, fresh, told, at_ms)


def _sampled(fleet: Fleet, place: Array, fresh: Array, told: dict[str, Array], at_ms: int) -> Fleet:
    """Write fresh answers to their places; an error is noted and the last good answer ages."""
    good = fresh & (told["error_code"] == 0)
    everyone = bool(good.all())
    at = place if everyone else place[good]
    start = told["local_log_start_offset"]
    same_start = start == fleet.local_log_start_offset.ravel()[np.maximum(place, 0)]
    columns: dict[str, Any] = {}
    for name in SAMPLE_COLUMNS:
        old = getattr(fleet, name)
        value = told[name]
        if name in ("local_log_bytes", "local_start_timestamp_ms"):
            # Asked by other requests that may fail alone; while the start stays, so do these.
            keeps = (value == UNKNOWN) & same_start
            if keeps.any():
                value = np.where(keeps, old.ravel()[np.maximum(place, 0)], value)
        columns[name] = new = old.copy()
        new.ravel()[at] = value if everyone else value[good]
    failed = fresh & (told["error_code"] != 0)
    if failed.any():
        columns["error_code"].ravel()[place[failed]] = told["error_code"][failed]
    columns["sampled_at_ms"] = fleet.sampled_at_ms.copy()
    columns["sampled_at_ms"].ravel()[at] = at_ms
    return replace(fleet, **columns)


def _seat_of(fleet: Fleet, row: Array, broker: Array) -> Array:
    """[N] the slot of each (row, broker), UNKNOWN where it has none."""
    seat = np.full(len(row), UNKNOWN, np.intp)
    for slot in range(fleet.slots):
        seat[fleet.broker[row, slot] == broker] = slot
    return seat


def _with_guests(fleet: Fleet, row: Array, broker: Array) -> Fleet:
    """Seat replicas that no listing named yet behind the assigned ones, sorted by id."""
    order = np.lexsort((broker, row))
    row, broker = row[order], broker[order]
    taken = (fleet.broker[row] != NO_BROKER).sum(axis=1)
    first = np.searchsorted(row, row)
    seat = taken + np.arange(len(row)) - first
    fleet = widened(fleet, int(seat.max()) + 1)
    column = fleet.broker.copy()
    column[row, seat] = broker
    return replace(fleet, broker=column)


EVENTS: Final = {
    "fetches": merge_fetches,
    "isr_changes": merge_isr_changes,
    "tier_starts": merge_tier_starts,
    "broker_metrics": merge_signals,
}
"""What belongs to no cycle: it comes when it happens, and its own times say what is news."""

_MERGES = {
    "brokers": _merge_brokers,
    "configs": _merge_configs,
    "partitions": _merge_partitions,
    "replicas": _merge_replicas,
}
