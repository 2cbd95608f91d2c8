"""The format of a capsule: a span of a cluster's past in one file, a zip.

Members:
    manifest        JSON: ``Manifest``, with size and digest of every other member
    index           JSON: ``Index``, the cycles, and where each message is
    observations/N  messages of the observations topic back to back, in the order of the index
    states/N/S      the state of shard S after cycle N, as in a snapshot, its parts back to back
    segments/N/S    its remote segments, if it has any
    cluster/N       the state of the cluster's own shard after cycle N
    events          messages of the events topic, a line each

A capsule may come from a stranger. The reader (``opening``) knows which members there may be and
how large each may be; it asks for members by these names, and for nothing else.
"""

from __future__ import annotations

from typing import Final

import msgspec

FORMAT_VERSION: Final = 1
"""Rises with every change after which an older or newer reader would misread a capsule."""

MANIFEST: Final = "manifest"
INDEX: Final = "index"
EVENTS: Final = "events"

MOST_FILE_BYTES: Final = (2 << 30) - 1
"""A zip of this size needs no extension for large files, which the reader refuses."""

MOST_MEMBERS: Final = 60_000
MOST_DIRECTORY_BYTES: Final = 8 << 20
MOST_MANIFEST_BYTES: Final = 16 << 20
MOST_INDEX_BYTES: Final = 32 << 20
MOST_EVENTS_BYTES: Final = 256 << 20
MOST_STATE_BYTES: Final = 256 << 20
CHUNK_BYTES: Final = 4 << 20
MOST_CHUNK_BYTES: Final = CHUNK_BYTES + (2 << 20)
"""A chunk ends with the message that fills it, and a message has at most one megabyte."""

MOST_CYCLES: Final = 50_000
MOST_SHARDS: Final = 4_096

WHOLE_EVERY_CYCLES: Final = 60
"""So many cycles are replayed at most for a moment: half a second for a small cluster."""


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member as it must be."""

    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a capsule is. ``format_version`` is read first, and by itself."""

    format_version: int
    product_version: str
    cluster: str
    begin_ms: int  # the first cycle
    end_ms: int  # the last
    observed_since_ms: int  # the state before is made of observations since then
    shards: int
    proposals: tuple[str, ...]  # that were switched on
    own_topics: tuple[str, ...] = ()  # topics of the bus, if it is on the watched cluster
    anonymized: bool = False
    cycles: int
    observations: int  # messages
    left_out: int = 0  # messages or frames that cannot be anonymized, since their kind is unknown
    events: int
    members: dict[str, Member]


class IndexedCycle(msgspec.Struct, frozen=True, array_like=True):
    """A cycle, and the shards that have all of it."""

    at_ms: int
    number: int
    whole_shards: tuple[int, ...]


class IndexedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message: the index of its cycle, its shard, and its place in a chunk."""

    cycle: int
    shard: int
    chunk: int
    start: int
    size_bytes: int


class Index(msgspec.Struct, frozen=True):
    """The cycles in order, the messages in order, and the cycles of which there are states."""

    cycles: tuple[IndexedCycle, ...]
    messages: tuple[IndexedMessage, ...]
    whole: tuple[int, ...]


def chunk_name(number: int) -> str:
    """The member with that chunk of messages."""
    return f"observations/{number}"


def state_name(cycle: int, shard: int) -> str:
    """The member with the state of a shard."""
    return f"states/{cycle}/{shard}"


def segments_name(cycle: int, shard: int) -> str:
    """The member with the remote segments of a shard."""
    return f"segments/{cycle}/{shard}"


def cluster_name(cycle: int) -> str:
    """The member with the state of the cluster's own shard."""
    return f"cluster/{cycle}"
