"""The bus: its topics, the clients that write and read them, and the snapshots in them."""

from __future__ import annotations

from streaming.bus.clients import BusError, Reader, Record, Sender, settings
from streaming.bus.shards import await_shards, with_known_shards, with_shards_of_snapshots
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
    "await_shards",
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
    "with_known_shards",
    "with_shards_of_snapshots",
]
