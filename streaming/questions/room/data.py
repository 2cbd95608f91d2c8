"""Room on disks as plain data, for every answer about data that moves."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Annotated, Literal, TypedDict

import numpy as np
from msgspec import Meta

from streaming.bus.view import ClusterView
from twin.arrays.plain import name
from twin.cluster_rules.disks.dir_contents import LogDirUse
from twin.declarations.table import UNKNOWN, Int32, Rows
from twin.engine.shard_state import ShardState
from twin.questions.gate import is_out
from twin.questions.incoming import (
    Incoming,
    added,
    grown_on,
    growths_together,
    replacing,
    together,
    under_way,
)
from twin.questions.room.disks import Disks, disks_of, emptied, still
from twin.questions.room.verdict import BrokerRoom, Fit, RoomUnknown, room_for

Verdict = Literal["fits", "fits_until", "unknown", "does_not_fit"]
WhyUnknown = Literal["disks", "sizes", "directory", "rates"]


class RoomOnBroker(TypedDict):
    """Whether a broker has room for what it receives: as on its worst volume, ``log_dir``.

    ``fits_until``: it fits now, and ``full_at_earliest_ms`` is when the volume is full then if logs
    take the most that they may, ``full_at_latest_ms`` if they take the least; null is not within
    two weeks. ``why`` nobody knows: the size of its ``disks``, or of replicas (``sizes``), which
    ``directory`` Kafka chooses, or the ``rates`` at which logs grow.
    """

    broker: int
    room: Verdict
    why: WhyUnknown | None
    log_dir: str | None
    replicas: int
    unknown_replicas: Annotated[int, Meta(description="those of unknown size, which are in no sum")]
    needed_bytes: Annotated[int, Meta(description="what the broker receives")]
    under_way_bytes: Annotated[
        int, Meta(description="what it receives beside that: replicas added or not in sync now")
    ]
    most_bytes: Annotated[
        int,
        Meta(description="what of both comes to that volume, at the worst, beside what is there"),
    ]
    freed_bytes: Annotated[int, Meta(description="what is deleted on the volume before")]
    free_bytes: Annotated[int | None, Meta(description="what is free on the volume now")]
    full_at_earliest_ms: int | None
    full_at_latest_ms: int | None


class BytesByClass(TypedDict):
    """What the replicas of a broker have on its disks, by class; null if unknown."""

    tiered_bytes: int | None
    waiting_bytes: int | None
    untiered_bytes: int | None
    unjudged_bytes: int | None


class ReplacingBroker(RoomOnBroker):
    """Whether empty disks as large as those of a lost broker have room for its replicas.

    ``held``: what the lost one has of them.
    """

    held: BytesByClass


def room_data(room: BrokerRoom) -> RoomOnBroker:
    """The verdict on a broker as plain data."""
    why: WhyUnknown | None = None if room.gap is RoomUnknown.NONE else name(RoomUnknown, room.gap)  # type: ignore[assignment]
    verdict: Verdict = name(Fit, room.fit)  # type: ignore[assignment]
    return {
        "broker": room.broker,
        "room": verdict,
        "why": why,
        "log_dir": room.log_dir or None,
        "replicas": room.replicas,
        "unknown_replicas": room.unknown_replicas,
        "needed_bytes": round(room.needed_bytes),
        "under_way_bytes": round(room.under_way_bytes),
        "most_bytes": round(room.most_bytes),
        "freed_bytes": round(room.freed_bytes),
        "free_bytes": _whole(room.free_bytes),
        "full_at_earliest_ms": _whole(room.full_at_earliest_ms),
        "full_at_latest_ms": _whole(room.full_at_latest_ms),
    }


def _whole(value: float) -> int | None:
    return round(value) if math.isfinite(value) else None


def worst_of(rooms: Sequence[RoomOnBroker]) -> Verdict:
    """The verdict on all brokers together."""
    order: tuple[Verdict, ...] = ("does_not_fit", "unknown", "fits_until")
    verdicts = {each["room"] for each in rooms}
    return next((each for each in order if each in verdicts), "fits")


def disks_in(view: ClusterView) -> Disks | None:
    """The disks of the cluster; None while its own shard has not all reports."""
    return None if view.cluster is None else disks_of(view.cluster)


def room_of_rows(
    view: ClusterView, new: Sequence[tuple[ShardState, Rows, Int32]]
) -> list[RoomOnBroker]:
    """Whether brokers have room for new replicas, beside what is under way.

    Args:
        view: the newest snapshots.
        new: of each shard rows of partitions [N], and [N, A] the brokers that get a replica of
            each, with NO_BROKER behind the last.
    """
    coming = together([added(state, row, broker) for state, row, broker in new if len(row)])
    return _rooms(view, coming)


def _rooms(view: ClusterView, coming: Incoming) -> list[RoomOnBroker]:
    if not len(coming.broker):
        return []
    waiting = together([under_way(state) for state in view.states])
    rooms = room_for(disks_in(view), coming, view.states, waiting)
    return [room_data(each) for each in rooms]


def room_if_empty(
    view: ClusterView, broker: int, rows: Sequence[Rows] | None = None
) -> list[RoomOnBroker]:
    """Whether the disks of a broker, empty, have room for its replicas, or for those rows [N].

    The answer has the broker, or nobody if it copies nothing.
    """
    if rows is None:
        return [room_data(each) for each in _rooms_of_empty(view, [broker])]
    who = [np.full((len(row), 1), broker, np.int32) for row in rows]
    coming = together([added(*each) for each in zip(view.states, rows, who, strict=True)])
    disks = disks_in(view)
    # It has no logs yet whose curves they might be.
    empty = None if disks is None else still(emptied(disks))
    return [room_data(each) for each in room_for(empty, coming)]


def room_of_replacing(view: ClusterView, lost: Collection[int]) -> list[ReplacingBroker]:
    """Whether empty disks as large as those of the lost brokers have room for their replicas."""
    rooms = _rooms_of_empty(view, lost)
    return [{**room_data(each), "held": _held(view.cluster, each.broker)} for each in rooms]


def _rooms_of_empty(view: ClusterView, lost: Collection[int]) -> list[BrokerRoom]:
    losses = zip(view.states, view.lose(lost), strict=True)
    coming = together([replacing(state, loss, lost) for state, loss in losses])
    disks = disks_in(view)
    if disks is None:
        return room_for(None, coming)
    empty, out = emptied(disks), [each for each in lost if is_out(view.states, each)]
    rooms = room_for(empty, coming.of(np.setdiff1d(coming.brokers, out)))
    if out:  # their volumes have no curves
        growths = [grown_on(state, out, chosen=True) for state in view.states]
        those = coming.of(np.array(out))
        is_new = np.ones(len(those.broker), bool)
        those = replace(those, growths=growths_together(growths), is_new=is_new)
        rooms = sorted([*rooms, *room_for(still(empty), those)], key=attrgetter("broker"))
    return rooms


def _held(own: ShardState | None, broker: int) -> BytesByClass:
    """The sums over the directories of a broker."""

    def of(name: str) -> int | None:
        if own is None:
            return None
        use = own[LogDirUse]
        values = getattr(use, f"{name}_bytes")[use.broker == broker]
        return int(values.sum()) if len(values) and not np.any(values == UNKNOWN) else None

    return {
        "tiered_bytes": of("tiered"),
        "waiting_bytes": of("waiting"),
        "untiered_bytes": of("untiered"),
        "unjudged_bytes": of("unjudged"),
    }
