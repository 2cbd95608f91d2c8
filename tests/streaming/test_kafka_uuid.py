"""UUIDs as Kafka writes them."""

from streaming.runtime.kafka.uuids import uuid_text


def test_a_uuid_is_written_as_kafka_writes_it():
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert len(uuid_text(b"\xff" * 16)) == 22
