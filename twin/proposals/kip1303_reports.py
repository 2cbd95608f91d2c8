"""How much more leaders would report to the controller under KIP-1303."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from twin.declarations.declare import gauge
from twin.declarations.signature import Before, Cycle
from twin.declarations.table import UNKNOWN
from twin.rules.partitions.growth import Growth
from twin.rules.partitions.leaders import LeaderEnds, Leaders
from twin.rules.tiering.warm_up import WarmUp

HOUR_MS: Final = 3_600_000


@gauge(
    "kip1303_reports_per_second",
    "AlterPartition reports a second that KIP-1303 would add, by what is reported: every change of "
    "a size (at least, at most), or crossings of a threshold.",
    labels=("report",),
    scale=1 / 3600,
)
def kip1303_reports_per_hour(
    growth: Growth,
    leaders: Leaders,
    previous: Before[LeaderEnds],
    warm_up: WarmUp,
    cycle: Cycle,
) -> Mapping[tuple[str], int]:
    """The reports an hour as whole numbers, which add up over shards.

    Every append changes the bytes of each follower, and the leader reports per partition: at least
    one report for each partition that grew between two polls, at most one per record. Crossings are
    those predicted for the next hour.
    """
    rate = np.maximum(growth.appended_records_per_s, 0)
    grew = (leaders.log_end_offset > previous.offset) & (previous.offset != UNKNOWN) & (rate > 0)
    interval_ms = cycle.observed_at_ms - cycle.prev_observed_at_ms
    polled = UNKNOWN not in (cycle.observed_at_ms, cycle.prev_observed_at_ms) and interval_ms > 0
    soon = warm_up.warm_in_s
    return {
        ("every_change_min",): int(grew.sum()) * (HOUR_MS // interval_ms if polled else 0),
        ("every_change_max",): int(np.rint(rate * (HOUR_MS / 1000)).astype(np.int64).sum()),
        ("crossings",): int(((soon > 0) & (soon <= HOUR_MS / 1000)).sum()),
    }
