"""Whether the topic of remote segments may be read: checked before and while it is read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from kafka import KafkaAdminClient
from kafka.errors import KafkaError, UnknownTopicOrPartitionError

from streaming.runtime.config import Config
from streaming.runtime.kafka import clients

TOPIC: Final = "__remote_log_metadata"

_TIMEOUT_MS: Final = 3_000


class ReadAccess(Enum):
    """Whether the topic may be read. The value is the reason why it may not be."""

    ALLOWED = ""
    NO_TOPIC = "there is no such topic"
    HIDDEN = "neither is READ allowed, nor may be seen whether the topic is there"
    DENIED = "READ is not allowed"
    UNKNOWN = "no broker has described the topic"

    @property
    def why_not_read(self) -> str:
        """One line, empty if the topic can be read, or does not exist."""
        return "" if self is ReadAccess.NO_TOPIC else self.value


class SegmentTopic(NamedTuple):
    """The topic as a broker describes it."""

    access: ReadAccess
    topic_id: str = ""  # another one after the topic was made anew


def read_access(config: Config) -> ReadAccess:
    """Whether the topic can be read, by how Kafka describes it or refuses to."""
    return segment_topic(config).access


def segment_topic(config: Config) -> SegmentTopic:
    """The topic, by how Kafka describes it or refuses to."""
    try:
        with KafkaAdminClient(
            **{
                "bootstrap_timeout_ms": _TIMEOUT_MS,
                "request_timeout_ms": _TIMEOUT_MS,
                **clients.arguments(config.cluster.bootstrap, config.cluster.client, "cluster"),
            }
        ) as admin:
            [topic] = admin.describe_topics([TOPIC])
    except (KafkaError, OSError, ValueError):
        return SegmentTopic(ReadAccess.UNKNOWN)
    return SegmentTopic(_access(topic), str(topic.get("topic_id", "")))


def _access(topic: Mapping[str, Any]) -> ReadAccess:
    match topic["error_code"]:
        case clients.TOPIC_NOT_ALLOWED:
            return ReadAccess.HIDDEN
        case UnknownTopicOrPartitionError.errno:
            return ReadAccess.NO_TOPIC
        case 0:
            allowed: Any = topic.get("authorized_operations")  # nothing before Kafka 2.3
            is_denied = bool(allowed) and "READ" not in allowed
            return ReadAccess.DENIED if is_denied else ReadAccess.ALLOWED
    return ReadAccess.UNKNOWN
