"""A frame says what it is; what cannot be used is named with a reason and spoils nothing else."""

import contextlib
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Partition, brokers_frame, replicas_frame
from twin.builtin import CATALOG
from twin.declarations.table import Int64, Observation, column
from twin.engine import frames
from twin.engine.codec import ListingProgress
from twin.engine.frames import (
    Decoded,
    Frame,
    FrameHeader,
    InvalidFrame,
    decode,
    encode,
    encode_parts,
)
from twin.remote_log import segment_store
from twin.tables.observations import OBSERVATIONS, BrokersFrame, ReplicasFrame

A_FRAME = encode(brokers_frame())
REPLICAS = encode(replicas_frame([Partition()]))


class QuotasFrame(Observation, kind="quotas"):
    """A frame that a later version, or another package, may send."""

    broker: Int64 = column("broker id")


A_LATER_KIND = encode(
    Frame(FrameHeader("quotas", "c", 0, 1, 0, 0), pa.table({"broker": [1]}, QuotasFrame.schema())),
    {"quotas": QuotasFrame},
)


def with_metadata(**changed: str | None) -> bytes:
    with pa.ipc.open_stream(A_FRAME) as reader:
        rows = reader.read_all()
    metadata = {k.decode(): v.decode() for k, v in rows.schema.metadata.items()}
    metadata = {k: v for k, v in (metadata | changed).items() if v is not None}
    return stream(rows.replace_schema_metadata(metadata))


def stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def kinds(decoded: Decoded) -> list[str]:
    return [frame.header.kind for frame in decoded.frames]


def test_a_frame_comes_back_as_it_was():
    frame = replicas_frame([Partition(), Partition("u")])
    (back,) = decode(encode(frame)).frames
    assert back.header == replace(frame.header, version=ReplicasFrame.version)
    assert back.rows.equals(frame.rows)


def test_a_message_may_hold_several_frames():
    assert kinds(decode(A_FRAME + REPLICAS)) == ["brokers", "replicas"]


@pytest.mark.parametrize(
    "message", [b"", b"garbage", b"\x00" * 64, A_FRAME[:100], A_FRAME + b"tail"]
)
def test_bytes_that_are_no_arrow_streams_are_refused(message):
    with pytest.raises(InvalidFrame) as refusal:
        decode(message)
    assert refusal.value.reason == "bytes"
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (with_metadata(kind=None), "header"),
        (with_metadata(version="99"), "version"),
        (with_metadata(shard="x"), "header"),
        (with_metadata(shard="5"), "header"),
        (with_metadata(observed_at_ms="-5"), "header"),
        (with_metadata(part="3"), "header"),
        (with_metadata(kind="replicas", version=str(ReplicasFrame.version)), "columns"),
    ],
)
def test_a_frame_that_cannot_be_used_is_invalid_for_a_reason_and_spoils_no_other(message, reason):
    for whole in (message + REPLICAS, REPLICAS + message):
        decoded = decode(whole)
        (invalid,) = decoded.invalid
        assert invalid.reason == reason
        assert "\n" not in str(invalid)
        assert kinds(decoded) == ["replicas"]
        assert decoded.unknown_kinds == ()


def test_frames_of_unknown_kinds_are_skipped_and_counted_and_the_others_are_used():
    decoded = decode(A_FRAME + A_LATER_KIND + REPLICAS + A_LATER_KIND)
    assert decoded.unknown_kinds == ("quotas", "quotas")
    assert decoded.invalid == ()
    assert kinds(decoded) == ["brokers", "replicas"]
    assert decode(with_metadata(kind="nonsense")) == Decoded(unknown_kinds=("nonsense",))


def test_a_kind_that_a_package_adds_is_read_by_whoever_has_it():
    (frame,) = decode(A_LATER_KIND, {**OBSERVATIONS, "quotas": QuotasFrame}).frames
    assert frame.rows.column("broker").to_pylist() == [1]


def test_the_version_of_its_kind_is_written_whatever_the_header_says():
    frame = brokers_frame()
    late = Frame(replace(frame.header, version=7), frame.rows)
    assert decode(encode(late)).frames[0].header.version == BrokersFrame.version


def test_rows_of_another_schema_are_never_sent():
    rows = pa.table({"x": [1]})
    with pytest.raises(ValueError, match="schema"):
        encode(Frame(FrameHeader("brokers", "c", 0, 1, 0, 0), rows))


@given(st.binary(max_size=300), st.integers(0, len(A_FRAME)))
def test_no_bytes_crash_the_reader(noise, at):
    for message in (noise, A_FRAME[:at] + noise, A_FRAME[:at] + noise + A_FRAME[at + len(noise) :]):
        with contextlib.suppress(InvalidFrame):
            decode(message)


def test_a_large_frame_is_split_and_each_part_names_only_its_own_topics():
    frame = replicas_frame([Partition(f"topic-{i:03}") for i in range(300)])
    parts = encode_parts(frame, 6_000)
    assert len(parts) > 1
    assert max(map(len, parts)) <= 6_000
    back = [decode(part).frames[0] for part in parts]
    assert [f.header.part for f in back] == list(range(len(parts)))
    assert sum(f.rows.num_rows for f in back) == frame.rows.num_rows
    assert len(back[0].rows.column("topic").chunk(0).dictionary) < 300


def test_topics_without_ids_of_their_own_stay_apart_when_a_frame_is_split():
    frame = replicas_frame([Partition(f"topic-{i:03}", topic_id=b"\0") for i in range(300)])
    for part in encode_parts(frame, 6_000):
        (back,) = decode(part).frames
        topic, topic_id = (back.rows.column(n).chunk(0) for n in ("topic", "topic_id"))
        assert topic.indices.equals(topic_id.indices)


def test_every_table_declares_each_column_once_and_says_what_it_means():
    stated = (*CATALOG.stored, *CATALOG.on_demand, *CATALOG.cluster.stored, ListingProgress)
    for table in (*OBSERVATIONS.values(), *segment_store.TABLES.values(), *stated):
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names)
        assert all(column.meaning for column in table.columns)


def test_frames_stay_below_what_a_broker_takes_by_default():
    assert frames.MAX_FRAME_BYTES < 1_048_588
