"""Whole cycles by hand, and what the cluster's own shard makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tests.builders import NOW_MS, Partition, brokers_frame, partitions_frame, replicas_frame
from tests.scope import reported
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, step_cluster
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState


def cycle_frames(parts: Sequence[Partition], at_ms: int = NOW_MS, **brokers: Any) -> list[Frame]:
    """The frames of a cycle in which those brokers answer (see ``brokers_frame``)."""
    return [brokers_frame(at_ms=at_ms, **brokers), *listed_frames(parts, at_ms)]


def listed_frames(parts: Sequence[Partition], at_ms: int = NOW_MS) -> list[Frame]:
    """Partitions and their replicas."""
    return [partitions_frame(parts, at_ms), replicas_frame(parts, at_ms)]


def each_own(
    cycles: Iterable[tuple[Sequence[Frame], int]],
    topics: Sequence[str],
    shards: int = 1,
    order: Callable[[list[Frame]], Sequence[Frame]] = list,
) -> Iterator[ShardState]:
    """The cluster's own shard after each cycle; shards get the topics in turn."""
    own = empty_cluster(CATALOG, "c", shards)
    for of_cycle in reported(CATALOG, list(cycles), shards, topics):
        own, _ = step_cluster(own, order(of_cycle))
        yield own


def own_after(*args: Any, **more: Any) -> ShardState:
    """The same after the last cycle."""
    return list(each_own(*args, **more))[-1]
