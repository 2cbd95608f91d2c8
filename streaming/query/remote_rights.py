"""May the topic of remote segments be read? Asked before the query starts.

A query of what Spark may see and not read would fail again and again; this way it is not begun.
"""

from __future__ import annotations

from typing import Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import AuthorizationError, KafkaError

from streaming import clients
from streaming.config import Config
from streaming.query.remote_metadata import TOPIC

_BOOTSTRAP_MS: Final = 10_000
_FETCH_MS: Final = 1_500


def why_not_readable(config: Config) -> str:
    """One line, empty if the topic can be read, or does not exist.

    What cannot be found out now is no reason: Spark tries for itself.
    """
    try:
        consumer = KafkaConsumer(
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            bootstrap_servers=config.cluster.bootstrap.split(","),
            bootstrap_timeout_ms=_BOOTSTRAP_MS,
            metrics_enabled=False,
            **clients.settings(config.cluster.client, "cluster"),
        )
    except (KafkaError, OSError, ValueError):
        return ""
    try:
        partitions = consumer.partitions_for_topic(TOPIC)
        if not partitions:
            return ""
        consumer.assign([TopicPartition(TOPIC, number) for number in sorted(partitions)])
        consumer.seek_to_beginning()
        consumer.poll(timeout_ms=_FETCH_MS, max_records=1)
    except AuthorizationError as error:
        return f"READ is not allowed: {clients.one_line(error)}"
    except KafkaError:
        return ""
    finally:
        consumer.close(autocommit=False)
    return ""
