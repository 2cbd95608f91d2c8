"""May the topic of remote segments be read? Asked before the query starts, and while it runs.

A query of what Spark may see and not read would fail again and again, and one of what it may not
even see would find nothing and say nothing; this way it is not begun.
"""

from __future__ import annotations

from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming.query.remote_metadata import TOPIC
from streaming.runtime import clients
from streaming.runtime.config import Config

_PATIENCE_MS: Final = 3_000
"""Whoever asks has something else to do."""


def read_denied_reason(config: Config) -> str:
    """One line, empty if the topic can be read, or does not exist.

    What cannot be found out now is no reason: Spark tries for itself, and it is asked again.
    """
    try:
        with KafkaAdminClient(
            **{
                "bootstrap_timeout_ms": _PATIENCE_MS,
                "request_timeout_ms": _PATIENCE_MS,
                **clients.arguments(config.cluster.bootstrap, config.cluster.client, "cluster"),
            }
        ) as admin:
            [topic] = admin.describe_topics([TOPIC])
    except (KafkaError, OSError, ValueError):
        return ""
    if topic["error_code"] == clients.TOPIC_NOT_ALLOWED:
        return "neither is READ allowed, nor may be seen whether the topic is there"
    allowed: Any = None if topic["error_code"] else topic.get("authorized_operations")
    return "READ is not allowed" if allowed and "READ" not in allowed else ""
