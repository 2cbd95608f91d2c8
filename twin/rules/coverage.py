"""How much of its log a replica holds on its own disk, and whether that is enough to lead.

Source: KIP-1303, with its open points decided so: a replica is eligible unless every enabled
condition is known and fails; a threshold is enabled when positive; equality is enough; a topic's
value overrides the broker's; unknown is eligible and said to be assumed; an empty local log is
known to hold nothing; a timestamp in the future spans nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.tables import UNKNOWN, Coverage

CLOCK_SKEW_MS: Final = 60_000
"""Clocks of producers and brokers may differ by so much before anyone is suspected."""


def span_ms(fleet: Fleet, now_ms: int) -> NDArray[np.int64]:
    """[P, R] the time its local log spans until now, UNKNOWN where its first timestamp is."""
    started = fleet.local_start_timestamp_ms
    span = np.where(started == UNKNOWN, UNKNOWN, np.maximum(now_ms - started, 0))
    return np.where(is_empty(fleet), 0, span)


def held_bytes(fleet: Fleet) -> NDArray[np.int64]:
    """[P, R] the size of its local log, UNKNOWN where nobody told."""
    return np.where(is_empty(fleet), 0, fleet.local_log_bytes)


def is_empty(fleet: Fleet) -> NDArray[np.bool_]:
    """[P, R] the replica is known to hold no record on its disk."""
    empty: NDArray[np.bool_] = (fleet.log_end_offset != UNKNOWN) & (
        fleet.local_log_start_offset == fleet.log_end_offset
    )
    return empty


def timestamp_suspect(fleet: Fleet, now_ms: int) -> NDArray[np.bool_]:
    """[P, R] the span is longer than the local log can have existed, so it proves nothing.

    A log that begins at or beyond the log end the twin saw first was written since then. A span
    that reaches back further comes from producers' clocks (CreateTime), for example a back-fill.
    """
    anchor, anchor_at = fleet.anchor_offset[:, None], fleet.anchor_at_ms[:, None]
    younger = (anchor != UNKNOWN) & (fleet.local_log_start_offset >= anchor)
    span = span_ms(fleet, now_ms)
    suspect: NDArray[np.bool_] = (
        younger & ~is_empty(fleet) & (span > now_ms - anchor_at + CLOCK_SKEW_MS)
    )
    return suspect


def coverage(fleet: Fleet, now_ms: int) -> Array:
    """[P, R] a Coverage each: WARM, THIN, or ASSUMED where a needed number is unknown."""
    least_ms = fleet.topic_setting("eligible_local_log_ms")[:, None]
    least_bytes = fleet.topic_setting("eligible_local_log_bytes")[:, None]
    if not ((least_ms > 0) | (least_bytes > 0)).any():
        return np.full(fleet.broker.shape, Coverage.WARM, np.int8)
    conditions = ((least_ms, span_ms(fleet, now_ms)), (least_bytes, held_bytes(fleet)))
    passes = np.zeros(fleet.broker.shape, bool)
    fails = np.ones(fleet.broker.shape, bool)
    for least, value in conditions:
        known = value != UNKNOWN
        passes |= (least > 0) & known & (value >= least)
        fails &= (least <= 0) | (known & (value < least))
    fails &= (least_ms > 0) | (least_bytes > 0)
    is_off = (least_ms <= 0) & (least_bytes <= 0)
    decided = np.where(fails, Coverage.THIN, Coverage.ASSUMED)
    return np.where(passes | is_off, Coverage.WARM, decided).astype(np.int8)
