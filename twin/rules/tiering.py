"""What the findings on remote segments mean for a partition now.

The findings are made when segments change (``lineage``); replicas and the clock move on.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Fleet
from twin.tables import UNKNOWN, Slot

DANGLING_MS: Final = 600_000
"""A copy of a gigabyte takes minutes; one that takes longer is not coming."""


def gaps(fleet: Fleet) -> NDArray[np.bool_]:
    """[P] offsets of the log below its remote end are in no copy and on no live replica."""
    of = fleet.lineage
    first = np.maximum(of.gap_start_offset, fleet.of_leader(fleet.log_start_offset)[of.row])
    is_gap = (of.gap_start_offset != UNKNOWN) & (first < of.gap_end_offset)
    live = (fleet.present & ~fleet.marked(Slot.OFFLINE))[of.row]
    local, end = fleet.local_log_start_offset[of.row], fleet.log_end_offset[of.row]
    holds = live & (local != UNKNOWN) & (local <= first[:, None])
    holds &= end >= of.gap_end_offset[:, None]
    return fleet.among(of.row[is_gap & ~holds.any(axis=1)])


def dangling(fleet: Fleet, now_ms: int) -> NDArray[np.bool_]:
    """[P] a copy was started DANGLING_MS ago and is not finished."""
    of = fleet.lineage
    old = (of.dangling_since_ms != UNKNOWN) & (now_ms - of.dangling_since_ms > DANGLING_MS)
    return fleet.among(of.row[(of.dangling_segments > 0) & old])


def orphans(fleet: Fleet) -> NDArray[np.bool_]:
    """[P] finished copies do not belong to the log."""
    of = fleet.lineage
    return fleet.among(of.row[of.orphan_segments > 0])
