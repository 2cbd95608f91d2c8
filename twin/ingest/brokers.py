"""Registered brokers: who is there, who answers, and since when one is silent."""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.declare import ingest
from twin.frames import Frame
from twin.rows import refuse_duplicates
from twin.state import ShardState
from twin.table import UNKNOWN, Array, to_numpy
from twin.tables.observations import BrokersFrame
from twin.tables.state import Brokers


@ingest(BrokersFrame)
def take_brokers(state: ShardState, frame: Frame) -> ShardState:
    """The listing replaces the one before; times of answers and silences are kept along."""
    at_ms = frame.header.observed_at_ms
    columns = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    refuse_duplicates(columns["broker"], "broker")
    before = state[Brokers]
    if len(before.broker) and before.listed_at_ms.max() >= at_ms:
        return state
    was_listed = np.isin(columns["broker"], before.broker)
    place = np.searchsorted(before.broker, columns["broker"][was_listed])

    def previous(values: Array, otherwise: Any) -> Array:
        held = np.full(len(was_listed), otherwise)
        held[was_listed] = values[place]
        return held

    answered = columns["answered"]
    last_ms = previous(before.answered_at_ms, UNKNOWN)
    was_silent = ~previous(before.answered, otherwise=True)
    falls_silent = ~answered & ~was_silent
    until_ms = np.where(answered & was_silent, at_ms, previous(before.silent_until_ms, UNKNOWN))
    columns |= {
        "answered_at_ms": np.where(answered, at_ms, last_ms),
        "silent_since_ms": np.where(
            falls_silent, last_ms, previous(before.silent_since_ms, UNKNOWN)
        ),
        "silent_until_ms": np.where(answered, until_ms, UNKNOWN),
        "listed_at_ms": np.full(len(was_listed), at_ms),
    }
    order = np.argsort(columns["broker"])
    return state.with_tables(Brokers(**{name: v[order] for name, v in columns.items()}))
