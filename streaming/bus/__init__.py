"""The bus: its topics, the clients that write and read them, and the snapshots in them.

The names below are imported when they are first used: whoever reads snapshots that are in memory
or in a file needs no Kafka client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streaming.bus.bus_topics import (
        BusTopics,
        check_shards,
        describe_topics,
        ensure_topics,
        own_topics,
        recorded_shards,
        shard_of,
        topic_configs,
        topics,
        watch_group,
    )
    from streaming.bus.clients import BusError, Reader, Sender, settings
    from streaming.bus.keys import Record, key
    from streaming.bus.shards import await_shards, with_known_shards, with_shards_of_snapshots

_IMPORTED: Final = {
    "BusError": "clients",
    "BusTopics": "bus_topics",
    "Reader": "clients",
    "Record": "keys",
    "Sender": "clients",
    "await_shards": "shards",
    "check_shards": "bus_topics",
    "describe_topics": "bus_topics",
    "ensure_topics": "bus_topics",
    "key": "keys",
    "own_topics": "bus_topics",
    "recorded_shards": "bus_topics",
    "settings": "clients",
    "shard_of": "bus_topics",
    "topic_configs": "bus_topics",
    "topics": "bus_topics",
    "watch_group": "bus_topics",
    "with_known_shards": "shards",
    "with_shards_of_snapshots": "shards",
}
"""The module of each name."""

__all__ = [
    "BusError",
    "BusTopics",
    "Reader",
    "Record",
    "Sender",
    "await_shards",
    "check_shards",
    "describe_topics",
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


def __getattr__(name: str) -> Any:
    if name not in _IMPORTED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_IMPORTED[name]}"), name)
    return value
