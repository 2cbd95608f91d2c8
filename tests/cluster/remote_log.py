"""Remote segments as the brokers note them in ``__remote_log_metadata``, read without the twin."""

from __future__ import annotations

from kafka import KafkaConsumer, TopicPartition

from streaming.query.remote_log.records import SegmentEvent, decode
from streaming.runtime.deadline import Deadline
from streaming.runtime.kafka.remote_log_access import TOPIC
from twin.tables.enums import SegmentState


def remote_segments(bootstrap: str, topic: str) -> list[SegmentEvent]:
    """The segments of partition 0 that are wholly in remote storage, by offset."""
    segments: dict[bytes, SegmentEvent] = {}
    states: dict[bytes, int] = {}
    with KafkaConsumer(bootstrap_servers=bootstrap, group_id=None) as consumer:
        places = [TopicPartition(TOPIC, n) for n in sorted(consumer.partitions_for_topic(TOPIC))]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        deadline = Deadline.after_s(30)
        while any(consumer.position(place) < end for place, end in ends.items()):
            assert not deadline.is_over, f"{TOPIC} could not be read"
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    event = decode(record.value)
                    if event is None or (event.topic, event.partition) != (topic, 0):
                        continue
                    states[event.segment_id] = event.state
                    if event.leader_epochs:
                        segments[event.segment_id] = event
    finished = [s for i, s in segments.items() if states[i] == SegmentState.COPY_FINISHED]
    return sorted(finished, key=lambda segment: segment.start_offset)


def size_of(segments: list[SegmentEvent], start: int, stop: int) -> tuple[int, float]:
    """Records and bytes from ``start`` to below ``stop``; of a segment its share by records."""
    records, size = 0, 0.0
    for segment in segments:
        count = segment.end_offset - segment.start_offset + 1
        share = max(min(segment.end_offset + 1, stop) - max(segment.start_offset, start), 0)
        records += share
        size += segment.log_bytes * share / count
    return records, size
