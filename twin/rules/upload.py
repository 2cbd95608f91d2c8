"""How far uploads are behind, against what local retention wants to delete.

A segment is deleted from disk only once it is in remote storage (UnifiedLog.deletableSegments,
Kafka 4.3). When what is not uploaded yet grows to what local retention keeps, retention waits for
uploads and the disk fills.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.rules.growth import bytes_per_record
from twin.tables import UNKNOWN

NEARLY: Final = 0.9
"""Share of local retention at which an operator still has time to act."""


def lag_records(fleet: Fleet) -> NDArray[np.int64]:
    """[P] records the leader has not uploaded, UNKNOWN where it does not tell."""
    tiered, end = fleet.of_leader(fleet.last_tiered_offset), fleet.of_leader(fleet.log_end_offset)
    known = (tiered != UNKNOWN) & (end != UNKNOWN)
    return np.where(known, np.maximum(end - tiered - 1, 0), UNKNOWN)


def lag_bytes(fleet: Fleet) -> NDArray[np.float64]:
    """[P] an estimate: those records at the size of a record on the leader's disk; NaN unknown."""
    lag = lag_records(fleet)
    return np.where(lag == UNKNOWN, np.nan, lag * bytes_per_record(fleet))


def lags_retention(fleet: Fleet) -> NDArray[np.bool_]:
    """[P] what is not uploaded comes to NEARLY what local retention keeps, in bytes or in time.

    In time by the rate at which the partition is written, so an idle partition never counts: its
    active segment is rolled and uploaded when retention wants it.
    """
    lag, rate = lag_records(fleet), fleet.appended_per_s
    kept_bytes = fleet.topic_setting("local_retention_bytes")
    kept_ms = fleet.topic_setting("local_retention_ms")
    with np.errstate(invalid="ignore"):
        by_bytes = (kept_bytes > 0) & (lag_bytes(fleet) >= NEARLY * kept_bytes)
    seconds = np.where(rate > 0, lag / np.where(rate > 0, rate, 1), 0)
    by_time = (kept_ms > 0) & (lag != UNKNOWN) & (seconds * 1000 >= NEARLY * kept_ms)
    tiered: Array = fleet.topic_setting("remote_storage") == 1
    lags: NDArray[np.bool_] = tiered & (by_bytes | by_time)
    return lags
