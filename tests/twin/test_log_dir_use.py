"""What is in each log directory: the same for any number of shards, and it adds up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, configs_frame
from tests.cycles import cycle_frames, own_after
from tests.examples import examples
from tests.log_dir_frames import Directory, failed, log_dirs_frame, replica_dirs_frame
from twin.cluster_rules.disks.dir_contents import LogDirUse
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.tables.enums import PendingUpload
from twin.totals import shard_totals

TIERED = {"remote_storage": 1, "copies_disabled": 0}
PLAIN = {"remote_storage": 0}
Where = Sequence[tuple[Partition, int, int]]


def half_uploaded(
    number: int = 0, replicas: tuple[int, ...] = (1,), size: int = 1_000
) -> Partition:
    """A partition of a tiered topic with 100 records on disk, 40 of which are in remote storage."""
    log = Log(end=200, local_start=100, size_bytes=size, last_tiered=139)
    return Partition("tiered", number, replicas, log=log)


def plain(number: int = 0, replicas: tuple[int, ...] = (1,), size: int = 500) -> Partition:
    return Partition("plain", number, replicas, log=Log(size_bytes=size))


def cycle(
    parts: Sequence[Partition], disks: Sequence[Directory], where: Where = (), at_ms: int = NOW_MS,
    configs: dict[str, dict[str, int]] | None = None,
) -> tuple[list[Frame], int]:  # fmt: skip
    frames = [
        *cycle_frames(parts, at_ms),
        configs_frame(configs or {"tiered": TIERED, "plain": PLAIN}, at_ms),
        log_dirs_frame(disks, at_ms),
    ]
    return [*frames, *([replica_dirs_frame(where, at_ms)] if where else [])], at_ms


def used(*cycles: tuple[list[Frame], int], shards: int = 1, order=list) -> ShardState:
    """The cluster's own shard after those cycles."""
    return own_after(cycles, ["tiered", "plain"], shards, order)


def rows(state: ShardState, *names: str) -> list[tuple]:
    table = state[LogDirUse]
    return list(zip(*(getattr(table, name).tolist() for name in names), strict=True))


BY_CLASS = ("tiered_bytes", "waiting_bytes", "untiered_bytes", "unjudged_bytes", "future_bytes",
            "unassigned_bytes", "unlisted_bytes", "other_bytes")  # fmt: skip


def test_all_that_is_used_on_a_disk_is_of_some_class():
    disk = Directory(
        1, 0, total=10_000, usable=4_000, replicas=1_500, future=200, unassigned=30, unlisted=7
    )
    state = used(cycle([half_uploaded(), plain()], [disk]))
    assert rows(state, *BY_CLASS) == [(400, 600, 500, 0, 200, 30, 7, 4_263)]
    assert sum(rows(state, *BY_CLASS)[0]) == 10_000 - 4_000


def test_a_broker_with_one_directory_needs_no_row_a_replica():
    disks = [Directory(broker, replicas=1_000) for broker in (1, 2)]
    state = used(cycle([half_uploaded(replicas=(1, 2))], disks))
    assert rows(state, "broker", "tiered_bytes", "waiting_bytes") == [(1, 400, 600), (2, 400, 600)]


def test_replicas_count_in_the_directory_that_they_are_in():
    parts = [half_uploaded(), plain()]
    disks = [Directory(1, 0, replicas=500), Directory(1, 1, replicas=1_000)]
    state = used(cycle(parts, disks, [(parts[0], 1, 1), (parts[1], 1, 0)]))
    assert rows(state, "tiered_bytes", "untiered_bytes") == [(0, 500), (400, 0)]


def test_a_replica_whose_directory_is_unknown_is_unjudged_there():
    disks = [Directory(1, 0, replicas=500), Directory(1, 1, replicas=1_000)]
    state = used(cycle([half_uploaded(), plain()], disks))
    assert rows(state, "tiered_bytes", "untiered_bytes", "unjudged_bytes") == [
        (0, 0, 500),
        (0, 0, 1_000),
    ]


@pytest.mark.parametrize(
    ("setting", "log", "expected"),
    [  # tiered, waiting, untiered, unjudged
        (TIERED, Log(end=200, local_start=100, last_tiered=99), (0, 1_000, 0, 0)),
        (TIERED, Log(end=200, local_start=100, last_tiered=199), (1_000, 0, 0, 0)),
        (TIERED, Log(end=200, local_start=100, last_tiered=50), (0, 1_000, 0, 0)),
        (TIERED, Log(end=200, reason=PendingUpload.NOTHING_TIERED), (0, 1_000, 0, 0)),
        (TIERED, Log(end=200), (0, 0, 0, 1_000)),  # before Kafka 3.9
        (TIERED | {"copies_disabled": 1}, Log(end=100, last_tiered=24), (250, 0, 750, 0)),
        ({}, Log(end=200, last_tiered=24), (0, 0, 0, 1_000)),  # settings that nobody could read
        (PLAIN, Log(end=200), (0, 0, 1_000, 0)),
    ],
)
def test_what_waits_for_its_upload_is_above_what_the_leader_has_uploaded(setting, log, expected):
    part = Partition("tiered", replicas=(1,), log=log)
    state = used(cycle([part], [Directory(replicas=1_000)], configs={"tiered": setting}))
    assert [tuple(row) for row in rows(state, *BY_CLASS[:4])] == [expected]


