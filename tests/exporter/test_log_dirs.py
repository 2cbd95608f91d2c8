"""Log directories in the API: what is in each, and which partitions are offline there."""

from __future__ import annotations

from typing import Any

from tests.builders import NOW_MS, Log, Partition, a_state
from tests.exporter.test_exporter import a_client, a_store
from tests.log_dir_frames import Directory, failed, log_dirs_frame, replica_dirs_frame
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine import codec
from twin.step import step

LATER_MS = NOW_MS + 5_000
PARTS = [Partition("t", number, (1, 2), log=Log(size_bytes=500)) for number in range(3)]


def asked(where: list[int] | None, later: list[Directory], query: str = "") -> list[dict[str, Any]]:
    """The answer once the replicas of broker 1 are offline.

    ``where``: the directories in which they were; None where the twin never saw them.
    """
    state = a_state(*PARTS, topics={"t": {"remote_storage": 0}})
    frames = [log_dirs_frame([Directory(1, 0, replicas=500), Directory(1, 1, replicas=1_000)])]
    if where is not None:
        moved = zip(PARTS, where, strict=True)
        frames.append(replica_dirs_frame([(part, 1, number) for part, number in moved]))
    state, _ = step(state, frames, NOW_MS)
    offline = [Partition("t", p.number, (1, 2), offline=(1,), leader=2, epoch=2) for p in PARTS[1:]]
    state, _ = step(state, [log_dirs_frame(later, LATER_MS)], LATER_MS)
    state = a_state(PARTS[0], *offline, at_ms=LATER_MS, since=state)
    own, _ = step_cluster(empty_cluster(CATALOG, "c", 1), reports(state))
    store = a_store(state)
    assert store.take_snapshot(b"c/cluster", codec.encode(own))
    store.publish()
    answer: list[dict[str, Any]] = (
        a_client(store).get(f"/api/v1/brokers/log-dirs{query}").json()["log_dirs"]
    )
    return answer


BROKEN = [Directory(1, 0, replicas=500), failed(1, 1), Directory(2)]


def test_a_failed_directory_names_the_partitions_that_were_in_it():
    whole, broken, other = asked([0, 1, 1], BROKEN)
    assert (broken["broker"], broken["log_dir"]) == (1, "/disks/1")
    assert broken["has_failed"]
    assert broken["offline"] == [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 2}]
    assert (broken["offline_left_out"], broken["offline_replicas"]) == (0, 2)
    assert broken["tiered_bytes"] is broken["total_bytes"] is None
    for well in (whole, other):
        assert not well["has_failed"]
        assert well["offline"] == []


def test_a_twin_that_started_later_takes_them_to_be_in_the_only_one_that_failed():
    [broken] = asked(None, BROKEN, "?failed=true&limit=1")
    assert broken["offline"] == [{"topic": "t", "partition": 1}]
    assert broken["offline_left_out"] == 1
    both = asked(None, [failed(1, 0), failed(1, 1)], "?failed=true")
    assert [each["offline"] for each in both] == [[], []]


def test_what_is_in_a_directory_adds_up_and_says_when_it_was_observed():
    [first, *_] = asked([0, 1, 1], BROKEN, "?broker=1")
    used = sum(
        first[f"{name}_bytes"]
        for name in ("tiered", "waiting", "untiered", "unjudged", "future", "unassigned",
                     "unlisted", "other")
    )  # fmt: skip
    assert used == first["total_bytes"] - first["usable_bytes"] == 600_000
    assert first["untiered_bytes"] == 500
    assert first["volume"] == "/disks/0"
    assert first["observed_at_ms"] == LATER_MS


def test_it_is_null_until_every_shard_has_reported():
    store = a_store(a_state(*PARTS))
    assert a_client(store).get("/api/v1/brokers/log-dirs").json() == {"log_dirs": None}
