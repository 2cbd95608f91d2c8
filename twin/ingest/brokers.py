"""Brokers: which are listed, which answer, and since when one has been silent.

Before Kafka 4.0 no request lists brokers that are fenced (in ZooKeeper's time: that have no
session), so a broker that is lost disappears from the list like one that was removed. It stays
here while an assignment names it (the collector sends a row with ``listed`` false), and for a day
after it was listed last. Rack and address stay as they were listed last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.declare import ingest
from twin.declarations.table import UNKNOWN, Array, Bool, blank
from twin.engine.frames import Frame
from twin.engine.rows import refuse_duplicates
from twin.engine.shard_state import ShardState
from twin.tables.observations import BrokersFrame
from twin.tables.state import UNLISTED_STAYS_MS, Brokers


@ingest(BrokersFrame)
def take_brokers(state: ShardState, frame: Frame) -> ShardState:
    """Replace the brokers, and keep the times of their answers and silences."""
    at_ms = frame.header.observed_at_ms
    columns = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    refuse_duplicates(columns["broker"], "broker")
    before = state[Brokers]
    if len(before.broker) and before.listed_at_ms.max() >= at_ms:
        return state
    if not frame.header.complete:
        stays = ~np.isin(before.broker, columns["broker"])
        stays &= at_ms - before.listed_at_ms < UNLISTED_STAYS_MS
        columns = _with_unlisted(columns, before, stays)
    was_held = np.isin(columns["broker"], before.broker)
    place = np.searchsorted(before.broker, columns["broker"][was_held])

    def previous(values: Array, otherwise: Any) -> Array:
        previous_values = np.full(len(was_held), otherwise, values.dtype)
        previous_values[was_held] = values[place]
        return previous_values

    answered, listed = columns["answered"], columns["listed"]
    last_ms = previous(before.answered_at_ms, UNKNOWN)
    was_silent = ~previous(before.answered, otherwise=True)
    falls_silent = ~answered & ~was_silent
    until_ms = np.where(answered & was_silent, at_ms, previous(before.silent_until_ms, UNKNOWN))
    as_listed_last = ~listed & was_held
    columns |= {
        name: np.where(as_listed_last, previous(getattr(before, name), ""), columns[name])
        for name in ("rack", "host")
    }
    columns |= {
        "answered_at_ms": np.where(answered, at_ms, last_ms),
        "silent_since_ms": np.where(
            falls_silent, last_ms, previous(before.silent_since_ms, UNKNOWN)
        ),
        "silent_until_ms": np.where(answered, until_ms, UNKNOWN),
        "listed_at_ms": np.where(listed, at_ms, previous(before.listed_at_ms, UNKNOWN)),
    }
    order = np.argsort(columns["broker"])
    return state.with_tables(Brokers(**{name: v[order] for name, v in columns.items()}))


def _with_unlisted(columns: dict[str, Array], before: Brokers, stays: Bool) -> dict[str, Array]:
    """The rows of a frame, with rows added for those earlier brokers that it does not list."""
    count = int(stays.sum())
    unlisted = {c.name: blank(c, count) for c in BrokersFrame.columns}
    unlisted["broker"] = before.broker[stays]
    return {name: np.concatenate([values, unlisted[name]]) for name, values in columns.items()}
