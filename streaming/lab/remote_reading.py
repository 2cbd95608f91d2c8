"""Reads old records as a consumer does, and counts the remote fetches of brokers for that."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec

from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from twin.arrays.plain import counted

_WITHIN_S: Final = 60.0
_COUNTER: Final = "kafka_topic_remote_fetch_requests_total"


class NotRead(UserError, RuntimeError):  # noqa: N818 - said to a person
    """The records could not be read in time."""


def remote_fetches(urls: Mapping[int, str], topic: str) -> int:
    """The count of RemoteFetchRequestsPerSec of a topic since the brokers started, in all.

    Brokers that do not run are left out.
    """
    series = re.compile(
        rf'^{_COUNTER}{{[^}}]*topic="{re.escape(topic)}"[^}}]*}} (\S+)',
        re.MULTILINE,
    )
    total = 0.0
    for url in urls.values():
        with (
            suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(url, timeout=10) as at,
        ):
            total += sum(float(value) for value in series.findall(at.read().decode()))
    return int(total)


def local_start(bootstrap: str | Collection[str], topic: str) -> int:
    """The first offset of partition 0 that its leader has on its disk."""
    place = TopicPartition(topic, 0)
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        offsets = admin.list_partition_offsets({place: OffsetSpec.EARLIEST_LOCAL})
        return int(offsets[place].offset)


def read_from(bootstrap: str | Collection[str], topic: str, offset: int) -> int:
    """Read partition 0 from an offset to its end, without a group; returns how many records.

    Raises:
        NotRead: not within a minute.
    """
    place = TopicPartition(topic, 0)
    deadline = Deadline.after_s(_WITHIN_S)
    read = 0
    with KafkaConsumer(bootstrap_servers=bootstrap, group_id=None) as consumer:
        consumer.assign([place])
        consumer.seek(place, offset)
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            if deadline.is_over:
                left = counted(end - consumer.position(place), "record was", "records were")
                raise NotRead(f"{topic}-0: {left} not read")
            read += sum(len(records) for records in consumer.poll(1_000).values())
    return read
