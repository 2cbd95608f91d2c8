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
from typing import Any

import numpy as np
import pyarrow as pa

from twin.fleet import (
    Array,
    Brokers,
    Configs,
    Fleet,
    Listing,
    Topics,
    rearranged,
    to_numpy,
    widened,
)
from twin.frames import Frame, FrameRefused
from twin.tables import CLUSTER_WIDE, CONFIGS, FLEET_REPLICAS, NO_BROKER, SAMPLE_COLUMNS, UNKNOWN

_PARTITION_BITS = 32
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
    return replace(
        fleet,
        configs=_without_unused(fleet),
        observed_at_ms=at_ms,
        cycle=cycle,
        caught_up_before_ms=fleet.caught_up_at_ms,
        leader_end_before_offset=fleet.of_leader(fleet.log_end_offset),
        leader_end_before_at_ms=fleet.of_leader(fleet.sampled_at_ms),
    )


# ---------------------------------------------------------------- brokers and configs


def _merge_brokers(fleet: Fleet, frame: Frame) -> Fleet:
    at_ms = frame.stamp.observed_at_ms
    told = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    _refuse_duplicates(told["broker"], "broker")
    before = fleet.brokers
    if len(before.broker) and before.listed_at_ms.max() >= at_ms:
        return fleet
    known = np.isin(told["broker"], before.broker)
    last = np.full(len(known), UNKNOWN, np.int64)
    last[known] = before.answered_at_ms[np.searchsorted(before.broker, told["broker"][known])]
    told["answered_at_ms"] = np.where(told["answered"], at_ms, last)
    told["listed_at_ms"] = np.full(len(known), at_ms)
    order = np.argsort(told["broker"])
    return replace(fleet, brokers=Brokers(**{name: v[order] for name, v in told.items()}))


def _without_unused(fleet: Fleet) -> Configs:
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
    _refuse_duplicates(told["topic"], "topic")
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
    _refuse_duplicate_rows(frame.rows)
    fleet, row = _rows_of(fleet, frame.rows)
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
    return _without(fleet, gone) if whole and gone.any() else fleet


def _without(fleet: Fleet, gone: Array) -> Fleet:
    """The fleet without those rows, and without topics that have none left."""
    fleet = replace(fleet, **rearranged(fleet, np.flatnonzero(~gone)))
    used = np.isin(np.arange(len(fleet.topics.topic)), fleet.topic_index)
    renumbered = np.cumsum(used) - 1
    return replace(
        fleet,
        topics=Topics(fleet.topics.topic[used], fleet.topics.topic_id[used]),
        topic_index=renumbered[fleet.topic_index].astype(np.int32),
    )


# ---------------------------------------------------------------- replicas


def _merge_replicas(fleet: Fleet, frame: Frame) -> Fleet:
    at_ms = frame.stamp.observed_at_ms
    rows = frame.rows
    broker = to_numpy(rows.column("broker"))
    _refuse_duplicate_rows(rows, broker)
    if (broker < 0).any():
        raise FrameRefused("rows", "a replica has a negative broker id")
    fleet, row = _rows_of(fleet, rows, create=fleet.listing.whole_at_ms < at_ms)
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


# ---------------------------------------------------------------- rows and topics


