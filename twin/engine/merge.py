"""Pass a frame to the function that ingests its kind; a frame of a new cycle begins that cycle."""

from __future__ import annotations

from twin.engine.frames import Frame, InvalidFrame
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState


def merge(state: ShardState, frame: Frame) -> ShardState:
    """The state after this frame; the same object when the frame brings nothing new.

    Raises:
        InvalidFrame: ``shard`` (another cluster, shard or number of shards), ``header``, ``kind``
            (no function ingests it), ``rows`` (a row listed twice, or columns that contradict each
            other).
    """
    header = frame.header
    of_cluster = state.shard == CLUSTER  # it observes the other shards
    shard = CLUSTER if of_cluster else header.shard
    if (header.cluster, shard, header.shards) != (state.cluster, state.shard, state.shards):
        raise InvalidFrame(
            "shard",
            f"{header.cluster}/{header.shard} of {header.shards} "
            f"in {state.cluster}/{state.shard} of {state.shards}",
        )
    if header.observed_at_ms < 0:
        raise InvalidFrame("header", f"observed_at_ms is {header.observed_at_ms}")
    ingests = state.catalog.ingests.get(header.kind, ())
    if not ingests:
        raise InvalidFrame("kind", f"nothing takes in frames of kind {header.kind}")
    current = state
    if not state.catalog.observations[header.kind].event:
        if header.observed_at_ms < state.observed_at_ms and not of_cluster:
            return state  # a report that is late is still the newest of its shard
        if header.observed_at_ms > state.observed_at_ms:
            current = state.begin_cycle(header.observed_at_ms, header.cycle)
    for each in ingests:
        current = each.apply(current, frame)
    return current
