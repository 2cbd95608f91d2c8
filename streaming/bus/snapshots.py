"""Reads the newest snapshots of all shards once, for commands that end after that."""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import suppress
from typing import Final, Literal

from streaming.bus import bus_topics, record
from streaming.bus.chains import Chain
from streaming.bus.reader import Reader
from streaming.bus.shards import with_shards_of_snapshots
from streaming.bus.snapshot_parts import parts_of
from streaming.bus.view import ClusterView, SnapshotStore
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.plugins import catalog_of
from twin.engine import codec
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.engine.updates import WHOLE_EVERY_CYCLES

WITHIN_S: Final = 20.0

_RECENT: Final = 64

_BACK: Final[tuple[int | Literal["beginning"], ...]] = (4_096, "beginning")
"""Records of each partition that are read when the recent ones are not enough. Most topics hold the
snapshots of several minutes, and each cycle writes a message of every shard."""

_KEPT: Final = 2
"""Messages of each key: the newest part of a shard may be ahead of its other parts."""


def newest(config: Config, within_s: float = WITHIN_S) -> ClusterView:
    """The newest snapshots of all shards that have one.

    Raises:
        BusError: the snapshots cannot be read, or not in time.
    """
    deadline = Deadline.after_s(within_s)
    known = with_shards_of_snapshots(config)
    view = ClusterView(shards_expected=1)
    if known is None:
        return view
    config = known
    for start in (recent_records(config), *_BACK):
        view = _read(config, start, deadline)
        if len(view.shards) == view.shards_expected and not view.shards_behind:
            break
    return view


def recent_records(config: Config) -> int:
    """Records of each partition that should have a whole state of every shard, and its updates.

    Half as many again, since the hash of the keys does not spread them evenly.
    """
    chain = WHOLE_EVERY_CYCLES + 1
    return max(_RECENT, 3 * chain * config.bus.shards // (2 * config.bus_partitions))


def newest_of_cluster(config: Config, within_s: float = WITHIN_S) -> ShardState | None:
    """The newest snapshot of the cluster's own shard; None if there is none that can be used.

    It is written in each cycle, so it is among the newest records of its partition.

    Raises:
        BusError: the snapshots cannot be read, or not in time.
    """
    start = _RECENT + 2 * config.bus.shards
    messages = _messages(config, start, Deadline.after_s(within_s))
    catalog, chain = catalog_of(config).cluster, Chain()
    for key, values in messages.items():
        for value in values if record.is_of_cluster(key, config.cluster.name) else ():
            with suppress(InvalidFrame):
                decoded = codec.decode(value or b"", catalog)
                if decoded.state.shards == config.bus.shards:
                    chain.take_part(*parts_of(value or b""), decoded, value or b"")
    return chain.state


def _read(config: Config, start: int | Literal["beginning"], deadline: Deadline) -> ClusterView:
    store = SnapshotStore(
        catalog_of(config), config.cluster.name, config.bus.shards, config.collector.interval_ms
    )
    for key, values in _messages(config, start, deadline).items():
        for value in values:
            store.take_snapshot(key, value)
    return store.publish()


def _messages(
    config: Config, start: int | Literal["beginning"], deadline: Deadline
) -> defaultdict[bytes | None, deque[bytes | None]]:
    """The newest messages of each key."""
    messages: defaultdict[bytes | None, deque[bytes | None]]
    messages = defaultdict(lambda: deque(maxlen=_KEPT))
    topic = bus_topics.topics(config).snapshots
    with Reader(config, [topic], start) as reader:
        for record in reader.to_end(deadline):
            messages[record.key].append(record.value)
    return messages
