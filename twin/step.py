"""The whole state machine: a state, observations and the time give a new state and its changes.

Replay, what-if, tests, the benchmark and Spark all call ``step``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from twin.arrays.columns_in_arrow import object_array
from twin.engine.changes import Change, changes
from twin.engine.frames import Frame
from twin.engine.merge import merge
from twin.engine.shard_state import ShardState
from twin.remote_log.segment_store import (
    Key,
    SegmentStore,
    apply,
    drop_deleted_topics,
    unjudged_partitions,
    with_findings,
)
from twin.tables.state import SkippedFrames

MOST_SKIPPED_KINDS: Final = 64
"""Anybody may write to the bus: no more kinds than this are counted apart."""


def step(
    state: ShardState, observation: Sequence[Frame], now_ms: int
) -> tuple[ShardState, list[Change]]:
    """The state after an observation, and the changes that a person would want to know about.

    Args:
        state: the shard as it was.
        observation: frames of one cycle, in any order; some may be late or repeated.
        now_ms: the time against which ages and spans are judged.

    Raises:
        InvalidFrame: a frame contradicts itself or belongs elsewhere; the state is unchanged.
    """
    merged = state
    for frame in observation:
        merged = merge(merged, frame)
    if merged is state:
        return state, []
    kinds = state.catalog.observations
    if all(
        kinds[frame.header.kind].event or frame.header.observed_at_ms < state.observed_at_ms
        for frame in observation
    ):
        now_ms = merged.observed_at_ms  # events bring no new time, so samples do not age by them
    after = merged.assessed(now_ms)
    return after, changes(state, after)


def step_segments(
    state: ShardState, store: SegmentStore, observation: Sequence[Frame]
) -> tuple[ShardState, SegmentStore, list[Change]]:
    """The state and the store after events of remote segments and leader epochs.

    It is separate from ``step``, since most cycles bring no such events and need no store.

    Args:
        state: the shard as it is.
        store: its remote segments.
        observation: frames of the kinds ``store.KINDS``, in the order they were sent.
    """
    changed: set[Key] = set()
    for frame in observation:
        store, partitions = apply(store, frame)
        changed |= partitions
    store = drop_deleted_topics(store, state)
    changed = (changed & store.keys()).union(unjudged_partitions(state, store))
    judged = with_findings(state, store, changed)
    if judged is state:
        return state, store, []
    after = judged.assessed(state.observed_at_ms)
    return after, store, changes(state, after)


def count_skipped(state: ShardState, kinds: Iterable[str]) -> ShardState:
    """The state with frames of those unknown kinds counted, up to a limit of kinds.

    Frames of unknown kinds come from newer collectors or from other packages.
    """
    table = state[SkippedFrames]
    counts = Counter(dict(zip(table.kind_name.tolist(), table.frames.tolist(), strict=True)))
    for kind in kinds:
        if kind in counts or len(counts) < MOST_SKIPPED_KINDS:
            counts[kind] += 1
    names = sorted(counts)
    frames = np.array([counts[name] for name in names], np.int64)
    return state.with_tables(SkippedFrames(object_array(names), frames))
