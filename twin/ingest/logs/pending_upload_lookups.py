"""Followers that asked their leaders for the earliest pending upload offset (KIP-1023)."""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.ingest.logs.logged import logged_rows
from twin.rules.replication.isr_shrinks import SHRINK_WINDOW_MS
from twin.tables.observations import PendingUploadLookupsFrame
from twin.tables.state import PendingUploadLookups


@ingest(PendingUploadLookupsFrame)
def take_lookups(state: ShardState, frame: Frame) -> ShardState:
    """Keep the last request of each follower, and count its requests."""
    row, columns = logged_rows(state, frame)
    table = state[PendingUploadLookups]
    table_key, key = keys.pack(table.row, table.broker), keys.pack(row, columns["broker"])
    new = columns["at_ms"] > keys.look_up(table_key, table.at_ms, key)
    if not new.any():
        return state
    key, row, columns = key[new], row[new], {name: v[new] for name, v in columns.items()}
    order = np.lexsort((columns["at_ms"], key))
    _, first, count = np.unique(key[order], return_index=True, return_counts=True)
    newest = order[first + count - 1]
    before = keys.look_up(table_key, table.request_count, key[newest], missing=0)
    fresh = PendingUploadLookups(
        row=row[newest],
        broker=columns["broker"][newest],
        leader=columns["leader"][newest],
        at_ms=columns["at_ms"][newest],
        pending_upload_offset=columns["pending_upload_offset"][newest],
        error_code=columns["error_code"][newest],
        request_count=(before + count).astype(np.int32),
    )
    joined = table.pick(~np.isin(table_key, key)).with_rows(fresh)
    return state.with_tables(joined.pick(np.argsort(keys.pack(joined.row, joined.broker))))


@expiry
def recent_lookups(lookups: PendingUploadLookups, cycle: Cycle) -> PendingUploadLookups:
    """Drop lookups that are older than the ISR shrinks that the state keeps."""
    return lookups.pick(cycle.observed_at_ms - lookups.at_ms <= SHRINK_WINDOW_MS)
