"""How fast a log grows: what a prediction of sizes and spans needs.

Samples of two cycles give a rate; a moving average evens out bursts, so a rate that is quoted as
"now" is that of the last few cycles.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Fleet
from twin.tables import UNKNOWN

WEIGHT: Final = 0.3
"""Of the newest interval: the last five weigh 5/6 of the average."""


def appended_per_s(fleet: Fleet) -> NDArray[np.float64]:
    """[P] records written to the leader's log a second, UNKNOWN before two samples of it.

    Derived from what the last cycle left and from this cycle's samples alone.
    """
    end, at = fleet.of_leader(fleet.log_end_offset), fleet.of_leader(fleet.sampled_at_ms)
    before, before_at = fleet.leader_end_before_offset, fleet.leader_end_before_at_ms
    measured = (end != UNKNOWN) & (before != UNKNOWN) & (at > before_at) & (end >= before)
    seconds = np.where(measured, at - before_at, 1) / 1000
    rate = np.where(measured, end - before, 0) / seconds
    average = fleet.appended_before_per_s
    first = average == UNKNOWN
    return np.where(measured, np.where(first, rate, average + WEIGHT * (rate - average)), average)


def bytes_per_record(fleet: Fleet) -> NDArray[np.float64]:
    """[P] size of a record on disk, by the leader's local log; NaN where that tells nothing."""
    records = fleet.of_leader(fleet.log_end_offset) - fleet.of_leader(fleet.local_log_start_offset)
    size = fleet.of_leader(fleet.local_log_bytes)
    known = (size > 0) & (records > 0) & (fleet.of_leader(fleet.local_log_start_offset) != UNKNOWN)
    return np.where(known, size / np.where(known, records, 1), np.nan)
