"""How many bytes a log has on disk from now on, by what is written and what may be deleted.

A log is a strip of bytes: those that are there lie evenly over the time that it spans, and what is
written follows at a constant rate. Retention cuts the strip at the age and at the size that the
settings keep; of a tiered topic it cuts no further than uploads have come. So what is deleted is
the least of straight lines and the most of two others, and between their few crossings the size of
the log is a straight line itself: nothing is played second by second.

Source: UnifiedLog.deleteOldSegments and deletableSegments, Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from twin.declarations.table import Array, Bool, Float64

HORIZON_S: Final = 14 * 86_400.0
"""Nothing is said of what is farther away."""

_LEAST_SPAN_S: Final = 1.0
"""A log that is younger has its bytes spread over so much."""


@dataclass(frozen=True, slots=True)
class Logs:
    """[N] logs on disk. Without a limit ``keeps`` and ``uploaded_bytes`` are inf."""

    size_bytes: Float64  # on disk now
    written_bytes_per_s: Float64
    span_s: Float64  # age of its first record
    keeps_s: Float64  # retention by age
    keeps_bytes: Float64  # retention by size
    uploaded_bytes: Float64  # of its size, what uploads allow to delete
    uploaded_bytes_per_s: Float64

    def take(self, rows: Array) -> Logs:
        """Those logs."""
        return Logs(
            self.size_bytes[rows], self.written_bytes_per_s[rows], self.span_s[rows],
            self.keeps_s[rows], self.keeps_bytes[rows], self.uploaded_bytes[rows],
            self.uploaded_bytes_per_s[rows],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SizeChanges:
    """[K, N] the change of each log's size at ascending times, a straight line between them.

    The first time is 0: what retention deletes at once is the change there. The last one is
    HORIZON_S, beyond which nothing is said.
    """

    at_s: Float64
    bytes: Float64


def size_changes(logs: Logs) -> SizeChanges:
    """[K, N] how the size of each log changes."""
    at_s = _bends(logs)
    deleted = deleted_bytes(logs, at_s)
    if np.isfinite(logs.uploaded_bytes).any():
        at_s, deleted = _up_to_uploads(logs, at_s, deleted)
    return SizeChanges(at_s, logs.written_bytes_per_s * at_s - deleted)


def deleted_bytes(logs: Logs, at_s: Float64) -> Float64:
    """[K, N] what retention wants to delete of each log by those times [K, N], uploads aside."""
    span_s = np.maximum(logs.span_s, _LEAST_SPAN_S)
    # Of what is there, the part that is too old by then; and then of what was written since.
    old = np.clip(span_s + at_s - logs.keeps_s, 0, span_s) * (logs.size_bytes / span_s)
    new = np.maximum(at_s - logs.keeps_s, 0) * logs.written_bytes_per_s
    beyond = logs.size_bytes + logs.written_bytes_per_s * at_s - logs.keeps_bytes
    deleted: Float64 = np.maximum(np.maximum(old + new, beyond), 0)
    return deleted


def _bends(logs: Logs) -> Float64:
    """[6, N] 0, the times at which retention may begin to delete at another rate, and HORIZON_S."""
    span_s = np.maximum(logs.span_s, _LEAST_SPAN_S)
    density, written = logs.size_bytes / span_s, logs.written_bytes_per_s
    by_age = logs.keeps_s - span_s
    missing = logs.keeps_bytes - logs.size_bytes
    with np.errstate(divide="ignore", invalid="ignore"):
        by_size = missing / written
        # Where the age of what is there deletes as much as the size does.
        both = (density * by_age - missing) / (density - written)
    each = [np.nan_to_num(at, nan=0.0) for at in (by_age, by_size, both, logs.keeps_s)]
    a, b, c, d = (np.clip(at, 0, HORIZON_S) for at in each)
    a, b = np.minimum(a, b), np.maximum(a, b)
    c, d = np.minimum(c, d), np.maximum(c, d)
    a, c = np.minimum(a, c), np.maximum(a, c)
    b, d = np.minimum(b, d), np.maximum(b, d)
    b, c = np.minimum(b, c), np.maximum(b, c)
    return np.stack([np.zeros_like(a), a, b, c, d, np.full_like(a, HORIZON_S)])


def _up_to_uploads(logs: Logs, at_s: Float64, wanted: Float64) -> tuple[Float64, Float64]:
    """[2K - 1, N] times and what is deleted: no more than is uploaded by then."""
    uploaded = logs.uploaded_bytes + logs.uploaded_bytes_per_s * at_s
    with np.errstate(invalid="ignore"):
        above = np.where(np.isinf(uploaded), -1.0, wanted - uploaded)
    crosses: Bool = above[:-1] * above[1:] < 0
    lengths = np.diff(at_s, axis=0)
    share = np.zeros_like(lengths)
    np.divide(np.abs(above[:-1]), np.abs(above[:-1]) + np.abs(above[1:]), out=share, where=crosses)
    between_s = at_s[:-1] + share * lengths
    between = wanted[:-1] + share * np.diff(wanted, axis=0)
    least = np.minimum(wanted, uploaded)
    # Without a crossing the point between is the one before it.
    between = np.where(crosses, between, least[:-1])
    knots = 2 * len(at_s) - 1
    times, deleted = np.empty((2, knots, at_s.shape[1]))
    times[::2], times[1::2] = at_s, between_s
    deleted[::2], deleted[1::2] = least, between
    return times, deleted
