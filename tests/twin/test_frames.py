"""Frames say what they are, and anything else is refused with a reason."""

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Partition, brokers_frame, replicas_frame
from twin import frames, tables
from twin.frames import Frame, FrameRefused, Stamp, decode, encode, encode_parts

A_FRAME = encode(brokers_frame())


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


def test_a_frame_comes_back_as_it_was():
    frame = replicas_frame([Partition(), Partition("u")])
    (back,) = decode(encode(frame))
    assert back.stamp == frame.stamp
    assert back.rows.equals(frame.rows)


def test_a_message_may_hold_several_frames():
    kinds = [f.stamp.kind for f in decode(A_FRAME + encode(replicas_frame([Partition()])))]
    assert kinds == ["brokers", "replicas"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "bytes"),
        (b"garbage", "bytes"),
        (b"\x00" * 64, "bytes"),
        (A_FRAME[:100], "bytes"),
        (A_FRAME + b"tail", "bytes"),
        (with_metadata(kind="nonsense"), "kind"),
        (with_metadata(kind=None), "stamp"),
        (with_metadata(version="99"), "version"),
        (with_metadata(shard="x"), "stamp"),
        (with_metadata(shard="5"), "stamp"),
        (with_metadata(observed_at_ms="-5"), "stamp"),
        (with_metadata(part="3"), "stamp"),
        (with_metadata(kind="replicas"), "columns"),
    ],
)
def test_what_is_no_frame_is_refused_with_a_reason(message, reason):
    with pytest.raises(FrameRefused) as refusal:
        decode(message)
    assert refusal.value.reason == reason
    assert "\n" not in str(refusal.value)


def test_rows_of_another_schema_are_never_sent():
    rows = pa.table({"x": [1]})
    with pytest.raises(ValueError, match="schema"):
        encode(Frame(Stamp("brokers", "c", 0, 1, 0, 0), rows))


@given(st.binary(max_size=300), st.integers(0, len(A_FRAME)))
def test_no_bytes_crash_the_reader(noise, at):
    for message in (noise, A_FRAME[:at] + noise, A_FRAME[:at] + noise + A_FRAME[at + len(noise) :]):
        with contextlib.suppress(FrameRefused):
            decode(message)


def test_a_large_frame_is_split_and_each_part_names_only_its_own_topics():
    frame = replicas_frame([Partition(f"topic-{i:03}") for i in range(300)])
    parts = encode_parts(frame, 6_000)
    assert len(parts) > 1
    assert max(map(len, parts)) <= 6_000
    back = [decode(part)[0] for part in parts]
    assert [f.stamp.part for f in back] == list(range(len(parts)))
    assert sum(f.rows.num_rows for f in back) == frame.rows.num_rows
    assert len(back[0].rows.column("topic").chunk(0).dictionary) < 300


def test_topics_without_ids_of_their_own_stay_apart_when_a_frame_is_split():
    frame = replicas_frame([Partition(f"topic-{i:03}", topic_id=b"\0") for i in range(300)])
    for part in encode_parts(frame, 6_000):
        (back,) = decode(part)
        topic, topic_id = (back.rows.column(n).chunk(0) for n in ("topic", "topic_id"))
        assert topic.indices.equals(topic_id.indices)


def test_every_table_declares_each_column_once_and_says_what_it_means():
    for table in tables.ALL.values():
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names)
        assert all(column.meaning for column in table.columns)


def test_frames_stay_below_what_a_broker_takes_by_default():
    assert frames.MAX_FRAME_BYTES < 1_048_588
