"""Up to where the records of each partition are committed."""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declare import rule
from twin.rules.leaders import Roles
from twin.table import UNKNOWN, Int64, PartitionTable, column
from twin.tables.state import Replicas

_NEVER: Final = np.int64(1) << 62


class HighWatermarks(
    PartitionTable, kind="high_watermark", api="", on_demand="the lowest stored log end of the ISR"
):
    """[P] an estimate of each partition's high watermark."""

    high_watermark_estimate: Int64 = column(
        "lowest sampled log end of the ISR; the leader's own is at most one fetch behind it"
    )


@rule
def high_watermarks(replicas: Replicas, roles: Roles) -> HighWatermarks:
    """Unknown where a log end of the ISR is."""
    isr = roles.in_isr & roles.is_assigned
    ends = np.where(isr, replicas.log_end_offset, _NEVER).min(axis=1, initial=_NEVER)
    return HighWatermarks(np.where(ends == _NEVER, UNKNOWN, ends))
