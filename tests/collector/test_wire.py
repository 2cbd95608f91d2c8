"""The numpy readers against kafka-python's codec, which is the judge."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeLogDirsResponse
from kafka.protocol.consumer import ListOffsetsResponse
from kafka.protocol.metadata import MetadataResponse

from streaming.collector import listing
from streaming.collector.listing import BrokerReplicas, ListedPlacement
from streaming.collector.sources import offsets
from streaming.collector.wire import log_dirs_layout
from streaming.collector.wire.layouts import Layout, LayoutCursor, places
from streaming.runtime.kafka.messages import MalformedBytes, OverlongVarint

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITION = st.integers(0, 300)
NAME = st.text("abcxyz.-_0189", min_size=1, max_size=200)


def placement(topics: dict[str, set[int]], broker: int = 1) -> ListedPlacement:
    """One replica of each partition, all on one broker."""
    kind = MetadataResponse.MetadataResponseTopic
    return listing.from_metadata(
        [
            kind(
                error_code=0,
                name=name,
                topic_id=uuid.uuid5(uuid.NAMESPACE_DNS, name),
                partitions=[
                    kind.MetadataResponsePartition(
                        error_code=0,
                        partition_index=p,
                        leader_id=broker,
                        leader_epoch=0,
                        replica_nodes=[broker],
                        isr_nodes=[broker],
                        offline_replicas=[],
                    )
                    for p in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
        shards=4,
        is_included=lambda _: True,
    ).placement


@st.composite
def asked_of(draw: st.DrawFn) -> dict[str, set[int]]:
    return draw(st.dictionaries(NAME, st.sets(PARTITION, min_size=1, max_size=20), max_size=5))


def list_offsets(draw: Any, topics: dict[str, set[int]], version: int) -> bytes:
    """A random answer about these partitions, in a random order."""
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    answer = ListOffsetsResponse(
        throttle_time_ms=draw(INT32),
        topics=[
            kind(
                name=name,
                partitions=[
                    kind.ListOffsetsPartitionResponse(
                        partition_index=p,
                        error_code=draw(INT16),
                        timestamp=draw(INT64),
                        offset=draw(INT64),
                        leader_epoch=draw(INT32),
                    )
                    for p in draw(st.permutations(sorted(topics[name])))
                ],
            )
            for name in draw(st.permutations(sorted(topics)))
        ],
    )
    return bytes(answer.encode(version=version))


def by_row(read: tuple[Any, ...]) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in read), strict=True))


def kept(held_by: ListedPlacement, version: int) -> offsets.BrokerOffsets:
    return offsets.BrokerOffsets(held_by, 1, version)


@given(asked_of(), st.integers(6, 11), st.data())
def test_offsets_read_by_numpy_are_the_codecs(
    topics: dict[str, set[int]], version: int, data: st.DataObject
) -> None:
    held_by = placement(topics)
    reader = kept(held_by, version)
    for _ in range(3):
        body = list_offsets(data.draw, topics, version)
        expected = offsets.decoded(body, version, held_by.replicas_on(1))
        assert by_row(reader.read(offsets.LATEST, body)) == by_row(expected)


@given(asked_of(), st.data())
def test_an_answer_about_other_partitions_leaves_them_out(
    topics: dict[str, set[int]], data: st.DataObject
) -> None:
    held_by = placement({name: {p for p in ps if p % 2} for name, ps in topics.items()})
    body = list_offsets(data.draw, topics, 11)
    rows, *_ = kept(held_by, 11).read(offsets.LATEST, body)
    assert sorted(rows.tolist()) == list(range(len(held_by.broker)))


@given(asked_of(), st.data())
def test_a_truncated_or_longer_answer_is_irregular(
    topics: dict[str, set[int]], data: st.DataObject
) -> None:
    body = list_offsets(data.draw, topics, 11)
    held = placement(topics).replicas_on(1)
    cut = data.draw(st.integers(0, len(body) - 1))
    for wrong in (body[:cut], body + b"\0"):
        with pytest.raises(MalformedBytes):
            offsets.ListOffsetsLayout(wrong, held)


def test_tagged_fields_are_left_to_the_codec() -> None:
    held_by = placement({"a": {0, 1}})
    tagged = with_tag(plain({0: 7, 1: 8}))
    with pytest.raises(MalformedBytes):
        offsets.ListOffsetsLayout(tagged, held_by.replicas_on(1))
    assert by_row(kept(held_by, 11).read(offsets.LATEST, tagged)) == [(0, 0, 7, -1), (1, 0, 8, -1)]


def plain(offset: dict[int, int]) -> bytes:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    part = kind.ListOffsetsPartitionResponse
    partitions = [part(partition_index=p, error_code=0, offset=o) for p, o in offset.items()]
    return bytes(
        ListOffsetsResponse(topics=[kind(name="a", partitions=partitions)]).encode(version=11)
    )


def with_tag(body: bytes) -> bytes:
    """The first partition says something of a later Kafka: tag 9, three bytes."""
    start = 4 + 1 + 2 + 1  # throttle, topics, name "a", partitions
    end = start + 26
    return body[:end] + b"\x01\x09\x03xyz" + body[end + 1 :]


def test_an_answer_of_the_same_shape_is_read_without_learning_it_again() -> None:
    reader = kept(placement({"a": {0, 1}}), 11)
    reader.read(offsets.LATEST, plain({0: 7, 1: 8}))
    learnt = reader.layouts[offsets.LATEST]
    assert by_row(reader.read(offsets.LATEST, plain({0: 70, 1: 80}))) == [
        (0, 0, 70, -1),
        (1, 0, 80, -1),
    ]
    assert reader.layouts[offsets.LATEST] is learnt
    assert by_row(reader.read(offsets.LATEST, plain({1: 80, 0: 70}))) == [
        (0, 0, 70, -1),
        (1, 0, 80, -1),
    ]
    assert reader.layouts[offsets.LATEST] is not learnt


def test_all_kinds_share_what_was_learnt_of_one() -> None:
    reader = kept(placement({"a": {0, 1}}), 11)
    for kind in offsets.SINCE:
        reader.read(kind, plain({0: 7, 1: 8}))
    assert len({id(r) for r in reader.layouts.values()}) == 1


def log_dirs_answer(draw: Any, topics: dict[str, set[int]], version: int, dirs: int) -> bytes:
    """A random answer: each partition current in one directory, perhaps future in another."""
    directory = DescribeLogDirsResponse.DescribeLogDirsResult
    kind = directory.DescribeLogDirsTopic
    results = []
    home = {(t, p): draw(st.integers(0, dirs - 1)) for t, ps in topics.items() for p in sorted(ps)}
    moving = {key: draw(st.booleans()) and dirs > 1 for key in home}
    for d in draw(st.permutations(range(dirs))):
        listed = []
        for name in draw(st.permutations(sorted(topics))):
            parts = [
                kind.DescribeLogDirsPartition(
                    partition_index=p,
                    partition_size=draw(st.integers(0, 2**50)),
                    offset_lag=draw(INT64),
                    is_future_key=home[name, p] != d,
                )
                for p in sorted(topics[name])
                if home[name, p] == d or (moving[name, p] and (home[name, p] + 1) % dirs == d)
            ]
            if parts:
                listed.append(kind(name=name, partitions=parts))
        results.append(
            directory(
                error_code=0,
                log_dir=draw(st.sampled_from([f"/data/{d}", f"remote://bucket-{d}"])),
                topics=listed,
                total_bytes=draw(st.integers(-1, 2**60)),
                usable_bytes=draw(st.integers(-1, 2**60)),
                is_cordoned=draw(st.booleans()),
            )
        )
    answer = DescribeLogDirsResponse(throttle_time_ms=draw(INT32), error_code=0, results=results)
    return bytes(answer.encode(version=version))


def summed(read: log_dirs_layout.BrokerSizes) -> list[Any]:
    """What a response says of each directory, as plain values."""
    found = read.directories
    columns = (found.error_code, found.total_bytes, found.usable_bytes, found.is_cordoned)
    return [list(found.path), *(each.tolist() for each in columns), found.bytes_by_kind.tolist()]


@given(asked_of(), st.integers(2, 5), st.integers(1, 3), st.data())
def test_sizes_read_by_numpy_are_the_codecs(
    topics: dict[str, set[int]], version: int, dirs: int, data: st.DataObject
) -> None:
    body = log_dirs_answer(data.draw, topics, version, dirs)
    listed = {name for name in topics if data.draw(st.booleans())}
    assigned = {name: topics[name] - {0, 1} for name in listed}
    held = placement({name: each for name, each in assigned.items() if each}).replicas_on(1)
    layout = log_dirs_layout.LogDirsLayout(body, version, held, listed)
    read = layout.read(np.frombuffer(body, np.uint8))
    expected = log_dirs_layout.decoded(body, version, held, listed)
    assert expected.error_code == 0
    assert by_row((read.rows, read.sizes, read.directory)) == by_row(
        (expected.rows, expected.sizes, expected.directory)
    )
    assert summed(read) == summed(expected)
    assert version >= 4 or set(read.directories.total_bytes.tolist()) <= {-1}


@given(asked_of(), st.integers(1, 3), st.data())
def test_partitions_in_another_order_are_read_by_the_same_layout(
    topics: dict[str, set[int]], dirs: int, data: st.DataObject
) -> None:
    """As Kafka lists those of a topic that is written."""
    body = log_dirs_answer(data.draw, topics, 5, dirs)
    listed = {name for name in topics if data.draw(st.booleans())}
    held = placement({name: topics[name] for name in listed}).replicas_on(1)
    layout = log_dirs_layout.LogDirsLayout(body, 5, held, listed)
    results = DescribeLogDirsResponse.decode(body, version=5).results
    for topic in (topic for directory in results for topic in directory.topics):
        same = [p for p in topic.partitions if not p.is_future_key]
        numbers = data.draw(st.permutations([p.partition_index for p in same]))
        for partition, number in zip(same, numbers, strict=True):
            partition.partition_index = number
            partition.partition_size = data.draw(st.integers(0, 2**50))
    moved = DescribeLogDirsResponse(throttle_time_ms=1, error_code=0, results=results)
    for each in (bytes(moved.encode(version=5)), body):
        raw = np.frombuffer(each, np.uint8)
        assert layout.fits(raw)
        read = layout.read(raw)
        expected = log_dirs_layout.decoded(each, 5, held, listed)
        assert by_row((read.rows, read.sizes, read.directory)) == by_row(
            (expected.rows, expected.sizes, expected.directory)
        )
        assert summed(read) == summed(expected)


@given(asked_of(), st.data())
def test_a_truncated_answer_about_disks_is_irregular(
    topics: dict[str, set[int]], data: st.DataObject
) -> None:
    body = log_dirs_answer(data.draw, topics, 5, 2)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(MalformedBytes):
        log_dirs_layout.LogDirsLayout(body[:cut], 5, placement(topics).replicas_on(1), set(topics))


@pytest.mark.parametrize("error", ["top", "directory"])
def test_errors_about_disks_are_left_to_the_codec_and_reported(error: str) -> None:
    directory = DescribeLogDirsResponse.DescribeLogDirsResult
    answer = DescribeLogDirsResponse(
        error_code=31 if error == "top" else 0,
        results=[] if error == "top" else [directory(error_code=56, log_dir="/d", topics=[])],
    )
    body = bytes(answer.encode(version=5))
    held = placement({"a": {0}}).replicas_on(1)
    with pytest.raises(MalformedBytes):
        log_dirs_layout.LogDirsLayout(body, 5, held, {"a"})
    read = log_dirs_layout.decoded(body, 5, held, {"a"})
    assert len(read.rows) == 0
    assert read.error_code == (31 if error == "top" else 56)
    assert error == "top" or read.reason == "log directory /d"
    of_directory = read.directories
    assert of_directory.path == (() if error == "top" else ("/d",))
    assert of_directory.error_code.tolist() == ([] if error == "top" else [56])


@given(st.integers(0, 2**35 - 1))
def test_a_number_of_up_to_five_bytes_is_read(value: int) -> None:
    encoded, rest = b"", value
    while rest >= 0x80:
        encoded += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    cursor = LayoutCursor(encoded + bytes([rest]))
    assert cursor.uvarint() == value
    assert cursor.at == len(encoded) + 1


def test_a_length_without_end_is_irregular() -> None:
    with pytest.raises(OverlongVarint):
        LayoutCursor(b"\xff" * 9).uvarint()


@given(st.binary(min_size=1, max_size=60), st.data())
def test_a_layout_fits_what_differs_in_values_only(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body) - 1))
    layout = Layout(body, [places([at], 0, 1)])
    change = data.draw(st.integers(0, len(body) - 1))
    other = bytearray(body)
    other[change] ^= 0x41
    assert layout.fits(np.frombuffer(bytes(other), np.uint8)) == (change == at)
    assert not layout.fits(np.frombuffer(body + b"x", np.uint8))


def test_who_is_not_held_is_not_found() -> None:
    held: BrokerReplicas = placement({"a": {1, 3}}).replicas_on(1)
    find: Callable[..., Any] = held.find
    assert find("a", np.array([0, 1, 2, 3, 4])).tolist() == [-1, 0, -1, 1, -1]
    assert find("b", np.array([1])).tolist() == [-1]
    assert placement({"a": {1}}).replicas_on(9).find("a", np.array([1])).tolist() == [-1]
