"""The messages of one shard, sorted for a step: frames by cycle, events, and what cannot be used.

The Spark query and a replay of recorded observations both step a shard with this, so that they come
to the same state.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from twin.declarations.table import UNKNOWN
from twin.engine import frames
from twin.engine.changes import Change
from twin.engine.frames import Frame, InvalidFrame, Kinds
from twin.engine.merge import merge
from twin.engine.shard_state import ShardState
from twin.remote_log import segment_store
from twin.step import step

R = TypeVar("R")  # a record: what a refusal is reported with


@dataclass(slots=True)
class Batch(Generic[R]):
    """The frames of some messages, each with its record, by the function that processes them."""

    cycles: dict[int, list[tuple[Frame, R]]] = field(default_factory=lambda: defaultdict(list))
    remote: list[tuple[Frame, R]] = field(default_factory=list)
    unknown_kinds: list[str] = field(default_factory=list)
    refused: list[tuple[R, InvalidFrame]] = field(default_factory=list)


def sorted_frames(messages: Iterable[tuple[R, bytes]], kinds: Kinds) -> Batch[R]:
    """The batch of those messages, each of which comes with its record."""
    batch = Batch[R]()
    events: list[tuple[Frame, R]] = []  # which do not belong to a cycle
    for record, message in messages:
        try:
            decoded = frames.decode(message, kinds)
        except InvalidFrame as error:
            batch.refused.append((record, error))
            continue
        batch.refused += [(record, error) for error in decoded.invalid]
        batch.unknown_kinds += decoded.unknown_kinds
        for frame in decoded.frames:
            kind, at_ms = frame.header.kind, frame.header.observed_at_ms
            if kind in segment_store.KINDS:
                batch.remote.append((frame, record))
            elif kinds[kind].event:
                events.append((frame, record))
            else:
                batch.cycles[at_ms].append((frame, record))
    _join_cycles(events, batch.cycles)
    return batch


def _join_cycles(
    events: Sequence[tuple[Frame, R]], cycles: dict[int, list[tuple[Frame, R]]]
) -> None:
    """Give each event to the first cycle that is not before it, else to the newest one.

    A step costs the same for one event as for all, so events get no step of their own. The state
    is the same whether a query steps several cycles in one batch, as after a pause, or one by one.
    """
    in_order = sorted(cycles) or [UNKNOWN]
    for frame, record in events:
        later = bisect_left(in_order, frame.header.observed_at_ms)
        cycles[in_order[min(later, len(in_order) - 1)]].append((frame, record))


def step_cycle(
    shard_key: str, state: ShardState, entries: Sequence[tuple[Frame, R]]
) -> tuple[ShardState, list[Change], list[tuple[R, InvalidFrame]]]:
    """Step the state by one cycle of frames; unusable ones are refused, the others are used."""
    at_ms = entries[0][0].header.observed_at_ms
    refused: list[tuple[R, InvalidFrame]] = []
    try:
        return *step(state, [belonging(frame, shard_key) for frame, _ in entries], at_ms), refused
    except InvalidFrame:
        pass  # rare: find the frame that fails
    usable = []
    for frame, record in entries:
        try:
            merge(state, belonging(frame, shard_key))
            usable.append(frame)
        except InvalidFrame as error:
            refused.append((record, error))
    return *step(state, usable, at_ms), refused


def usable_remote(
    shard_key: str, shards: int, entries: Iterable[tuple[Frame, R]]
) -> tuple[list[Frame], list[tuple[R, InvalidFrame]]]:
    """The frames about remote segments that can be used, in their order, and the others."""
    usable: list[Frame] = []
    refused: list[tuple[R, InvalidFrame]] = []
    for frame, record in entries:
        try:
            if frame.header.shards != shards:
                raise InvalidFrame("shard", f"{shard_key} of {frame.header.shards} shards")
            segment_store.apply({}, belonging(frame, shard_key))
            usable.append(frame)
        except InvalidFrame as error:
            refused.append((record, error))
    return usable, refused


def belonging(frame: Frame, shard_key: str) -> Frame:
    """Return the frame if it was sent under the key of its shard, else refuse it."""
    named = f"{frame.header.cluster}/{frame.header.shard}"
    if named != shard_key:
        raise InvalidFrame("shard", f"a frame of {named} under the key {shard_key}")
    return frame
