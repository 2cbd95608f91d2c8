"""Whether disks have room for what comes, and until when: by hand, and by a plain loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.builders import Partition
from tests.log_dir_frames import Directory, replica_dirs_frame
from tests.twin.disks.stage import (
    GB,
    HOUR_S,
    MB,
    MINUTES,
    PLAIN,
    Growing,
    cycles,
    hours,
    one_shard,
    volumes,
)
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.engine.shard_state import ShardState
from twin.questions.incoming import added, grown_on, replacing, together, under_way
from twin.questions.room.disks import disks_of, emptied, still
from twin.questions.room.verdict import BrokerRoom, Fit, RoomUnknown, _filled_up, room_for
from twin.questions.whatif import lose

HELD = 5_820 * MB
"""Of a partition that has been written for an hour, and for the 37 minutes of the cycles."""


def shards(
    parts: Sequence[Growing], free_gb: float = 36, disks: Any = None, **configs: int
) -> tuple[ShardState, ShardState]:
    settings = {part.topic: PLAIN | configs for part in parts}
    return one_shard(cycles(parts, disks or volumes(free_gb), settings, MINUTES))


def moved(
    state: ShardState, own: ShardState, to: int = 2, rows: Sequence[int] = (0,)
) -> BrokerRoom:
    """Whether there is room if those partitions get a replica on that broker."""
    broker = np.full((len(rows), 1), to, np.int32)
    [room] = room_for(disks_of(own), added(state, np.array(rows), broker), [state])
    return room


ALONE = Growing(replicas=(1,))


def test_what_comes_fits_until_its_growth_has_filled_what_is_left():
    state, own = shards([ALONE], 36)
    room = moved(state, own)
    assert (room.fit, room.gap, room.broker, room.log_dir) == (
        Fit.FITS_UNTIL, RoomUnknown.NONE, 2, "/disks/0",
    )  # fmt: skip
    assert (room.replicas, room.needed_bytes, room.free_bytes) == (1, HELD, 36 * GB)
    # 30.18 GB are left, at 1 MB/s.
    assert hours(room.full_at_earliest_ms, own) == pytest.approx(30_180 / 3_600)
    assert hours(room.full_at_latest_ms, own) == pytest.approx(30_180 / 3_600)


@pytest.mark.parametrize(
    ("free_bytes", "fit"), [(HELD - 1, Fit.DOES_NOT_FIT), (HELD, Fit.FITS_UNTIL)]
)
def test_what_comes_must_fit_into_what_is_free_now(free_bytes: int, fit: Fit):
    state, own = shards([ALONE], free_bytes / GB)
    room = moved(state, own)
    assert room.fit is fit
    assert math.isnan(room.full_at_earliest_ms) == (fit is Fit.DOES_NOT_FIT)


def test_it_fits_for_good_where_retention_deletes_as_much_as_is_written():
    full = Growing(replicas=(1,), age_s=30 * HOUR_S, keeps_s=24 * HOUR_S)
    day = {"retention_ms": 24 * HOUR_S * 1_000}
    assert moved(*shards([full], 90, **day)).fit is Fit.FITS
    room = moved(*shards([full], 86.5, **day))
    # A segment that is deleted late has no room, and the records alone have: both bounds say so.
    assert (room.fit, room.full_at_latest_ms) == (Fit.FITS_UNTIL, math.inf)


def test_what_grows_there_already_counts_as_well():
    state, own = shards([ALONE, Growing("u", mb_per_s=2, replicas=(2,))], 36)
    room = moved(state, own, rows=[state.topic_names().tolist().index("t")])
    free = room.free_bytes - HELD
    assert hours(room.full_at_latest_ms, own) == pytest.approx(free / (3 * MB) / HOUR_S)


def test_nobody_knows_of_a_broker_whose_disks_are_unknown():
    state, own = shards([ALONE])
    room = moved(state, own, to=9)
    assert (room.fit, room.gap, room.needed_bytes) == (Fit.UNKNOWN, RoomUnknown.DISKS, HELD)
    assert math.isnan(room.free_bytes)
    [other] = room_for(None, added(state, np.array([0]), np.array([[2]], np.int32)))
    assert (other.fit, other.gap) == (Fit.UNKNOWN, RoomUnknown.DISKS)


def test_nobody_knows_of_a_replica_of_unknown_size_unless_the_others_do_not_fit():
    few = [ALONE, Growing("u", mb_per_s=0.5, replicas=(1,))]
    for free_gb, fit in ((36, Fit.UNKNOWN), (1, Fit.DOES_NOT_FIT)):
        state, own = shards(few, free_gb)
        coming = added(state, np.array([0, 1]), np.array([[2], [2]], np.int32))
        size = coming.bytes.copy()
        size[1] = np.nan
        [room] = room_for(disks_of(own), replace(coming, bytes=size), [state])
        assert (room.fit, room.unknown_replicas) == (fit, 1)
        assert room.gap is (RoomUnknown.SIZES if fit is Fit.UNKNOWN else RoomUnknown.NONE)


def test_nobody_knows_until_when_it_fits_as_long_as_rates_are_unknown():
    of_one_cycle = cycles([ALONE], volumes(36), {"t": PLAIN}, MINUTES[:1])
    room = moved(*one_shard(of_one_cycle))
    assert (room.fit, room.gap) == (Fit.UNKNOWN, RoomUnknown.RATES)


def test_a_broker_that_replaces_another_one_has_its_disks_empty():
    state, own = shards([Growing()], 36)
    disks = disks_of(own)
    assert disks is not None
    coming = replacing(state, lose(state, [1]), [1])
    [room] = room_for(emptied(disks), coming)
    assert (room.broker, room.needed_bytes, room.free_bytes) == (1, HELD, 500 * GB)
    full_h = (500 * GB - HELD) / MB / HOUR_S
    # The curves of its volumes go on; those of its logs, one by one, say the same.
    assert hours(room.full_at_latest_ms, own) == pytest.approx(full_h)
    apart = replace(coming, growths=grown_on(state, [1], chosen=True), is_new=np.ones(1, bool))
    [other] = room_for(still(emptied(disks)), apart)
    assert hours(other.full_at_latest_ms, own) == pytest.approx(full_h)


def test_what_nobody_else_has_cannot_be_replaced():
    state, _ = shards([Growing()], 36)
    assert len(replacing(state, lose(state, [1, 2]), [1, 2]).broker) == 0


# ---------------------------------------------------------------- under way


@dataclass(frozen=True)
class Copying(Growing):
    """Broker 2 has a share of it, and gets the rest."""

    has: float = 0.5
    silent: tuple[int, ...] = ()
    is_added: bool = True

    def at(self, after_s: float, *, is_tiered: bool = False) -> Partition:
        whole = super().at(after_s, is_tiered=is_tiered)
        log = whole.log
        own = replace(
            log, end=round(log.end * self.has), size_bytes=round(log.size_bytes * self.has)
        )
        adding = (2,) if self.is_added else ()
        return replace(whole, isr=(1,), adding=adding, logs={2: own}, silent=self.silent)


def so_much_free(free_gb: float) -> Any:
    def of(after_s: float, parts: Sequence[Partition]) -> list[Directory]:
        held = {
            broker: sum(p.logs.get(broker, p.log).size_bytes for p in parts if broker in p.replicas)
            for broker in (1, 2)
        }
        return [Directory(b, 0, 500 * GB, round(free_gb * GB), replicas=held[b]) for b in (1, 2)]

    return of


def waiting(part: Growing, free_gb: float) -> tuple[BrokerRoom, ShardState]:
    state, own = shards([part], disks=so_much_free(free_gb))
    [room] = room_for(disks_of(own), under_way(state), [state])
    return room, own


@pytest.mark.parametrize("is_added", [True, False])
def test_what_a_replica_lacks_is_counted_once(is_added: bool):
    room, own = waiting(Copying(is_added=is_added), 36)
    assert (room.broker, room.needed_bytes) == (2, HELD / 2)
    # The curves of the volume have what is written from now on, and not what is behind.
    assert hours(room.full_at_latest_ms, own) == pytest.approx((36 * GB - HELD / 2) / MB / HOUR_S)
    assert waiting(Copying(is_added=is_added), 2.9)[0].fit is Fit.DOES_NOT_FIT


def test_of_a_replica_that_its_broker_does_not_have_yet_all_is_missing_and_it_grows():
    room, own = waiting(Copying(silent=(2,)), 36)
    assert room.needed_bytes == HELD
    assert hours(room.full_at_latest_ms, own) == pytest.approx((36 * GB - HELD) / MB / HOUR_S)


def test_what_a_replica_lacks_fits_for_good_where_nothing_is_written():
    """The rates of what is there already are known by the curves of its volume."""
    room, _ = waiting(Copying(mb_per_s=1e-6), 36)
    assert room.fit is Fit.FITS


def test_what_is_under_way_takes_its_room_before_what_is_moved():
    state, own = shards([Copying(), Growing("u", replicas=(1,))], disks=so_much_free(7))
    coming = added(state, np.array([1]), np.array([[2]], np.int32))
    assert room_for(disks_of(own), coming, [state])[0].fit is Fit.FITS_UNTIL
    [room] = room_for(disks_of(own), coming, [state], under_way(state))
    assert room.fit is Fit.DOES_NOT_FIT
    assert (room.needed_bytes, room.under_way_bytes) == (HELD, HELD / 2)
    assert (room.most_bytes, room.replicas) == (1.5 * HELD, 1)


def test_shards_are_put_side_by_side():
    state, own = shards([ALONE, Growing("u", replicas=(1,))], 36)
    one, other = (added(state, np.array([row]), np.array([[2]], np.int32)) for row in (0, 1))
    both = added(state, np.array([0, 1]), np.array([[2], [2]], np.int32))
    disks = disks_of(own)
    assert room_for(disks, together([one, other])) == room_for(disks, both)
    assert together([]).brokers.tolist() == []


# ---------------------------------------------------------------- several directories


NAMES = [f"t{n}" for n in range(6)]


def of_directories(
    free_gb: Sequence[float], held: Sequence[int], sizes_mb: Sequence[float], **more: Any
) -> BrokerRoom:
    """Broker 2 has directories with so much free and so many logs, and gets logs of those sizes."""
    old = [Growing(f"o{n}", 0.0, replicas=(2,)) for n in range(sum(held))]
    new = [
        Growing(name, mb / HOUR_S, replicas=(1,)) for name, mb in zip(NAMES, sizes_mb, strict=False)
    ]
    number = [number for number, logs in enumerate(held) for _ in range(logs)]

    def disks(after_s: float, parts: Sequence[Partition]) -> list[Directory]:
        found = [Directory(1, 0, 500 * GB, 400 * GB)]
        return found + [
            Directory(2, n, 500 * GB + n, round(free * GB), **more.get(f"dir_{n}", {}))
            for n, free in enumerate(free_gb)
        ]

    settings = {part.topic: PLAIN for part in (*old, *new)}

    def with_numbers():
        for frames, at_ms in cycles([*old, *new], disks, settings, [0, 10]):
            where = [(p.at(0), 2, n) for p, n in zip(old, number, strict=True)]
            yield [*frames, replica_dirs_frame(where, at_ms)], at_ms

    state, own = one_shard(with_numbers())
    rows = np.flatnonzero(np.isin(state.topic_names(), NAMES))
    broker = np.full((len(rows), 1), 2, np.int32)
    [room] = room_for(disks_of(own), added(state, rows, broker), [state])
    return room


def test_new_replicas_go_where_the_fewest_logs_are_whatever_is_free_there():
    # Directory 0 has most room and most logs: both new ones go into directory 1.
    room = of_directories([100, 1], [3, 0], [800, 700])
    assert (room.fit, room.log_dir) == (Fit.DOES_NOT_FIT, "/disks/1")
    assert room.most_bytes == pytest.approx(1_504 * MB, rel=0.01)
    assert of_directories([100, 2], [3, 0], [800, 700]).fit is not Fit.DOES_NOT_FIT


def test_which_of_several_replicas_comes_where_nobody_knows():
    # One goes into each: the small one fits anywhere, the large one does not.
    room = of_directories([100, 1], [0, 0], [2_000, 500])
    assert (room.fit, room.gap, room.log_dir) == (Fit.UNKNOWN, RoomUnknown.DIRECTORY, "/disks/1")
    assert room.most_bytes == pytest.approx(2_005 * MB, rel=0.01)


def test_a_replica_is_not_split_over_directories():
    assert of_directories([3, 3], [0, 0], [4_000]).fit is Fit.DOES_NOT_FIT


def test_all_of_it_must_fit_however_it_is_spread():
    assert of_directories([3, 3], [0, 0], [2_500, 2_500, 2_500]).fit is Fit.DOES_NOT_FIT


def test_a_directory_that_is_cordoned_gets_nothing():
    cordoned = {"dir_1": {"is_cordoned": 1}}
    assert of_directories([100, 1], [3, 0], [800, 700], **cordoned).log_dir == "/disks/0"


def test_logs_of_nobody_count_for_kafka_so_that_nobody_knows_which_directory_is_next():
    room = of_directories([100, 1], [3, 0], [800, 700], dir_1={"unlisted": 1})
    assert (room.fit, room.gap) == (Fit.UNKNOWN, RoomUnknown.DIRECTORY)


def one_by_one(logs: Sequence[int], new: int, random: Random) -> list[int]:
    counts, got = list(logs), [0] * len(logs)
    for _ in range(new):
        fewest = random.choice([n for n, count in enumerate(counts) if count == min(counts)])
        counts[fewest] += 1
        got[fewest] += 1
    return got


def test_as_many_go_into_each_directory_as_if_they_were_put_there_one_by_one():
    random = Random(7)
    for _ in range(200):
        logs = [random.randrange(6) for _ in range(random.randrange(1, 5))]
        new = random.randrange(12)
        fewest, most = (each.tolist() for each in _filled_up(np.array(logs), new))
        seen = [one_by_one(logs, new, random) for _ in range(40)]
        assert [min(each) for each in zip(*seen, strict=True)] == fewest, (logs, new)
        assert [max(each) for each in zip(*seen, strict=True)] == most, (logs, new)


@pytest.mark.parametrize(("free_gb", "is_soon"), [(36, False), (2.9, True)])
def test_the_forecast_of_a_disk_counts_what_is_copied_to_it_at_the_earliest(
    free_gb: float, is_soon: bool
):
    _, own = waiting(Copying(), free_gb)
    forecasts = own[DiskForecasts]
    [row] = (forecasts.broker == 2).nonzero()[0].tolist()
    earliest, latest = forecasts.full_at_earliest_ms[row], forecasts.full_at_latest_ms[row]
    if is_soon:
        assert hours(earliest, own) < 0.05
    else:
        assert hours(earliest, own) == pytest.approx((36 * GB - HELD / 2) / MB / HOUR_S, rel=0.01)
    assert hours(latest, own) == pytest.approx(free_gb * GB / MB / HOUR_S, rel=0.01)
