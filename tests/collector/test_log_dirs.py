"""Log directories: what is in each, and which of them are on one volume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kafka.protocol.admin import DescribeLogDirsResponse

from streaming.collector.listing import ListedPlacement
from streaming.collector.sources.log_dirs import LogDirSizes, LogDirSource
from streaming.collector.wire.log_dirs_layout import LogKind
from streaming.collector.wire.volumes import LAST_ANSWERS
from streaming.runtime.config import BrokerCapacity, CapacityConfig
from tests.collector.test_wire import placement
from twin.declarations.table import Observation
from twin.rules.brokers.log_dirs import LogDirsFrame, ReplicaDirsFrame

DIRECTORY = DescribeLogDirsResponse.DescribeLogDirsResult
TOPIC = DIRECTORY.DescribeLogDirsTopic

Logs = dict[tuple[str, int], int]
"""Sizes by topic and partition."""


def directory(
    path: str, total: int = -1, usable: int = -1, logs: Logs | None = None,
    future: Logs | None = None, error: int = 0,
) -> Any:  # fmt: skip
    topics = [
        TOPIC(name=name, partitions=[
            TOPIC.DescribeLogDirsPartition(
                partition_index=number, partition_size=size, is_future_key=is_future
            )
        ])
        for is_future, sizes in ((False, logs or {}), (True, future or {}))
        for (name, number), size in sizes.items()
    ]  # fmt: skip
    return DIRECTORY(
        error_code=error, log_dir=path, topics=topics, total_bytes=total, usable_bytes=usable
    )


class Asked:
    """A source whose answers of broker 1 are given."""

    def __init__(self, listed: ListedPlacement | None = None, version: int = 5) -> None:
        self.source = LogDirSource("c")
        self.listed = listed or placement({})
        self.version = version
        self.source.requests(1, {35: (1, version)})

    def __call__(self, *directories: Any) -> LogDirSizes:
        answer = DescribeLogDirsResponse(results=list(directories))
        return self.source.read(self.listed, {1: [bytes(answer.encode(version=self.version))]})

    def space(self, *directories: Any) -> tuple[int, int]:
        """Size and free space of the broker."""
        columns = self(*directories).broker_columns
        return columns["log_dir_total_bytes"][1], columns["log_dir_usable_bytes"][1]


def test_two_directories_on_one_volume_count_once() -> None:
    """Kafka answers with the volume's own numbers for each directory on it."""
    found = Asked().space(directory("/d/1", 1_000, 400), directory("/d/2", 1_000, 400))
    assert found == (1_000, 400)


def test_directories_on_volumes_of_their_own_add_up() -> None:
    assert Asked().space(directory("/d/1", 1_000, 0), directory("/d/2", 1_000, 900)) == (2_000, 900)
    assert Asked().space(directory("/d/1", 1_000, 9), directory("/d/2", 3_000, 9)) == (4_000, 18)


def test_a_write_between_the_two_numbers_of_a_volume_makes_no_second_volume_of_it() -> None:
    asked = Asked()
    asked.space(directory("/d/1", 1_000, 400), directory("/d/2", 1_000, 400))
    for _ in range(LAST_ANSWERS - 1):
        found = asked.space(directory("/d/1", 1_000, 400), directory("/d/2", 1_000, 399))
        assert found == (1_000, 400)
    found = asked.space(directory("/d/1", 1_000, 400), directory("/d/2", 1_000, 399))
    assert found == (2_000, 799)


def test_a_volume_that_is_written_all_the_time_is_one_after_a_minute() -> None:
    """Its free space is never the same for both."""
    asked, total = Asked(), 1_000_000
    found = [
        asked.space(directory("/1", total, 9_000 - i), directory("/2", total, 8_900 - i))
        for i in range(LAST_ANSWERS)
    ]
    assert found[:-1] == [(2 * total, 17_900 - 2 * i) for i in range(LAST_ANSWERS - 1)]
    assert found[-1] == (total, 9_000 - (LAST_ANSWERS - 1))


def test_a_disk_that_overtakes_another_stays_one_of_its_own() -> None:
    asked, total = Asked(), 1_000_000
    for i in range(-40, 41):
        usable = 50_000 + 19 * i + (i == 0)  # nearly the same in ten answers, never equal
        found = asked.space(directory("/1", total, 50_000), directory("/2", total, usable))
        assert found[0] == 2 * total, i


