"""Log directories of brokers, and the directory of each replica: the newest answers count."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.rows import refuse_duplicate_rows
from twin.engine.shard_state import ShardState
from twin.ingest.replicas import places_of
from twin.rules.brokers.log_dirs import LogDirs, LogDirsFrame, ReplicaDirs, ReplicaDirsFrame
from twin.tables.state import UNLISTED_STAYS_MS, Brokers

_KEPT_MS: Final = UNLISTED_STAYS_MS
"""What was in a directory that has failed is worth knowing while its broker is down."""


@ingest(LogDirsFrame)
def take_log_dirs(state: ShardState, frame: Frame) -> ShardState:
    """Replace the directories of the brokers in the frame; those of others stay, and age."""
    at_ms = frame.header.observed_at_ms
    columns = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    key = keys.pack(columns["broker"], columns["number"])
    if len(np.unique(key)) != len(key):
        raise InvalidFrame("rows", "one log directory is listed twice")
    before = state[LogDirs]
    listed = LogDirs(**columns, observed_at_ms=np.full(len(key), at_ms))
    # Several parts of one cycle add up.
    known = keys.pack(before.broker, before.number)[before.observed_at_ms >= at_ms]
    listed = listed.pick(~np.isin(key, known))
    if not len(listed.broker):
        return state
    is_older = np.isin(before.broker, listed.broker) & (before.observed_at_ms < at_ms)
    stays = before.pick(~is_older)
    both = [np.concatenate(pair) for pair in zip(stays.values(), listed.values(), strict=True)]
    table = LogDirs.from_values(both)
    order = np.lexsort((table.number, table.broker))
    return state.with_tables(table.pick(order))


@expiry
def known_log_dirs(dirs: LogDirs, brokers: Brokers, cycle: Cycle) -> LogDirs:
    """Drop directories of brokers that are gone, and those that nobody has listed for a day."""
    stays = np.isin(dirs.broker, brokers.broker)
    stays &= cycle.observed_at_ms - dirs.observed_at_ms <= _KEPT_MS
    return dirs if stays.all() else dirs.pick(stays)


@ingest(ReplicaDirsFrame)
def take_replica_dirs(state: ShardState, frame: Frame) -> ShardState:
    """Note the directory of the replicas in the frame; the others stay where they were."""
    at_ms, broker = frame.header.observed_at_ms, to_numpy(frame.rows.column("broker"))
    refuse_duplicate_rows(frame.rows, broker)
    if (broker < 0).any():
        raise InvalidFrame("rows", "a replica has a negative broker id")
    number = to_numpy(frame.rows.column("number"))
    state, listed, row, slot = places_of(state, frame.rows, broker, at_ms)
    is_held = slot >= 0
    before = state[ReplicaDirs]
    after = before.number.copy()
    after[row[is_held], slot[is_held]] = number[listed][is_held]
    if np.array_equal(after, before.number):
        return state
    return state.with_tables(replace(before, number=after))
