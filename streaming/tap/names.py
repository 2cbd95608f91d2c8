"""The names of topics by id and their ids by name: the logs have one of the two.

Asked of the cluster when something unknown turns up, and not more often than once in a while: an
unknown topic may be one that was deleted, or one that this user may not see.
"""

from __future__ import annotations

import base64
import time
from typing import Any, Final
from uuid import UUID

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming.runtime import clients
from streaming.runtime.config import Config

ASK_EVERY_S: Final = 10.0
_BOOTSTRAP_MS: Final = 10_000


class Names:
    """What is known of topics; keeps its connection."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._admin: KafkaAdminClient | None = None
        self._asked_at = float("-inf")
        self._known: dict[str, tuple[str, bytes]] = {}
        self.problem = ""

    def of(self, key: str) -> tuple[str, bytes] | None:
        """Name and id (16 bytes) of a topic by its name or its id as Kafka writes it."""
        found = self._known.get(key)
        if found is None and time.monotonic() - self._asked_at >= ASK_EVERY_S:
            self._ask()
            found = self._known.get(key)
        return found

    def close(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        try:
            if self._admin is None:
                cluster = self._config.cluster
                self._admin = KafkaAdminClient(
                    **{
                        "bootstrap_timeout_ms": _BOOTSTRAP_MS,
                        **clients.arguments(cluster.bootstrap, cluster.client, "cluster"),
                    }
                )
            topics = self._admin.describe_topics()
        except (KafkaError, OSError, ValueError) as error:
            self.problem = f"topic names: {clients.one_line(error)}"
            self.close()
            return
        self.problem = ""
        # What is gone stays known: its last fetches may still be told of.
        for topic in topics:
            name, topic_id = str(topic["name"]), _bytes_of(topic.get("topic_id"))
            if topic_id is not None:
                self._known[name] = self._known[written(topic_id)] = name, topic_id


def written(topic_id: bytes) -> str:
    """A topic id as Kafka's logs have it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _bytes_of(topic_id: Any) -> bytes | None:
    return UUID(str(topic_id)).bytes if topic_id else None
