"""One cycle of all shards: what the tasks and the driver of the query do with a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from streaming.bus.record import key
from twin.batch import sorted_frames, step_cycle, usable_remote
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine.catalog import Catalog
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.shard_state import ShardState
from twin.remote_log import segment_store
from twin.remote_log.segment_store import SegmentStore
from twin.step import count_skipped, step_segments


@dataclass(frozen=True, slots=True)
class ShardPast:
    """A shard, and its remote segments. ``state`` is None before its first observation.

    ``segments`` is None if those of before are not known: then findings on them stay as they are.
    """

    state: ShardState | None = None
    segments: SegmentStore | None = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class States:
    """All shards and the cluster's own after a cycle."""

    shards: Mapping[int, ShardPast]
    cluster: ShardState

    def nbytes(self) -> int:
        """About the memory of it."""
        states = [shard.state for shard in self.shards.values() if shard.state is not None]
        return sum(state.nbytes() for state in (*states, self.cluster))


def nothing_yet(catalog: Catalog, cluster: str, shards: int) -> States:
    """The states before anything was observed."""
    before = dict.fromkeys(range(shards), ShardPast())
    return States(before, empty_cluster(catalog, cluster, shards))


def stepped(
    catalog: Catalog, cluster: str, before: States, messages: Iterable[tuple[int, bytes]]
) -> States:
    """The states after the messages of a cycle: shard and message, as they were sent."""
    by_shard: dict[int, list[bytes]] = defaultdict(list)
    for shard, message in messages:
        by_shard[shard].append(message)
    shards, reported = dict(before.shards), list[Frame]()
    for shard, sent in sorted(by_shard.items()):
        shards[shard] = _shard(catalog, cluster, shard, before, sent, reported)
    own = before.cluster
    with suppress(InvalidFrame):  # the driver goes on without them, too
        own, _ = step_cluster(own, reported)
    return States(shards, own)


def _shard(
    catalog: Catalog, cluster: str, shard: int, before: States, sent: Iterable[bytes],
    reported: list[Frame],
) -> ShardPast:  # fmt: skip
    old, count = before.shards[shard], len(before.shards)
    shard_key = key(cluster, shard).decode()
    batch = sorted_frames(((None, message) for message in sent), catalog.observations)
    state = old.state
    for at_ms in sorted(batch.cycles):
        current = state or ShardState.empty(catalog, cluster, shard, count)
        after, _, _ = step_cycle(shard_key, current, batch.cycles[at_ms])
        if after is not current:
            state = after
            reported += reports(state)
    segments = old.segments
    # In the order of the bus: an event at or before the last offset is a repeat.
    entries = sorted(batch.remote, key=lambda entry: entry[0].header.observed_at_ms)
    had = 0 if old.state is None else old.state.partitions
    if segments is not None and (entries or (state is not None and state.partitions > had)):
        usable, _ = usable_remote(shard_key, count, entries)
        if state is None:
            for frame in usable:
                segments, _ = segment_store.apply(segments, frame)
        else:
            state, segments, _ = step_segments(state, segments, usable)
    if state is not None and batch.unknown_kinds:
        state = count_skipped(state, batch.unknown_kinds)
    return ShardPast(state, segments)
