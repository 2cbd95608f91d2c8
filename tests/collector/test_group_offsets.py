"""OffsetFetch responses: read in bulk they say what the codec says, whatever they hold."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import OffsetFetchResponse

from streaming.collector.groups.committed import (
    NO_ANSWER,
    CommittedOffsets,
    OffsetFetchBatch,
    decoded,
)
from tests.examples import examples

NAMES = ("a", "b", "c" * 200)
VERSIONS = (8, 9)

Partitions = dict[int, tuple[int, int, str | None, int]]  # offset, leader epoch, metadata, error
Groups = dict[str, tuple[int, dict[str, Partitions]]]  # error, topics

numbers = st.integers(-1, 2**63 - 1)
partitions = st.dictionaries(
    st.integers(0, 300),
    st.tuples(
        numbers,
        st.integers(-1, 2**31 - 1),
        st.one_of(st.just(""), st.none(), st.text(max_size=200)),
        st.sampled_from([0, 0, 3]),
    ),
    max_size=30,
)
topics = st.dictionaries(st.text(min_size=1, max_size=150), partitions, max_size=3)
responses = st.dictionaries(
    st.sampled_from([*NAMES, "other"]), st.tuples(st.sampled_from([0, 16]), topics)
)


def encoded(groups: Groups, version: int, throttle_ms: int = 0) -> bytes:
    kind = OffsetFetchResponse.OffsetFetchResponseGroup
    topic_kind = kind.OffsetFetchResponseTopics
    response: Any = OffsetFetchResponse(
        throttle_time_ms=throttle_ms,
        groups=[
            kind(
                group_id=name,
                error_code=error,
                topics=[
                    topic_kind(
                        name=topic,
                        partitions=[
                            topic_kind.OffsetFetchResponsePartitions(
                                partition_index=number, committed_offset=offset,
                                committed_leader_epoch=epoch, metadata=metadata, error_code=code,
                            )
                            for number, (offset, epoch, metadata, code) in them.items()
                        ],
                    )
                    for topic, them in by_topic.items()
                ],
            )
            for name, (error, by_topic) in groups.items()
        ],
    )  # fmt: skip
    response.API_VERSION = version
    return bytes(response.encode())


def plain(read: CommittedOffsets) -> tuple[list[int], list[tuple[Any, ...]]]:
    columns = (read.partition, read.offset, read.error)
    return read.group_error.tolist(), [
        (group, read.topic[topic], *values)
        for group, topic, *values in zip(
            read.group_of.tolist(),
            read.topic_of.tolist(),
            *(c.tolist() for c in columns),
            strict=True,
        )
    ]


def batch(version: int) -> OffsetFetchBatch:
    return OffsetFetchBatch(NAMES, version, "test")


@examples(200)
@given(responses, st.sampled_from(VERSIONS))
def test_any_response_is_read_as_the_codec_reads_it(groups: Groups, version: int) -> None:
    body = encoded(groups, version)
    assert plain(batch(version).read(body)) == plain(decoded(body, version, NAMES))


@examples(200)
@given(responses, st.randoms(use_true_random=False))
def test_the_layout_of_a_response_reads_the_next_one(groups: Groups, random: Any) -> None:
    def later(number: tuple[int, int, str | None, int]) -> tuple[int, int, str | None, int]:
        text = number[2] and "".join("b" if c.isascii() else c for c in number[2])
        return (random.randrange(2**62), 7, text, random.choice([0, 3]))

    one = batch(9)
    one.read(encoded(groups, 9))
    layout = one.layouts.get(0)
    assert layout is not None
    after = {
        name: (
            random.choice([0, 16]),
            {t: {n: later(v) for n, v in p.items()} for t, p in by_topic.items()},
        )
        for name, (_, by_topic) in groups.items()
    }
    body = encoded(after, 9, throttle_ms=40)
    assert plain(one.read(body)) == plain(decoded(body, 9, NAMES))
    assert one.layouts.get(0) is layout


def test_a_group_that_is_missing_from_a_response_has_no_answer() -> None:
    read = batch(9).read(encoded({"b": (0, {})}, 9))
    assert read.group_error.tolist() == [NO_ANSWER, 0, NO_ANSWER]


@pytest.mark.parametrize("cut", [5, 20, 40])
def test_a_response_that_ends_early_is_no_layout(cut: int) -> None:
    one = batch(9)
    body = encoded({"a": (0, {"orders": {0: (5, 1, "", 0), 1: (6, 1, "", 0)}})}, 9)
    with pytest.raises((struct.error, IndexError)):  # the codec's, which reads what has no layout
        one.read(body[:-cut])
    assert not one.layouts
    assert np.array_equal(one.read(body).offset, [5, 6])
