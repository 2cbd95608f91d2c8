"""Records of __remote_log_metadata: Kafka's own bytes, and all that could be wrong with them."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")

import msgspec

from streaming.bus.bus_topics import shard_of
from streaming.bus.record import Record
from streaming.query.remote_log.metadata_topic import Message, SegmentMessages
from streaming.query.remote_log.records import RecordRefused, decode
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from streaming.runtime.kafka.remote_log_access import TOPIC
from twin.declarations.table import UNKNOWN
from twin.engine import frames
from twin.tables.enums import SegmentState

# As Kafka 4.3.1 wrote them: a segment of topic kipon, and its two next states.
STARTED = bytes.fromhex(
    "010000066b69706f6e12ba0fc4eec14d74bc04cbb911d4aa82000000000075d1f5463351427dab402f2609ff1c8800"
    "000000000000000000000000000003ff00000001000001a1f997159b000001a1f99722c20200000000000000000000"
    "000000000fd341000001000101"
)
FINISHED = bytes.fromhex(
    "010100066b69706f6e12ba0fc4eec14d74bc04cbb911d4aa82000000000075d1f5463351427dab402f2609ff1c8800"
    "00000001000001a1f9972316000100"
)
DELETING = bytes.fromhex(
    "010100066b69706f6e12ba0fc4eec14d74bc04cbb911d4aa82000000000059f0dbd0bd7d46c4a691935c59b634bd00"
    "00000001000001a1f9981894000200"
)
# By an independent encoder: two epochs, and the mark of a deleted partition.
TWO_EPOCHS = bytes.fromhex(
    "01000006746f7069632d682b32656b4f46bfffb6b849ab2e3c00000000006c2a97f54fbe4bee94f1750cf48236e500"
    "00000000000000000000000000000063000000010000018bcfe568000000018bcfe56be80300000000000000000000"
    "0000000000000200000000000000320000000400000001000101"
)
MARK = bytes.fromhex(
    "01020006746f7069632d682b32656b4f46bfffb6b849ab2e3c0000000000000000010000018bcfe573b80000"
)
REAL = (STARTED, FINISHED, DELETING, TWO_EPOCHS, MARK)


def test_a_segment_as_its_copy_starts():
    event = decode(STARTED)
    assert event is not None
    assert (event.topic, event.partition) == ("kipon", 0)
    assert event.topic_id.hex() == "12ba0fc4eec14d74bc04cbb911d4aa82"
    assert event.segment_id.hex() == "75d1f5463351427dab402f2609ff1c88"
    assert (event.start_offset, event.end_offset, event.log_bytes) == (0, 1_023, 1_037_121)
    assert (event.leader_epochs, event.epoch_start_offsets) == ((0,), (0,))
    assert (event.state, event.event_at_ms) == (SegmentState.COPY_STARTED, 1_795_188_794_050)


def test_the_next_states_name_the_segment_alone():
    done, deleting = decode(FINISHED), decode(DELETING)
    assert done is not None
    assert deleting is not None
    assert (done.state, deleting.state) == (1, 2)
    assert done.segment_id == decode(STARTED).segment_id != deleting.segment_id
    assert (done.start_offset, done.leader_epochs) == (UNKNOWN, ())


def test_epochs_and_unknown_tags_and_metadata_of_a_plugin():
    event = decode(TWO_EPOCHS)
    assert event is not None
    assert (event.leader_epochs, event.epoch_start_offsets) == ((0, 2), (0, 50))
    # The last bytes are: no custom metadata, state, one tag. Now: three bytes of it, two tags.
    assert TWO_EPOCHS.endswith(b"\x00\x00\x01\x00\x01\x01")
    more = TWO_EPOCHS[:-6] + b"\x04abc\x00\x02\x00\x01\x01\x07\x02xy"
    assert decode(more) == event


def test_a_deleted_partition_names_no_segment():
    assert decode(MARK) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "truncated"),
        (STARTED[:-1], "truncated"),
        (STARTED + b"\x00", "trailing"),
        (b"\x00" + STARTED[1:], "version"),
        (b"\x01\x00\x01" + STARTED[3:], "version"),
        (b"\x01\x09" + STARTED[2:], "type"),
        (b"\x01\x03" + STARTED[2:], "type"),
        (b"\xff" * 9, "version"),
        (STARTED.replace(b"kipon", b"kip\xff\xff"), "text"),
        (FINISHED[:-2] + b"\x07\x00", "state"),
    ],
)
def test_what_is_no_such_record_is_refused_by_reason(value: bytes, reason: str):
    with pytest.raises(RecordRefused) as refusal:
        decode(value)
    assert refusal.value.reason == reason


@given(st.binary(max_size=200))
def test_no_bytes_break_the_decoder(value: bytes):
    for prefix in (b"", b"\x01\x00\x00", b"\x01\x01\x00"):
        with suppress(RecordRefused):
            decode(prefix + value)


@given(st.randoms(use_true_random=False))
def test_damaged_records_are_decoded_or_refused(chance: random.Random):
    value = bytearray(chance.choice(REAL))
    for _ in range(chance.randint(1, 4)):
        value[chance.randrange(len(value))] = chance.randrange(256)
    del value[chance.randrange(len(value)) + 1 :]
    with suppress(RecordRefused):
        decode(bytes(value))


def record(value: bytes | None, partition: int, offset: int, timestamp_ms: int) -> Record:
    return Record(TOPIC, partition, offset, None, value, timestamp_ms)


def messages_of(*polls: list[Record]) -> list[Message]:
    config = Config(cluster=ClusterConfig(name="c"), bus=BusConfig(prefix="p", shards=16))
    made = SegmentMessages(config)
    return [message for records in polls for message in made.of(records)]


def test_records_become_frames_of_their_topics_shard_in_order():
    one = [
        record(STARTED, 3, 10, 5_000),
        record(TWO_EPOCHS, 3, 11, 4_000),
        record(FINISHED, 3, 12, 4_500),
    ]
    two = [record(DELETING, 3, 13, 4_800)]
    events: dict[str, list[tuple[int, int]]] = {}
    for message in messages_of(one, two):
        (frame,) = frames.decode(message.value).frames
        assert message.topic == "p.observations"
        assert message.key == f"c/{frame.header.shard}".encode()
        assert frame.header.observed_at_ms == 5_000, "times of a partition never fall"
        for event in frame.rows.to_pylist():
            place = event["metadata_offset"], event["state"]
            events.setdefault(event["topic"], []).append(place)
            assert frame.header.shard == shard_of(event["topic"], 16)
    assert events == {"kipon": [(10, 0), (12, 1), (13, 2)], "topic": [(11, 0)]}


def test_a_record_that_cannot_be_used_is_reported_with_its_place_and_the_reason():
    made = messages_of([record(b"junk", 2, 77, 1_000), record(b"", 2, 78, 1_000)])
    assert {message.topic for message in made} == {"p.events"}
    events = [msgspec.json.decode(message.value) for message in made]
    assert [(e["kind"], e["topic"], e["partition"], e["offset"], e["reason"]) for e in events] == [
        ("observation_refused", TOPIC, 2, 77, "version"),
        ("observation_refused", TOPIC, 2, 78, "truncated"),
    ]


def test_marks_of_deleted_partitions_and_tombstones_give_no_rows():
    assert messages_of([record(MARK, 2, 77, 1_000), record(None, 2, 78, 1_000)]) == []
