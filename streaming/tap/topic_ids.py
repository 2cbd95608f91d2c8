"""Names and ids of topics: the request log has one of them, the server log the other.

The cluster is asked when an unknown topic turns up, but at most every ``ASK_EVERY_S``: the topic
may be deleted, or this user may have no right to see it. Log lines about an unknown topic wait for
an answer that must contain it: a broker may learn of a new topic up to ``LISTED_WITHIN_S`` after
the topic's leader. A failed request is not an answer, so no line is dropped because of it.
"""

from __future__ import annotations

import math
import time
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.kafka import clients
from streaming.runtime.kafka.uuids import uuid_text
from streaming.tap.admin import connect

ASK_EVERY_S: Final = 10.0
LISTED_WITHIN_S: Final = 5.0
"""A topic exists on every broker this long after its leader has logged something about it."""

LATER: Final = "later"
"""In place of a topic: no answer of the cluster is recent enough to exclude it."""

Later = Literal["later"]


class Topic(NamedTuple):
    """The name and the id of a topic."""

    name: str
    topic_id: bytes  # 16


class TopicIds:
    """Resolves topic names and ids; keeps its connection to the cluster."""

    def __init__(
        self,
        config: Config,
        *,
        ask_every_s: float = ASK_EVERY_S,
        listed_within_s: float = LISTED_WITHIN_S,
    ) -> None:
        self.problem = ""  # why topics cannot be resolved, in one line
        self._config, self._ask_every_s = config, ask_every_s
        self._listed_within_s = listed_within_s
        self._admin: KafkaAdminClient | None = None
        self._next_request = Deadline.after_s(0)
        self._topics: dict[str, Topic] = {}
        self._first_logged_s: dict[str, float] = {}  # by name or id that no answer had; monotonic
        self._waits = True
        self._asked_at_s = -math.inf  # monotonic; of the last request that was answered

    def resolve(self, key: str) -> Topic | Later | None:
        """The topic of a name, or of an id as Kafka's logs write it.

        ``LATER`` while a newer answer may contain it; None if the cluster has no such topic.
        """
        if key not in self._topics and self._next_request.is_over:
            self._refresh()
        if key in self._topics:
            self._first_logged_s.pop(key, None)
            return self._topics[key]
        listed_at_s = self._listed_within_s + self._first_logged_s.setdefault(key, time.monotonic())
        return LATER if self._waits and self._asked_at_s < listed_at_s else None

    def end_waiting(self) -> None:
        """Ask the cluster again at the next unknown topic, and never return ``LATER`` from then
        on."""
        self._waits, self._next_request = False, Deadline.after_s(0)

    def close(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _refresh(self) -> None:
        self._next_request, now_s = Deadline.after_s(self._ask_every_s), time.monotonic()
        try:
            if self._admin is None:
                self._admin = connect(self._config)
            topics = self._admin.describe_topics()
        except (KafkaError, OSError, ValueError) as error:
            self.problem = clients.one_line(error, bootstrap=self._config.cluster.bootstrap)
            self.close()
            return
        self.problem, self._asked_at_s = "", now_s
        # Deleted topics are kept: the last fetches from them may not have been logged yet.
        for described in topics:
            name, topic_id = str(described["name"]), _id_bytes(described.get("topic_id"))
            if topic_id is not None:
                topic = Topic(name, topic_id)
                self._topics[name] = self._topics[uuid_text(topic_id)] = topic


def _id_bytes(topic_id: Any) -> bytes | None:
    return UUID(str(topic_id)).bytes if topic_id else None
