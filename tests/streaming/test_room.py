"""Whether disks have room, in the answers to questions about brokers that go, come and copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from streaming.questions import QUESTIONS
from streaming.questions.room.data import worst_of
from streaming.questions.room.words import room_lines
from tests.asking import a_view
from tests.builders import Partition, brokers_frame, partitions_frame
from tests.log_dir_frames import Directory, replica_dirs_frame
from tests.twin.disks.stage import (
    GB,
    HOUR_S,
    MB,
    MINUTES,
    PLAIN,
    TIERED,
    Growing,
    cycles,
    one_shard,
    volumes,
)
from tests.twin.disks.test_room import HELD, Copying, shards, so_much_free
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState

HOUR = TIERED | {"local_retention_ms": HOUR_S * 1_000, "segment_bytes": 10 * MB}
States = tuple[ShardState, ShardState]


def asked(name: str, states: States, **values: Any) -> tuple[Any, list[str]]:
    """The data of the answer, and its lines."""
    state, own = states
    question = QUESTIONS[name]
    data = question.data(a_view(state, cluster=own), values)
    return data, list(question.text(data).lines)


# ---------------------------------------------------------------- a loss


def test_a_lost_broker_is_replaced_by_one_that_must_hold_as_much():
    data, lines = asked("lose", shards([Growing()]), broker=[1])
    [room] = data["room"]
    assert (room["broker"], room["room"], room["needed_bytes"]) == (1, "fits_until", HELD)
    assert (room["free_bytes"], room["held"]["untiered_bytes"]) == (500 * GB, HELD)
    assert room["held"]["tiered_bytes"] == 0
    assert (
        "On empty disks like those of broker 1 it fits until 2027-01-21 01:53:20 UTC: it takes "
        "5.42 GiB, and 465.7 GiB are free in /disks/0." in lines
    )
    assert lines[-1] == "Broker 1 has 5.42 GiB of topics that are not tiered."


def test_of_several_lost_brokers_each_is_replaced():
    parts = [Growing(replicas=(1, 3)), Growing("u", replicas=(2, 3))]
    data, _ = asked("lose", shards(parts), broker=[1, 2])
    assert [(each["broker"], each["needed_bytes"]) for each in data["room"]] == [
        (1, HELD),
        (2, HELD),
    ]


def test_without_the_shard_of_the_cluster_nobody_knows():
    state, _ = shards([Growing()])
    question = QUESTIONS["lose"]
    data = question.data(a_view(state), {"broker": [1]})
    assert [(each["room"], each["why"]) for each in data["room"]] == [("unknown", "disks")]
    assert any(
        line.startswith("On empty disks like those of broker 1 nobody knows whether it fits")
        for line in question.text(data).lines
    )


def out(of_cycles: Iterator[tuple[list[Frame], int]], part: Growing) -> States:
    """Broker 2 is fenced in the last cycles, and leaves its disks as they were."""

    def frames() -> Iterator[tuple[list[Frame], int]]:
        for place, (given, at_ms) in enumerate(of_cycles):
            if place < len(MINUTES) - 4:
                yield given, at_ms
                continue
            now = part.at((at_ms - START_MS) / 1_000)
            gone = Partition(now.topic, 0, now.replicas, isr=(1,), offline=(2,), log=now.log)
            more = [brokers_frame(at_ms=at_ms, fenced=(2,)), partitions_frame([gone], at_ms)]
            yield [frame for frame in given if frame.header.kind not in KINDS] + more, at_ms

    return one_shard(frames())


START_MS = 1_800_000_000_000
KINDS = {"brokers", "partitions"}


def test_a_broker_that_is_out_already_is_replaced_as_well():
    """Its volumes have no curves any more: each of its logs is asked."""
    part = Growing()
    states = out(cycles([part], volumes(36), {"t": PLAIN}, MINUTES), part)
    data, _ = asked("lose", states, broker=[2])
    [room] = data["room"]
    assert (room["room"], room["needed_bytes"]) == ("fits_until", HELD)
    after_s = (room["full_at_latest_ms"] - states[1].observed_at_ms) / 1_000
    assert after_s == pytest.approx((500 * GB - HELD) / MB)


# ---------------------------------------------------------------- a return


@pytest.mark.parametrize(
    ("away_s", "words"),
    [
        (300, "On its disks it fits until 2027-01-15 18:00:00 UTC: it takes 286.1 MiB"),
        (12 * HOUR_S, "On its disks it does not fit: it takes 40.23 GiB, and 31.46 GiB are free"),
    ],
)
def test_a_broker_that_comes_back_has_room_for_what_was_written(away_s: int, words: str):
    states = shards([Growing()])
    data, lines = asked("recovery", states, broker=2, away=away_s * 1_000)
    assert data["room"]["needed_bytes"] == away_s * MB
    assert any(line.startswith(words) for line in lines), lines


def test_until_when_it_fits_is_counted_from_the_return_on():
    states = shards([Growing()], 36)
    for away_s in (60, 3 * HOUR_S):
        data, _ = asked("recovery", states, broker=2, away=away_s * 1_000)
        # As long as it is away nothing is written there, and then all of it.
        now_ms, free = states[1].observed_at_ms, data["room"]["free_bytes"]
        assert data["room"]["full_at_latest_ms"] == pytest.approx(now_ms + free / MB * 1_000)


def test_a_replica_that_starts_anew_deletes_what_it_has_before():
    tiered = Growing(age_s=2 * HOUR_S, keeps_s=HOUR_S)
    of_cycles = cycles([tiered], volumes(3), {"t": HOUR}, MINUTES)
    states = one_shard(of_cycles)
    data, lines = asked("recovery", states, broker=2, away=2 * HOUR_S * 1_000)
    room = data["room"]
    assert (data["restarted"], room["room"], room["free_bytes"]) == (1, "fits", 3 * GB)
    assert (room["needed_bytes"], room["freed_bytes"]) == (3_600 * MB, 3_600 * MB)
    assert any("it takes 3.353 GiB after 3.353 GiB are deleted" in line for line in lines)


def test_a_broker_that_is_away_already_has_its_disks_as_it_listed_them_last():
    part = Growing()
    states = out(cycles([part], volumes(36), {"t": PLAIN}, MINUTES), part)
    data, _ = asked("recovery", states, broker=2, away=60_000)
    assert data["room"]["room"] == "fits_until"


def test_what_comes_back_is_in_the_directory_where_it_was():
    """Broker 2 has two disks: on that of t is no room, on that of u there is."""
    parts = [Growing(), Growing("u", mb_per_s=0.01)]

    def disks(after_s: float, given: Sequence[Partition]) -> list[Directory]:
        return [
            Directory(1, 0, 500 * GB, 400 * GB),
            Directory(2, 0, 500 * GB, 1 * GB),
            Directory(2, 1, 600 * GB, 400 * GB),
        ]

    def frames(first: int) -> Iterator[tuple[list[Frame], int]]:
        for given, at_ms in cycles(parts, disks, {"t": PLAIN, "u": PLAIN}, MINUTES):
            where = [(parts[0].at(0), 2, first), (parts[1].at(0), 2, 1 - first)]
            yield [*given, replica_dirs_frame(where, at_ms)], at_ms

    for first, verdict in ((0, "does_not_fit"), (1, "fits_until")):
        states = one_shard(frames(first))
        data, _ = asked("recovery", states, broker=2, away=HOUR_S * 1_000)
        assert data["room"]["room"] == verdict, first


def test_an_empty_broker_has_room_for_what_it_copies():
    data, lines = asked("bootstrap", shards([Growing()]), broker=2)
    assert data["room"][0]["needed_bytes"] == HELD
    assert lines[-1].startswith("On its empty disks it fits until 2027-01-21")
    many = shards([Growing(name) for name in "tuv"])
    data, lines = asked("bootstrap", many, broker=9, new=True)
    assert "nobody knows whether it fits" in lines[-1]
    assert [(each["room"], each["why"]) for each in data["room"]] == [("unknown", "disks")]


# ---------------------------------------------------------------- what is under way


def test_what_is_being_copied_is_said_with_the_room_for_it():
    data, lines = asked("room", shards([Copying()], disks=so_much_free(2.9)))
    assert (data["reassigning"], data["replicas"], data["copied_bytes"]) == (1, 1, HELD // 2)
    assert [each["room"] for each in data["brokers"]] == ["does_not_fit"]
    assert lines == [
        "1 partition is being reassigned; 1 replica is added or not in sync, and lacks 2.71 GiB.",
        "On broker 2 it does not fit: it takes 2.71 GiB, and 2.701 GiB are free in /disks/0.",
    ]


def test_where_all_are_in_sync_nothing_is_copied():
    data, lines = asked("room", shards([Growing()]))
    assert (data["replicas"], data["brokers"]) == (0, [])
    assert lines == ["No replica is added, and all are in sync or offline: nothing is copied."]


# ---------------------------------------------------------------- words


def a_room(broker: int, room: str = "fits", **more: Any) -> dict[str, Any]:
    given = {
        "broker": broker, "room": room, "why": None, "log_dir": "/a", "replicas": 2,
        "unknown_replicas": 0, "needed_bytes": 2 << 30, "under_way_bytes": 0,
        "most_bytes": 2 << 30, "freed_bytes": 0, "free_bytes": 4 << 30,
        "full_at_earliest_ms": None, "full_at_latest_ms": None,
    }  # fmt: skip
    return given | more


def test_the_worst_brokers_come_first_and_those_where_it_fits_last():
    rooms = [
        a_room(1),
        a_room(2, "fits_until", full_at_earliest_ms=START_MS),
        a_room(3, "unknown", why="disks", free_bytes=None, log_dir=None),
        a_room(4, "does_not_fit", under_way_bytes=3 << 30, most_bytes=5 << 30),
        a_room(5, "unknown", why="directory", most_bytes=1 << 30),
        a_room(6, "unknown", why="sizes", unknown_replicas=1),
        a_room(7, "unknown", why="rates"),
        a_room(8),
    ]
    assert list(room_lines(rooms)) == [
        "On broker 4 it does not fit: it takes 2 GiB beside 3 GiB under way, and 4 GiB are free in "
        "/a.",
        "On broker 5 nobody knows whether it fits, since that depends on the directory that Kafka "
        "chooses for each replica: it takes 2 GiB, up to 1 GiB of it on one volume, and "
        "4 GiB are free in /a.",
        "On broker 6 nobody knows whether it fits, since 1 replica is of unknown size: it takes "
        "2 GiB, and 4 GiB are free in /a.",
        "On broker 7 nobody knows until when it fits, since the growth of logs is not known yet: "
        "it takes 2 GiB, and 4 GiB are free in /a.",
        "On broker 2 it fits until 2027-01-15 08:00:00 UTC at the earliest, or for good: it takes "
        "2 GiB, and 4 GiB are free in /a.",
        "Nobody knows whether it fits on broker 3: disks of unknown size, or not listed lately.",
        "It fits on brokers 1, 8.",
    ]
    assert worst_of(rooms) == "does_not_fit"  # type: ignore[arg-type]
    assert worst_of(rooms[:2]) == "fits_until"  # type: ignore[arg-type]
    assert worst_of([]) == "fits"


def test_no_more_than_five_brokers_have_a_sentence():
    lines = list(room_lines([a_room(n, "does_not_fit") for n in range(9)]))
    assert len(lines) == 6
    assert lines[-1] == "So it is on 4 brokers more."
