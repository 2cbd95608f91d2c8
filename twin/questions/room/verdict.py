"""Whether disks have room for what brokers receive, and until when.

Of each volume: what it receives at the most must fit into what is free now, since what a move takes
away is deleted only afterwards; and from then on the logs on it, those that came included, go on as
the model says (``twin.rules.disks``). So it fits, fits until some time, does not fit, or nobody
knows, with the reason.

A broker with several directories puts a new replica into the one with the fewest logs, whatever is
free there, and splits none. Where the logs of each are known, that says how many new ones it gets,
though not which: at the worst the largest, at the best the smallest. Otherwise it may get all, or
none. If one of both bounds fits and the other does not, nobody knows.

Source: LogManager.nextLogDirs and getOrCreateLog, Kafka 4.3; KIP-1066 for directories that take no
new replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from twin.arrays import keys
from twin.cluster_rules.disks.disk_full import JUDGED
from twin.cluster_rules.disks.volume_curves import (
    first_full_s,
)
from twin.declarations.table import UNKNOWN, Array, Float64, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.questions.incoming import Growths, Incoming, logs_by_directory, together
from twin.questions.room.disks import Disks, place_of
from twin.rules.disks.points import POINTS_S


class Fit(IntEnum):
    """Whether there is room; a broker is as its worst volume."""

    FITS = 0
    FITS_UNTIL = 1
    UNKNOWN = 2
    DOES_NOT_FIT = 3


class RoomUnknown(IntEnum):
    """Why nobody knows."""

    NONE = 0
    DISKS = 1  # how large they are, or what is free now
    SIZES = 2  # of replicas
    DIRECTORY = 3  # which one Kafka chooses
    RATES = 4  # of what is written


@dataclass(frozen=True, slots=True)
class BrokerRoom:
    """Whether a broker has room for what it receives; the volume is its worst.

    Times are those of the clock, in ms: inf if that is not in sight, NaN unless it fits
    until some time or for good.
    """

    broker: int
    fit: Fit
    gap: RoomUnknown
    log_dir: str  # first directory on the volume; empty if none is known
    replicas: int
    unknown_replicas: int  # of unknown size, in no sum; those under way are among them
    needed_bytes: float  # what the broker receives
    under_way_bytes: float  # what it receives anyway, by reassignments and of replicas not in sync
    most_bytes: float  # what the volume receives of both at the worst
    freed_bytes: float  # what is deleted on the volume before
    free_bytes: float  # now on the volume; NaN if unknown
    full_at_earliest_ms: float
    full_at_latest_ms: float


# ---------------------------------------------------------------- what volumes receive


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """What a broker receives: [N] bytes of each replica, NaN if unknown, and [C] by volume.

    ``least`` and ``most`` are what a volume gets at the best and at the worst; ``freed`` is deleted
    before. ``gap``: why nobody knows more of the broker; ``is_too_much``: however it is spread.
    """

    size: Float64
    volume: Rows
    least: Float64
    most: Float64
    freed: Float64
    unknown: Int64  # [C] replicas of unknown size
    grows_least: Float64  # [C, H] what the logs that came take from then on, at after_s
    grows_most: Float64
    is_blind: bool = False  # of too many of them nobody knows the rate
    gap: RoomUnknown = RoomUnknown.NONE
    is_too_much: bool = False


def room_for(
    disks: Disks | None,
    incoming: Incoming,
    states: Sequence[ShardState] = (),
    waiting: Incoming | None = None,
) -> list[BrokerRoom]:
    """Whether each broker that receives something has room for it, in the order of their ids.

    Args:
        disks: None if nothing is known of them.
        incoming: what all brokers receive.
        states: all shards; they say how many logs are in which directory. Without them, nobody
            knows which directory Kafka chooses.
        waiting: what they receive anyway; it takes its room before.
    """
    if waiting is not None:
        before = waiting.of(incoming.brokers)
        rooms = room_for(disks, together([incoming, before]), states)
        of_before = dict(_by_broker(before))
        none = np.zeros(0, np.intp)
        return [_apart(room, before.bytes[of_before.get(room.broker, none)]) for room in rooms]
    if disks is None:
        return [nowhere(broker, incoming.bytes[mine]) for broker, mine in _by_broker(incoming)]
    choice = _Choice(disks, states, incoming.brokers)
    return [
        judged(disks, broker, _received(disks, choice, incoming, broker, mine))
        for broker, mine in _by_broker(incoming)
    ]


def _apart(room: BrokerRoom, waiting: Float64) -> BrokerRoom:
    """The room, with the bytes of the ``waiting`` replicas, which come anyway, counted apart."""
    size = float(np.nansum(waiting))
    return replace(
        room,
        replicas=room.replicas - len(waiting),
        needed_bytes=room.needed_bytes - size,
        under_way_bytes=size,
    )


def _by_broker(incoming: Incoming) -> Iterator[tuple[int, Rows]]:
    """Each broker that receives something, and the rows of what it receives."""
    order = np.argsort(incoming.broker, kind="stable")
    brokers, first = np.unique(incoming.broker[order], return_index=True)
    if not len(brokers):
        return
    yield from zip(brokers.tolist(), np.split(order, first[1:]), strict=True)


def nowhere(broker: int, size: Float64) -> BrokerRoom:
    """Nothing is known of its disks."""
    unknown, nan = int(np.isnan(size).sum()), float("nan")
    needed = float(np.nansum(size))
    return BrokerRoom(
        broker, Fit.UNKNOWN, RoomUnknown.DISKS, "", len(size), unknown, needed, 0.0, needed, 0.0,
        nan, nan, nan,
    )  # fmt: skip


def _received(
    disks: Disks, choice: _Choice, incoming: Incoming, broker: int, mine: Rows
) -> Received:
    """What the volumes of a broker receive; ``mine`` are the rows of it."""
    size = incoming.bytes[mine]
    known, is_unknown = np.nan_to_num(size), np.isnan(size)
    volume = np.flatnonzero(disks.broker == broker)
    at = place_of(disks, volume, incoming.broker[mine], incoming.directory[mine])
    settled = at != UNKNOWN
    count = len(volume)
    here = np.bincount(at[settled], known[settled], count)
    unclear = np.bincount(at[settled], is_unknown[settled], count)
    free = known[~settled]
    fewest, most, is_complete = choice.of(broker, volume, len(free))
    up = np.append(0.0, np.cumsum(np.sort(free)))
    down = np.append(0.0, np.cumsum(np.sort(free)[::-1]))
    usable = np.maximum(disks.usable[volume] - here, 0)
    largest = usable[most > 0].max(initial=0.0)
    is_too_much = is_complete and len(free) > 0
    is_too_much &= bool(free.sum() > usable[most > 0].sum() or free.max(initial=0.0) > largest)
    chosen, new = float(free.sum()), float(known[incoming.is_new[mine]].sum())
    grows_least, grows_most, judged = growths_on(
        disks, volume, incoming.growths, broker,
        np.stack([up[fewest], down[most]]) / chosen if chosen else np.stack([most > 0] * 2),
    )  # fmt: skip
    return Received(
        size, volume, here + up[fewest], here + down[most], np.zeros(count),
        (unclear + np.minimum(most, int(is_unknown[~settled].sum()))).astype(np.int64),
        grows_least, grows_most,
        is_blind=bool(new > 0 and judged <= JUDGED * new),
        gap=RoomUnknown.NONE if is_complete or settled.all() else RoomUnknown.DISKS,
        is_too_much=is_too_much,
    )  # fmt: skip


def growths_on(
    disks: Disks, volume: Rows, growths: Growths, broker: int, share: Array
) -> tuple[Float64, Float64, float]:
    """[C, H], [C, H] what the logs that came take, and how many bytes of them are judged.

    ``share``: [2, C] of what goes where Kafka chooses, at the best and at the worst: its growth is
    taken to be spread as its bytes are.
    """
    after_s = disks.after_s[volume]
    least, most = np.zeros((2, *after_s.shape))
    of_broker = np.flatnonzero(growths.broker == broker)
    at = place_of(disks, volume, growths.broker[of_broker], growths.directory[of_broker])
    alone = np.eye(len(volume))
    for row, place in zip(of_broker.tolist(), at.tolist(), strict=True):
        low, high = share if place == UNKNOWN else (alone[place], alone[place])
        least += low[:, None] * np.interp(after_s, POINTS_S, growths.least_bytes[row])
        most += high[:, None] * np.interp(after_s, POINTS_S, growths.most_bytes[row])
    return least, most, float(growths.judged_bytes[of_broker].sum())


class _Choice:
    """The volumes where Kafka may put new replicas of brokers that receive some."""

    def __init__(self, disks: Disks, states: Sequence[ShardState], brokers: Array) -> None:
        dirs = self._dirs = disks.dirs
        first = keys.pack(disks.broker, dirs.number[disks.rows])
        self._volume = keys.find(first, keys.pack(dirs.broker, dirs.volume))
        # One that is cordoned gets no new replicas.
        self._may = (dirs.error_code == 0) & (dirs.is_cordoned != 1)
        self._logs = np.zeros(len(dirs.broker), np.int64)
        of_several, count = np.unique(dirs.broker[self._may], return_counts=True)
        several = np.intersect1d(of_several[count > 1], brokers)
        self._counted: set[int] = set(several.tolist()) if disks.is_empty else set()
        if len(several) and states and not disks.is_empty:
            packed, logs, unclear = logs_by_directory(states, several.tolist())
            self._logs = keys.look_up(packed, logs, keys.pack(dirs.broker, dirs.number), 0)
            # Logs of nobody, and those that are moved within a broker, count for Kafka as well.
            others = dirs.future_bytes + dirs.unassigned_bytes + dirs.unlisted_bytes > 0
            unclear |= np.isin(several, dirs.broker[others])
            self._counted = set(several[~unclear].tolist())

    def of(self, broker: int, volume: Rows, new: int) -> tuple[Int64, Int64, bool]:
        """[C], [C] how many new replicas each volume gets at least and at most.

        And whether the sizes of all volumes that Kafka may choose are known.
        """
        rows = np.flatnonzero(self._may & (self._dirs.broker == broker))
        low, high = np.zeros(len(rows), np.int64), np.full(len(rows), new)
        if broker in self._counted or len(rows) == 1:
            low, high = _filled_up(self._logs[rows], new)
        at = keys.find(volume.astype(np.int64), self._volume[rows].astype(np.int64))
        is_complete = len(rows) > 0 and not (at == UNKNOWN).any()
        fewest, most = np.zeros((2, len(volume)), np.int64)
        np.add.at(fewest, at[at != UNKNOWN], low[at != UNKNOWN])
        np.add.at(most, at[at != UNKNOWN], high[at != UNKNOWN])
        most = np.minimum(most, new)
        if is_complete:  # what the others cannot take
            fewest = np.maximum(fewest, new - (most.sum() - most))
        return fewest, np.minimum(most, new - (fewest.sum() - fewest)), is_complete


def _filled_up(logs: Int64, new: int) -> tuple[Int64, Int64]:
    """[D], [D] how many of the new logs each directory gets at least and at most.

    Each goes where the fewest are, so all that get one end with equally many, or with one more.
    """
    level = np.sort(logs)
    to_raise = level * np.arange(1, len(level) + 1) - np.cumsum(level)
    raised = int(np.searchsorted(to_raise, new, side="right"))
    height, rest = divmod(new + int(level[:raised].sum()), raised)
    fewest = np.maximum(height - logs, 0)
    return fewest, fewest + ((logs <= height) & (rest > 0))


# ---------------------------------------------------------------- verdicts


def judged(disks: Disks, broker: int, got: Received, from_ms: float | None = None) -> BrokerRoom:
    """The verdict on a broker: that on its worst volume among those that receive something.

    ``from_ms``: when it comes, if not now.
    """
    needed, unknown = float(np.nansum(got.size)), int(np.isnan(got.size).sum())
    volume = got.volume
    if not len(volume):
        return nowhere(broker, got.size)
    usable, after_s = disks.usable[volume] + got.freed, disks.after_s[volume]
    is_blind = disks.is_blind[volume] | got.is_blind
    begin_ms = disks.now_ms if from_ms is None else from_ms

    def full_at(taken: Float64, comes: Float64) -> Float64:
        at_s = first_full_s(after_s, taken + comes[:, None], usable)
        at_ms: Float64 = begin_ms + 1_000 * np.where(is_blind & np.isinf(at_s), np.nan, at_s)
        return at_ms

    earliest = full_at(disks.most[volume] + got.grows_most, got.most)
    latest = full_at(disks.least[volume] + got.grows_least, got.least)
    ends = [
        (got.least > usable, Fit.DOES_NOT_FIT, RoomUnknown.NONE),
        (~disks.is_known[volume], Fit.UNKNOWN, RoomUnknown.DISKS),
        (got.unknown > 0, Fit.UNKNOWN, RoomUnknown.SIZES),
        (got.most > usable, Fit.UNKNOWN, RoomUnknown.DIRECTORY),
        (np.isnan(earliest), Fit.UNKNOWN, RoomUnknown.RATES),
        (np.isfinite(earliest), Fit.FITS_UNTIL, RoomUnknown.NONE),
    ]
    masks = [mask for mask, *_ in ends]
    # Nobody knows what is free where nobody has looked lately.
    masks[0] = masks[0] & disks.is_known[volume]
    fit = np.select(masks, [int(each) for _, each, _ in ends], int(Fit.FITS))
    gap = np.select(masks, [int(each) for *_, each in ends], int(RoomUnknown.NONE))
    concerned = (got.most > 0) | (got.unknown > 0)
    fit[~concerned] = Fit.FITS
    order = np.lexsort((usable - got.most, np.nan_to_num(earliest, nan=np.inf), -fit, ~concerned))
    worst = int(order[0])
    verdict, why = Fit(int(fit[worst])), RoomUnknown(int(gap[worst]) if concerned[worst] else 0)
    if verdict is not Fit.DOES_NOT_FIT and got.is_too_much and disks.is_known[volume].all():
        verdict, why = Fit.DOES_NOT_FIT, RoomUnknown.NONE
    elif verdict is not Fit.DOES_NOT_FIT and got.gap is not RoomUnknown.NONE:
        verdict, why = Fit.UNKNOWN, got.gap
    if verdict in (Fit.DOES_NOT_FIT, Fit.UNKNOWN):  # it is full while it is copied, or may be
        earliest, latest = np.full((2, len(volume)), np.nan)
    return BrokerRoom(
        broker, verdict, why, str(disks.dirs.log_dir[disks.rows[volume[worst]]]),
        len(got.size), unknown, needed, 0.0, float(got.most[worst]), float(got.freed[worst]),
        float(disks.usable[volume[worst]]), float(earliest[worst]), float(latest[worst]),
    )  # fmt: skip
