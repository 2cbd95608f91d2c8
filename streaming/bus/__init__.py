"""The bus: its topics, the clients that write and read them, and the snapshots in them."""

from __future__ import annotations

from streaming.bus.clients import BusError, Reader, Record, Sender, settings
from streaming.bus.topics import (
    BusTopics,
    check_shards,
    ensure_topics,
    key,
    own_topics,
    recorded_shards,
    shard_of,
    topic_configs,
    topics,
    watch_group,
)

__all__ = [
    "BusError",
    "BusTopics",
    "Reader",
    "Record",
    "Sender",
    "check_shards",
    "ensure_topics",
    "key",
    "own_topics",
    "recorded_shards",
    "settings",
    "shard_of",
    "topic_configs",
    "topics",
    "watch_group",
]