def test_a_volume_that_has_grown_is_no_longer_that_of_its_neighbour() -> None:
    asked = Asked()
    asked.space(directory("/d/1", 1_000, 400), directory("/d/2", 1_000, 400))
    found = asked.space(directory("/d/1", 1_000, 400), directory("/d/2", 2_000, 1_400))
    assert found == (3_000, 1_800)


def test_what_is_on_one_volume_with_a_third_is_on_one_volume() -> None:
    asked = Asked()
    one, two, three = "/d/1", "/d/2", "/d/3"
    asked(directory(one, 9, 5), directory(two, 9, 5), directory(three, 9, 4))
    read = asked(directory(one, 9, 3), directory(two, 9, 2), directory(three, 9, 2))
    assert read.disks[1].volume.tolist() == [0, 0, 0]
    assert read.broker_columns["log_dir_usable_bytes"] == {1: 3}


def test_a_directory_that_has_failed_is_named_and_its_space_unknown() -> None:
    asked = Asked()
    failed = directory("/d/2", error=56)
    assert asked.space(directory("/d/1", 1_000, 400), failed) == (1_000, 400)
    [problem] = asked.source.problems
    assert (problem.broker, problem.error) == (1, "KafkaStorage")
    assert "/d/2" in problem.text
    assert Asked().space(failed) == (-1, -1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_before_kafka_3_3_the_space_is_unknown(version: int) -> None:
    asked = Asked(version=version)
    assert asked.space(directory("/d/1", 7, 7), directory("/d/2", 7, 7)) == (-1, -1)
    assert asked(directory("/d/1", 7, 7)).disks[1].volume.tolist() == [0]


@pytest.mark.parametrize("version", [1, 5])
def test_each_log_counts_in_its_directory_as_what_it_is_there(version: int) -> None:
    listed = placement({"a": {0, 1}, "b": {0}})
    asked = Asked(listed, version)
    read = asked(
        directory("/d/2", logs={("a", 1): 10, ("gone", 0): 7}, future={("b", 0): 3}),
        directory("/d/1", logs={("a", 0): 100, ("a", 5): 20, ("b", 0): 1_000}),
        directory("remote://bucket", logs={("a", 0): 9_999}),
    )
    found = read.disks[1].directories
    assert found.path == ("/d/1", "/d/2")
    assert found.bytes_by_kind[:, LogKind.ASSIGNED].tolist() == [1_100, 10]
    assert found.bytes_by_kind[:, LogKind.FUTURE].tolist() == [0, 3]
    assert found.bytes_by_kind[:, LogKind.UNASSIGNED].tolist() == [20, 0]
    assert found.bytes_by_kind[:, LogKind.UNLISTED].tolist() == [0, 7]
    assert sorted(read.local_log_bytes.tolist()) == [10, 100, 1_000]


def test_a_broker_that_is_gone_is_forgotten() -> None:
    asked = Asked()
    asked.space(directory("/d/1", 1_000, 400), directory("/d/2", 1_000, 400))
    asked.source.forget([])
    found = asked.space(directory("/d/1", 1_000, 400), directory("/d/2", 1_000, 399))
    assert found == (2_000, 799)
    assert np.array_equal(asked(directory("/d/1")).disks[1].volume, [0])


def rows_of(read: LogDirSizes, kind: type[Observation], shards: int = 4) -> list[dict[str, Any]]:
    """The rows of that frame, of all shards."""
    tables = [table for shard in range(shards) for k, table in read.tables(shard) if k is kind]
    return [row for table in tables for row in table.to_pylist()]


def test_the_directories_of_a_broker_are_rows_of_one_shard() -> None:
    asked = Asked(placement({"a": {0}}))
    read = asked(
        directory("/d/2", 1_000, 400, error=0, future={("a", 0): 5}),
        directory("/d/1", 1_000, 400, logs={("a", 0): 10, ("gone", 1): 2}),
        directory("/d/3", error=56),
    )
    rows = rows_of(read, LogDirsFrame)
    assert [(r["log_dir"], r["number"], r["volume"], r["error_code"]) for r in rows] == [
        ("/d/1", 0, 0, 0),
        ("/d/2", 1, 0, 0),
        ("/d/3", 2, 2, 56),
    ]
    assert [r["replica_bytes"] for r in rows] == [10, 0, 0]
    assert [(r["future_bytes"], r["unlisted_bytes"]) for r in rows] == [(0, 2), (5, 0), (0, 0)]
    assert [(r["total_bytes"], r["usable_bytes"]) for r in rows] == [(1_000, 400)] * 2 + [(-1, -1)]
    assert [r["broker"] for r in rows] == [1, 1, 1]
    assert not any(kind is LogDirsFrame for shard in (1, 2, 3) for kind, _ in read.tables(shard))


def moved_to(read: LogDirSizes) -> dict[tuple[str, int], int]:
    """The directories that are sent, by replica of broker 1."""
    rows = rows_of(read, ReplicaDirsFrame)
    assert all(row["broker"] == 1 for row in rows)
    return {(row["topic"], row["partition"]): row["number"] for row in rows}


def test_a_replica_s_directory_is_sent_once_again_when_it_moves_and_each_minute() -> None:
    asked = Asked(placement({"a": {0, 1}}))
    first, second = {("a", 0): 10}, {("a", 1): 20}
    cycles = [asked(directory("/1", logs=first), directory("/2", logs=second))]
    cycles += [asked(directory("/1", logs=first | second), directory("/2")) for _ in range(12)]
    sent = [moved_to(read) for read in cycles]
    assert sent[0] == {("a", 0): 0, ("a", 1): 1}
    changed, *others = sent[1:]
    assert changed == {("a", 1): 0} or changed == {("a", 0): 0, ("a", 1): 0}  # its turn, by chance
    in_turn = [each for each in (changed, *others) if len(each) == 2]
    assert in_turn == [{("a", 0): 0, ("a", 1): 0}]


def test_what_did_not_reach_the_bus_is_sent_again() -> None:
    asked = Asked(placement({"a": {0, 1}}))
    answer = directory("/1", logs={("a", 0): 1}), directory("/2", logs={("a", 1): 1})
    everything = moved_to(read := asked(*answer))
    asked.source.send_again(read)
    assert moved_to(asked(*answer)) == everything
    assert len(everything) == 2


def test_a_broker_with_one_directory_sends_no_row_a_replica() -> None:
    asked = Asked(placement({"a": {0, 1}}))
    for _ in range(12):
        assert moved_to(asked(directory("/1", logs={("a", 0): 1, ("a", 1): 1}))) == {}


def test_no_broker_no_rows() -> None:
    asked = Asked(placement({"a": {0, 1}}))
    assert rows_of(asked.source.read(asked.listed, {}), LogDirsFrame) == []


def sized(directories: list[Any], version: int = 3, **capacity: Any) -> tuple[int, int]:
    """Size and free space of broker 1, where these sizes are configured."""
    asked = Asked(placement({"a": {0, 1}}), version)
    asked.source = LogDirSource("c", CapacityConfig(**capacity))
    asked.source.requests(1, {35: (1, version)})
    return asked.space(*directories)


def test_the_configured_size_counts_where_a_broker_does_not_say_its_own() -> None:
    logs = directory("/1", logs={("a", 0): 300, ("gone", 0): 20})
    assert sized([logs], disk_bytes=1_000) == (1_000, 680)
    assert sized([logs, directory("/2", future={("a", 0): 80})], disk_bytes=1_000) == (1_000, 600)
    assert sized([logs], disk_bytes=300) == (300, 0)
    assert sized([directory("/1", 2_000, 900)], 5, disk_bytes=1_000) == (2_000, 900)
    assert sized([logs]) == (-1, -1)


def test_a_broker_may_have_a_size_of_its_own() -> None:
    own = {"brokers": {"1": BrokerCapacity(disk_bytes=5_000)}, "disk_bytes": 1_000}
    assert sized([directory("/1")], **own) == (5_000, 5_000)
    other = {"brokers": {"2": BrokerCapacity(disk_bytes=5_000)}, "disk_bytes": 1_000}
    assert sized([directory("/1")], **other) == (1_000, 1_000)
    off = {"brokers": {"1": BrokerCapacity(disk_bytes=-1)}, "disk_bytes": 1_000}
    assert sized([directory("/1")], **off) == (-1, -1)


def test_a_configured_size_is_said_to_be_one() -> None:
    asked = Asked(placement({"a": {0}}), version=3)
    asked.source = LogDirSource("c", CapacityConfig(disk_bytes=1_000))
    asked.source.requests(1, {35: (1, 3)})
    rows = rows_of(asked(directory("/1"), directory("/2")), LogDirsFrame)
    assert [(r["size_is_configured"], r["volume"], r["total_bytes"]) for r in rows] == [
        (True, 0, 1_000),
        (True, 0, 1_000),
    ]