def _rows_of(fleet: Fleet, rows: pa.Table, create: bool = True) -> tuple[Fleet, Array]:
    """The fleet with a row for every partition named, and [N] where each stands.

    Without ``create`` unknown partitions get no row and stand at UNKNOWN.
    """
    topic, topic_id = (rows.column(n).combine_chunks() for n in ("topic", "topic_id"))
    number = topic.indices.to_numpy()
    if not np.array_equal(number, topic_id.indices.to_numpy()):
        raise FrameRefused("rows", "topic and topic_id use different dictionary entries")
    names = np.array([*topic.dictionary.to_pylist(), None], object)[:-1]
    ids = np.array([*topic_id.dictionary.to_pylist(), None], object)[:-1]
    if len(set(names)) != len(names) or len(ids) != len(names):
        raise FrameRefused("rows", "one topic has two dictionary entries")
    partition = to_numpy(rows.column("partition"))
    if (partition < 0).any():
        raise FrameRefused("rows", "a partition number is negative")

    if create:
        fleet = _with_topics(fleet, names, ids)
    at = {
        key: i for i, key in enumerate(zip(fleet.topics.topic, fleet.topics.topic_id, strict=True))
    }
    index = np.array([at.get(key, -1) for key in zip(names, ids, strict=True)] + [0], np.int64)
    wanted = _key(index[number], partition)
    present = _key(fleet.topic_index, fleet.partition)
    found, row = _find(present, wanted)
    if create and not found.all():
        fleet = _with_rows(fleet, present, np.unique(wanted[~found]))
        found, row = _find(_key(fleet.topic_index, fleet.partition), wanted)
    return fleet, np.where(found, row, UNKNOWN)


def _with_topics(fleet: Fleet, names: Array, ids: Array) -> Fleet:
    """The fleet with those topics; a topic of the same name and another id is gone."""
    before = list(zip(fleet.topics.topic, fleet.topics.topic_id, strict=True))
    named = dict(zip(names, ids, strict=True))
    old_ids = [topic in named and named[topic] != topic_id for topic, topic_id in before]
    if any(old_ids):
        fleet = _without(fleet, np.array(old_ids)[fleet.topic_index])
        before = list(zip(fleet.topics.topic, fleet.topics.topic_id, strict=True))
    after = sorted({*before, *named.items()})
    if after == before:
        return fleet
    at = {key: i for i, key in enumerate(after)}
    moved = np.array([at[key] for key in before] + [0], np.int32)
    columns = np.array([*after, (None, None)], object)[:-1]
    return replace(
        fleet,
        topics=Topics(columns[:, 0].copy(), columns[:, 1].copy()),
        topic_index=moved[fleet.topic_index],
    )


def _with_rows(fleet: Fleet, present: Array, wanted: Array) -> Fleet:
    """The fleet with blank rows for those keys, which it does not have."""
    keys = np.concatenate([present, wanted])
    order = np.argsort(keys, kind="stable")
    rows = np.where(order < len(present), order, -1)
    keys = keys[order]
    columns = rearranged(fleet, rows)
    columns["topic_index"] = (keys >> _PARTITION_BITS).astype(np.int32)
    columns["partition"] = (keys & ((1 << _PARTITION_BITS) - 1)).astype(np.int32)
    return replace(fleet, **columns)


def _key(topic: Array, partition: Array) -> Array:
    return (topic.astype(np.int64) << _PARTITION_BITS) | partition.astype(np.int64)


def _find(present: Array, wanted: Array) -> tuple[Array, Array]:
    """Which wanted keys are present (sorted), and where."""
    if len(present) == len(wanted) and np.array_equal(present, wanted):
        return np.ones(len(wanted), bool), np.arange(len(wanted))
    row = np.minimum(np.searchsorted(present, wanted), max(len(present) - 1, 0))
    if not len(present):
        return np.zeros(len(wanted), bool), row
    return present[row] == wanted, row


def _refuse_duplicates(values: Array, what: str) -> None:
    if len(set(values.tolist())) != len(values):
        raise FrameRefused("rows", f"one {what} is listed twice")


def _refuse_duplicate_rows(rows: pa.Table, broker: Array | None = None) -> None:
    key = _key(
        rows.column("topic").combine_chunks().indices.to_numpy(),
        to_numpy(rows.column("partition")),
    )
    columns = (key,) if broker is None else (broker, key)
    if broker is None and (len(key) < 2 or (np.diff(key) > 0).all()):
        return
    order = np.lexsort(columns)
    same = np.ones(max(len(key) - 1, 0), bool)
    for column in columns:
        same &= np.diff(column[order]) == 0
    if same.any():
        raise FrameRefused("rows", "a row is listed twice")


_MERGES = {
    "brokers": _merge_brokers,
    "configs": _merge_configs,
    "partitions": _merge_partitions,
    "replicas": _merge_replicas,
}
