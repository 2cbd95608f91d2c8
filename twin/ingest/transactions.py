"""Holders of open transactions: the newest answer about each partition."""

from __future__ import annotations

from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.ingest.newest import with_newest
from twin.rules.reading.open_transactions import (
    HOLDER_STAYS_MS,
    TransactionHolders,
    TransactionsFrame,
)


@ingest(TransactionsFrame)
def take_transactions(state: ShardState, frame: Frame) -> ShardState:
    """Replace what is known of the partitions in the frame, unless that is newer."""
    return with_newest(state, frame, TransactionHolders)


@expiry
def recent_holders(holders: TransactionHolders, cycle: Cycle) -> TransactionHolders:
    """Drop answers that were not repeated, since their transaction has ended."""
    return holders.pick(cycle.observed_at_ms - holders.read_at_ms <= HOLDER_STAYS_MS)
