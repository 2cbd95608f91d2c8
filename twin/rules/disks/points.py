"""Sums of straight lines at fixed times: what all logs of a directory take together."""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.table import Array, Float64
from twin.rules.disks.log_model import HORIZON_S, SizeChanges

_FIRST_S: Final = 15.0
_COUNT: Final = 48

POINTS_S: Final = np.concatenate([[0.0], np.geomspace(_FIRST_S, HORIZON_S, _COUNT - 1)])
"""[H] times from now at which sums are exact; between two of them they are taken for straight."""

_NEGLIGIBLE: Final = 1e-6
"""Bytes a second: a line that bends by less comes from rounding."""

_LOG_STEP: Final = float(np.log(POINTS_S[2] / POINTS_S[1]))


def summed_at_points(changes: SizeChanges, log: Array, cell: Array, cells: int) -> Float64:
    """[C, H] the sum of the changes of the logs in each cell, at POINTS_S.

    A line that bends by so much at some time has changed by that times the time since: so sums of
    the bends in each interval, and of the bends times their times, are enough.

    Args:
        changes: [K, N] of each log.
        log: [M] index of a log for each of its replicas.
        cell: [M] where that replica is.
        cells: how many cells there are, C.
    """
    points = len(POINTS_S)
    bends, moments = np.zeros((2, cells * points))
    for at_s, bend in zip(changes.at_s, _bends(changes), strict=False):
        is_bent = np.abs(bend) > _NEGLIGIBLE
        counts = np.flatnonzero(is_bent[log])
        if not len(counts):
            continue
        each = log[counts]
        place = cell[counts] * points + _first_point_from(at_s)[each]
        bends += np.bincount(place, bend[each], cells * points)
        moments += np.bincount(place, (bend * at_s)[each], cells * points)
    at_once = np.bincount(cell, changes.bytes[0][log], cells)
    per_s, late = (sums.reshape(cells, points).cumsum(axis=1) for sums in (bends, moments))
    summed: Float64 = at_once[:, None] + per_s * POINTS_S - late
    return summed


def _bends(changes: SizeChanges) -> Float64:
    """[K - 1, N] by how much each line is steeper than the one before it, in bytes a second."""
    lengths = np.diff(changes.at_s, axis=0)
    slopes = np.zeros_like(lengths)
    np.divide(np.diff(changes.bytes, axis=0), lengths, out=slopes, where=lengths > 0)
    for k in range(1, len(slopes)):  # one of no length goes on as the line before it
        np.copyto(slopes[k], slopes[k - 1], where=lengths[k] <= 0)
    return np.diff(slopes, axis=0, prepend=0.0)


def _first_point_from(at_s: Float64) -> Array:
    """[N] the index of the first of POINTS_S that is not before those times."""
    steps = np.log(np.maximum(at_s, _FIRST_S) / _FIRST_S) / _LOG_STEP
    index = np.ceil(steps).astype(np.intp) + 1
    index[at_s == 0] = 0
    return np.minimum(index, len(POINTS_S) - 1)
