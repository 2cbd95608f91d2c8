"""When a disk is full in the API, what fills it, and what would help."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tests import scope
from tests.builders import Partition
from tests.exporter.test_exporter import a_client, a_store
from tests.log_dir_frames import Directory
from tests.twin.disks.stage import HOUR_S, MB, PLAIN, TIERED, Growing, cycles
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, step_cluster
from twin.engine import codec
from twin.engine.shard_state import ShardState

GB = 1_000 * MB
MINUTES = (0, 10, *range(60, 1_200, 180))
LAST_MS = 1_000 * MINUTES[-1]


def volumes(
    free_gb: Sequence[float], beside_mb_per_s: float = 0.0
) -> Callable[[float, Sequence[Partition]], list[Directory]]:
    """A volume a broker, with so much free at first."""
    at_first: dict[int, int] = {}

    def of(after_s: float, parts: Sequence[Partition]) -> list[Directory]:
        found = []
        for broker, free in enumerate(free_gb, 1):
            logs = sum(p.log.size_bytes for p in parts if broker in p.replicas)
            other = round(beside_mb_per_s * MB * after_s)
            taken = logs - at_first.setdefault(broker, logs) + other
            found.append(Directory(broker, 0, 900 * GB, round(free * GB) - taken, replicas=logs))
        return found

    return of


def asked(
    parts: Sequence[Growing], free_gb: Sequence[float], configs: dict[str, dict[str, int]],
    query: str = "", *, seconds: Sequence[float] = MINUTES, beside_mb_per_s: float = 0.0,
    shards: int = 1,
) -> list[dict[str, Any]]:  # fmt: skip
    """The directories in the answer after those cycles."""
    of_cycles = list(cycles(parts, volumes(free_gb, beside_mb_per_s), configs, seconds))
    topics = [part.topic for part in parts]
    states = [
        scope.played(CATALOG, of_cycles, n, shards, frozenset(topics[n::shards]))
        for n in range(shards)
    ]
    return answered(states, of_cycles, topics, query)


def answered(
    states: Sequence[ShardState], of_cycles: scope.Cycles, topics: Sequence[str], query: str = ""
) -> list[dict[str, Any]]:
    """What the exporter says that has these states of shards."""
    own = empty_cluster(CATALOG, "c", len(states))
    for frames in scope.reported(CATALOG, of_cycles, len(states), topics):
        own, _ = step_cluster(own, frames)
    store = a_store(*states)
    assert store.take_snapshot(b"c/cluster", codec.encode(own))
    store.publish()
    found: list[dict[str, Any]] = (
        a_client(store).get(f"/api/v1/brokers/log-dirs{query}").json()["log_dirs"]
    )
    return found


def hours(time: dict[str, Any], directory: dict[str, Any]) -> float:
    """From the newest cycle until that time, which must be in sight."""
    assert time["forecast"] == "full"
    return float(time["at_ms"] - directory["observed_at_ms"]) / HOUR_S / 1_000


def commands(directory: dict[str, Any]) -> list[str]:
    return [each["command"] for each in directory["help"]]


def words(times: Iterable[dict[str, Any]]) -> set[tuple[str, int | None]]:
    return {(each["forecast"], each["at_ms"]) for each in times}


def test_a_disk_that_fills_has_its_bounds_its_line_and_its_rates():
    one, _ = asked([Growing()], [36, 800], {"t": PLAIN})
    full, left_h = one["full"], 10 - LAST_MS / HOUR_S / 1_000
    for bound in ("earliest", "latest", "line"):
        assert hours(full[bound], one) == pytest.approx(left_h, rel=0.02), bound
    for rate in ("logs_least_bytes_per_s", "logs_most_bytes_per_s", "used_bytes_per_s"):
        assert full[rate] == pytest.approx(MB, rel=0.05), rate
    assert full["other_bytes_per_s"] == pytest.approx(0, abs=1_000)
    assert (full["near"], full["differs"], full["away"]) == ("warn", False, None)
    assert full["unjudged_replicas"] == 0


def test_not_in_sight_and_unknown_are_two_values():
    idle = Growing(mb_per_s=0.0)
    [known, *_] = asked([idle], [36, 36], {"t": PLAIN})
    assert words(known["full"][each] for each in ("earliest", "latest", "line")) == {
        ("not_in_sight", None)
    }
    assert known["full"]["near"] is None
    # One cycle has no rate yet: that nothing is seen to grow says nothing.
    [at_first, *_] = asked([idle], [36, 36], {"t": PLAIN}, seconds=[0])
    assert words(at_first["full"][each] for each in ("earliest", "latest", "line")) == {
        ("unknown", None)
    }
    assert at_first["full"]["differs"] is None
    assert at_first["full"]["unjudged_replicas"] == 1


def test_of_a_volume_of_unknown_size_nothing_is_foretold():
    def unknown(_: float, parts: Sequence[Partition]) -> list[Directory]:
        return [Directory(1, 0, -1, -1, replicas=parts[0].log.size_bytes)]

    of_cycles = list(cycles([Growing()], unknown, {"t": PLAIN}, MINUTES))
    state = scope.played(CATALOG, of_cycles, 0, 1, frozenset({"t"}))
    [one] = answered([state], of_cycles, ["t"])
    assert words(one["full"][each] for each in ("earliest", "latest", "line")) == {
        ("unknown", None)
    }
    assert one["full"]["used_bytes_per_s"] is one["full"]["differs"] is None
    assert [each["topic"] for each in one["filling"]] == ["t"], "what is written is known"
    assert one["help"] == []


def test_what_grows_beside_logs_is_told_as_not_understood_only_if_the_model_lacks_it():
    idle = Growing(mb_per_s=0.0)
    [one, _] = asked([idle], [36, 36], {"t": PLAIN}, beside_mb_per_s=5.0)
    assert one["full"]["other_bytes_per_s"] == pytest.approx(5 * MB, rel=0.02)
    assert one["full"]["differs"] is False, "it is no log, and counted as that"


def test_the_topic_that_adds_most_comes_first_not_the_one_that_is_written_most():
    """Retention deletes of the busy one as much as is written."""
    day = PLAIN | {"retention_ms": 24 * HOUR_S * 1_000}
    parts = [
        Growing("busy", mb_per_s=5.0, age_s=30 * HOUR_S, keeps_s=24 * HOUR_S),
        Growing("grows", mb_per_s=1.0, replicas=(1,)),
        Growing("idle", mb_per_s=0.0),
    ]
    one, two = asked(parts, [36, 800], {"busy": day, "grows": PLAIN, "idle": PLAIN})
    grows, busy = one["filling"]
    assert (grows["topic"], busy["topic"]) == ("grows", "busy")
    assert grows["written_bytes_per_s"] == pytest.approx(MB, rel=0.02)
    assert grows["grows_bytes_per_s"] == pytest.approx(MB, rel=0.02)
    assert busy["written_bytes_per_s"] == pytest.approx(5 * MB, rel=0.02)
    assert busy["grows_bytes_per_s"] == pytest.approx(0, abs=0.05 * MB)
    assert grows["settings"] == {"retention.ms": -1, "retention.bytes": -1}
    assert busy["settings"] == {"retention.ms": 86_400_000, "retention.bytes": -1}
    assert busy["tiered"] is False
    assert [each["topic"] for each in two["filling"]] == ["busy"], "the other has no replica there"


def test_what_fills_a_disk_is_the_same_for_any_number_of_shards():
    parts = [Growing(f"t{i}", mb_per_s=1.0 + i) for i in range(3)]
    configs = {part.topic: PLAIN for part in parts}
    one, two = (asked(parts, [36, 800], configs, "?broker=1", shards=n)[0] for n in (1, 2))
    assert [each["topic"] for each in one["filling"]] == ["t2", "t1", "t0"]
    assert one["filling"] == two["filling"]
    assert one["help"] == two["help"]


def test_ten_topics_are_named_and_the_others_counted():
    parts = [Growing(f"t{i:02}", mb_per_s=0.1 + 0.1 * i) for i in range(13)]
    [one] = asked(parts, [900, 900], {p.topic: PLAIN for p in parts}, "?broker=1")
    assert [each["topic"] for each in one["filling"]] == [f"t{i:02}" for i in range(12, 2, -1)]
    assert one["filling_left_out"] == 3


def test_what_would_help_is_half_of_what_is_kept_or_other_brokers():
    one, two, three = asked([Growing()], [36, 36, 800], {"t": PLAIN})
    [shorter] = commands(one)
    half_ms = (HOUR_S * 1_000 + LAST_MS) // 2 // 60_000 * 60_000
    assert shorter.startswith("kafka-configs.sh --bootstrap-server ")
    assert shorter.endswith(f" --entity-name t --add-config retention.ms={half_ms}")
    assert "in place of ever: deletes what is older for good" in one["help"][0]["text"]
    assert commands(two) == commands(one), "one broker with room is too few for two replicas"
    assert three["help"] == [], "nothing is in sight there"


def test_other_brokers_are_named_where_enough_have_room_and_the_product_judges_the_move():
    one, *_ = asked([Growing(replicas=(1,))], [36, 800, 800], {"t": PLAIN}, "?broker=1")
    _, proposal, judged, moved = commands(one)
    assert "--broker-list 2,3 --generate" in proposal
    assert '{"version":1,"topics":[{"topic":"t"}]}' in shlex.split(proposal)
    assert judged == "kafka-twin plan judge proposal.json"
    assert moved.endswith("proposal.json --execute --throttle BYTES_PER_S")


TEN_HOURS = TIERED | {"local_retention_ms": 10 * HOUR_S * 1_000, "segment_bytes": 10 * MB}


def test_of_a_tiered_topic_local_retention_is_shortened_and_an_outage_is_foretold():
    [one, _] = asked([Growing()], [27, 27], {"t": TEN_HOURS})
    away = one["full"]["away"]
    assert hours(away, one) == pytest.approx(7.5, abs=0.5)
    [topic] = one["filling"]
    assert topic["tiered"] is True
    assert topic["settings"] == {"local.retention.ms": 36_000_000, "local.retention.bytes": -1}
    assert " --add-config local.retention.ms=" in commands(one)[0]
    assert "consumers read it from remote storage" in one["help"][0]["text"]


def test_a_compacted_topic_is_not_given_a_retention():
    [one, _] = asked([Growing()], [36, 36], {"t": PLAIN | {"compacted": 1}})
    assert one["full"]["earliest"]["forecast"] == "full"
    assert one["full"]["latest"]["forecast"] == "not_in_sight"
    assert commands(one) == []


def test_while_nobody_knows_which_directory_replicas_are_in_that_nothing_grows_says_nothing():
    def two(_: float, parts: Sequence[Partition]) -> list[Directory]:
        half = parts[0].log.size_bytes // 2
        return [Directory(1, n, 900 * GB, 800 * GB + n, replicas=half) for n in range(2)]

    of_cycles = list(cycles([Growing()], two, {"t": PLAIN}, MINUTES))
    state = scope.played(CATALOG, of_cycles, 0, 1, frozenset({"t"}))
    for directory in answered([state], of_cycles, ["t"]):
        assert directory["full"]["latest"] == {"forecast": "unknown", "at_ms": None}
        assert directory["filling"] == []