def test_the_rest_of_a_volume_with_several_directories_counts_once():
    disks = [
        Directory(1, 0, 10_000, 4_000, replicas=500),
        Directory(1, 1, 10_000, 4_000, replicas=1_000, volume=0),
    ]
    state = used(cycle([], disks))
    rest = [value for (value,) in rows(state, "other_bytes")]
    assert rest[0] == 4_500
    assert math.isnan(rest[1])


def test_of_a_directory_that_has_failed_only_its_replicas_are_known():
    parts = [half_uploaded(), Partition("plain", 0, (1, 2), log=Log(size_bytes=500))]
    where = [(parts[0], 1, 0), (parts[1], 1, 1)]
    disks = [Directory(1, 0, replicas=1_000), Directory(1, 1, replicas=500), Directory(2)]
    later = [parts[0], Partition("plain", 0, (1, 2), offline=(1,), leader=2, epoch=2)]
    state = used(
        cycle(parts, disks, where),
        cycle(later, [disks[0], failed(1, 1), disks[2]], at_ms=NOW_MS + 5_000),
    )
    assert rows(state, "error_code", "offline_replicas") == [(0, 0), (56, 1), (0, 0)]
    assert rows(state, *BY_CLASS[:4])[1] == (-1, -1, -1, -1)
    totals = shard_totals(state)
    assert totals["kafka_twin_log_dir_failed"] == {
        ("1", "/disks/0"): 0,
        ("1", "/disks/1"): 1,
        ("2", "/disks/0"): 0,
    }
    assert totals["kafka_twin_log_dir_offline_replicas"]["1", "/disks/1"] == 1
    assert ("1", "/disks/1") not in totals["kafka_twin_log_dir_usable_bytes"]


def test_offline_replicas_of_a_twin_that_never_saw_the_directory_are_in_the_only_one_that_failed():
    part = Partition("plain", 0, (1, 2), offline=(1,), leader=2)
    disks = [Directory(1, 0), failed(1, 1), Directory(2)]
    assert rows(used(cycle([part], disks)), "offline_replicas") == [(0,), (1,), (0,)]
    disks = [failed(1, 0), failed(1, 1), Directory(2)]
    assert rows(used(cycle([part], disks)), "offline_replicas") == [(0,), (0,), (0,)]


def test_directories_of_a_broker_that_has_not_answered_for_a_minute_have_no_series():
    both = [Directory(1, 0, 10_000, 4_000), Directory(2, 0, 10_000, 5_000)]
    for later_ms, brokers in ((60_000, ["1", "2"]), (60_001, ["2"])):
        state = used(cycle([], both), cycle([], both[1:], at_ms=NOW_MS + later_ms))
        usable = shard_totals(state)["kafka_twin_log_dir_usable_bytes"]
        assert [broker for broker, _ in usable] == brokers
        assert len(state[LogDirUse].broker) == 2


def test_before_kafka_3_3_the_classes_are_known_and_the_rest_is_not():
    state = used(cycle([plain()], [Directory(total=-1, usable=-1, replicas=500)]))
    totals = shard_totals(state)
    assert totals["kafka_twin_log_dir_bytes"]["1", "/disks/0", "untiered"] == 500
    assert ("1", "/disks/0", "other") not in totals["kafka_twin_log_dir_bytes"]
    assert totals["kafka_twin_log_dir_total_bytes"] == {}


@examples(60)
@given(
    sizes=st.lists(st.integers(0, 10**12), min_size=1, max_size=6),
    shards=st.sampled_from([4, 25]),
    data=st.data(),
)
def test_the_sums_are_the_same_for_any_number_of_shards_in_any_order(sizes, shards, data):
    tiered = [half_uploaded(n, (1, 2), size) for n, size in enumerate(sizes)]
    parts = [*tiered, *(plain(n, (1,), size) for n, size in enumerate(sizes))]
    parts.sort(key=lambda part: (part.topic, part.number))
    where = [(part, 1, data.draw(st.integers(0, 1))) for part in parts]
    disks = [Directory(1, 0, replicas=9), Directory(1, 1), Directory(2)]
    whole = used(cycle(parts, disks, where))
    split = used(
        cycle(parts, disks, where),
        shards=shards,
        order=lambda reports: data.draw(st.permutations(reports)),
    )
    for one, other in zip(whole[LogDirUse].values(), split[LogDirUse].values(), strict=True):
        np.testing.assert_array_equal(one, other)
    known = [sum(row) for row in rows(whole, "tiered_bytes", "waiting_bytes", "untiered_bytes")]
    assert known[0] + known[1] == 2 * sum(sizes)
    assert known[2] == sum(sizes)
