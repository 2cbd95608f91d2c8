"""Keys of messages on the bus, and records of it. Nothing here needs a Kafka client."""

from __future__ import annotations

from typing import NamedTuple

from twin.engine.shard_reports import CLUSTER


class Record(NamedTuple):
    """One record of a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def key(cluster: str, shard: int) -> bytes:
    """The key of a shard's frames, so that they stay in order in one partition.

    The key of the cluster's own shard ends in ``cluster``. That shard has snapshots only.
    """
    return f"{cluster}/{'cluster' if shard == CLUSTER else shard}".encode()


def is_of_cluster(message_key: bytes | None, cluster: str) -> bool:
    """Whether a snapshot under that key is of the cluster's own shard, or a part of one."""
    own = key(cluster, CLUSTER)
    return message_key is not None and (message_key == own or message_key.startswith(own + b"/"))
