"""Ends of leader epochs: the newest answer about each partition."""

from __future__ import annotations

from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.engine.frames import Frame
from twin.engine.rows import refuse_duplicate_rows
from twin.engine.shard_state import ShardState
from twin.ingest.newest import with_newest
from twin.rules.election.leader_changes import EPOCH_END_WITHIN_MS, EpochEnds, EpochEndsFrame


@ingest(EpochEndsFrame)
def take_epoch_ends(state: ShardState, frame: Frame) -> ShardState:
    """Replace what is known of the partitions in the frame, unless that is newer."""
    refuse_duplicate_rows(frame.rows)
    return with_newest(state, frame, EpochEnds)


@expiry
def recent_epoch_ends(ends: EpochEnds, cycle: Cycle) -> EpochEnds:
    """Drop answers once no change of a leader waits for them."""
    return ends.pick(cycle.observed_at_ms - ends.read_at_ms <= EPOCH_END_WITHIN_MS)
