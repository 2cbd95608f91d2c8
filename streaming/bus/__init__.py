"""The bus: its topics, the clients that write and read them, and the snapshots in them.

The names below are imported when they are first used: whoever reads snapshots that are in memory
or in a file needs no Kafka client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streaming.bus.bus_topics import BusTopics as BusTopics
    from streaming.bus.bus_topics import check_shards as check_shards
    from streaming.bus.bus_topics import describe_topics as describe_topics
    from streaming.bus.bus_topics import ensure_topics as ensure_topics
    from streaming.bus.bus_topics import own_topics as own_topics
    from streaming.bus.bus_topics import recorded_shards as recorded_shards
    from streaming.bus.bus_topics import shard_of as shard_of
    from streaming.bus.bus_topics import topic_configs as topic_configs
    from streaming.bus.bus_topics import topics as topics
    from streaming.bus.bus_topics import watch_group as watch_group
    from streaming.bus.connection import BusError as BusError
    from streaming.bus.connection import settings as settings
    from streaming.bus.keys import Record as Record
    from streaming.bus.keys import key as key
    from streaming.bus.reader import Reader as Reader
    from streaming.bus.sender import Sender as Sender
    from streaming.bus.shards import await_shards as await_shards
    from streaming.bus.shards import with_known_shards as with_known_shards
    from streaming.bus.shards import with_shards_of_snapshots as with_shards_of_snapshots

_IMPORTED: Final = {
    "BusError": "connection",
    "BusTopics": "bus_topics",
    "Reader": "reader",
    "Record": "keys",
    "Sender": "sender",
    "await_shards": "shards",
    "check_shards": "bus_topics",
    "describe_topics": "bus_topics",
    "ensure_topics": "bus_topics",
    "key": "keys",
    "own_topics": "bus_topics",
    "recorded_shards": "bus_topics",
    "settings": "connection",
    "shard_of": "bus_topics",
    "topic_configs": "bus_topics",
    "topics": "bus_topics",
    "watch_group": "bus_topics",
    "with_known_shards": "shards",
    "with_shards_of_snapshots": "shards",
}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    if name not in _IMPORTED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_IMPORTED[name]}"), name)
    return value
