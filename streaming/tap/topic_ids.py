"""Names and ids of topics: the request log has one of them, the server log the other.

The cluster is asked when an unknown topic turns up, but at most every ``ASK_EVERY_S``: the topic
may be deleted, or this user may have no right to see it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from uuid import UUID

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming.runtime import clients
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.kafka_uuid import uuid_text
from streaming.tap.admin import connect

ASK_EVERY_S: Final = 10.0


class Topic(NamedTuple):
    """A topic."""

    name: str
    topic_id: bytes  # 16


class TopicIds:
    """Resolves topic names and ids; keeps its connection to the cluster."""

    def __init__(self, config: Config) -> None:
        self.problem = ""  # why topics cannot be resolved, in one line
        self._config = config
        self._admin: KafkaAdminClient | None = None
        self._next_request = Deadline.after_s(0)
        self._topics: dict[str, Topic] = {}

    def resolve(self, key: str) -> Topic | None:
        """The topic of a name, or of an id as Kafka's logs write it; None if it is unknown."""
        topic = self._topics.get(key)
        if topic is None and self._next_request.is_over:
            self._refresh()
            topic = self._topics.get(key)
        return topic

    def close(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _refresh(self) -> None:
        self._next_request = Deadline.after_s(ASK_EVERY_S)
        try:
            if self._admin is None:
                self._admin = connect(self._config)
            topics = self._admin.describe_topics()
        except (KafkaError, OSError, ValueError) as error:
            self.problem = clients.one_line(error)
            self.close()
            return
        self.problem = ""
        # Deleted topics are kept: the last fetches from them may not have been logged yet.
        for described in topics:
            name, topic_id = str(described["name"]), _id_bytes(described.get("topic_id"))
            if topic_id is not None:
                topic = Topic(name, topic_id)
                self._topics[name] = self._topics[uuid_text(topic_id)] = topic


def _id_bytes(topic_id: Any) -> bytes | None:
    return UUID(str(topic_id)).bytes if topic_id else None
