"""Names and ids of topics: the request log has one of them, the server log the other.

The cluster is asked when an unknown topic turns up, but at most every ``ASK_EVERY_S``: the topic
may be deleted, or this user may have no right to see it. A topic that was created a moment ago is
in the next answer, so what is logged about it waits ``WAIT_S`` before it is given up.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming.runtime import clients
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.kafka_uuid import uuid_text
from streaming.tap.admin import connect

ASK_EVERY_S: Final = 10.0
WAIT_S: Final = 1.5 * ASK_EVERY_S
"""The cluster is asked at least once within this time."""

LATER: Final = "later"
"""In place of a topic: the cluster has not been asked for long enough to say that it has none."""

Later = Literal["later"]


class Topic(NamedTuple):
    """The name and the id of a topic."""

    name: str
    topic_id: bytes  # 16


class TopicIds:
    """Resolves topic names and ids; keeps its connection to the cluster."""

    def __init__(
        self, config: Config, *, ask_every_s: float = ASK_EVERY_S, wait_s: float = WAIT_S
    ) -> None:
        self.problem = ""  # why topics cannot be resolved, in one line
        self._config, self._ask_every_s, self._wait_s = config, ask_every_s, wait_s
        self._admin: KafkaAdminClient | None = None
        self._next_request = Deadline.after_s(0)
        self._topics: dict[str, Topic] = {}
        self._missing: dict[str, Deadline] = {}  # by name or id, and until when to wait for each
        self._waits = True

    def resolve(self, key: str) -> Topic | Later | None:
        """The topic of a name, or of an id as Kafka's logs write it.

        ``LATER`` if the cluster may just not have listed it yet; None if it has no such topic.
        """
        if key not in self._topics and self._next_request.is_over:
            self._refresh()
        if key in self._topics:
            self._missing.pop(key, None)
            return self._topics[key]
        wait = self._missing.setdefault(key, Deadline.after_s(self._wait_s))
        return LATER if self._waits and not wait.is_over else None

    def end_waiting(self) -> None:
        """Ask the cluster for the next topic that is unknown, and never answer ``LATER`` again."""
        self._waits, self._next_request = False, Deadline.after_s(0)

    def close(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _refresh(self) -> None:
        self._next_request = Deadline.after_s(self._ask_every_s)
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
