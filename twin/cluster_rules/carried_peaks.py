"""The most that brokers carried in the last seven days; a capacity may be a percentage of it."""

from __future__ import annotations

import numpy as np

from twin.cluster_rules.load_after_loss import BrokerLoads, highest_of
from twin.declarations.declare import rule
from twin.declarations.signature import Before, Cycle
from twin.declarations.table import Array, Float64, Int64
from twin.rules.load.peaks import CarriedPeaks


@rule
def carried_peaks(before: Before[CarriedPeaks], loads: BrokerLoads, cycle: Cycle) -> CarriedPeaks:
    """By what brokers measure themselves, else by the known rates of their partitions."""
    asks = loads.capacity_peak_percent > 0
    if not asks.any():
        return CarriedPeaks.empty()
    broker, at = np.unique(loads.broker[asks], return_inverse=True)
    size = len(broker)
    into = _carried(loads.bytes_in[asks], loads.measured_bytes_in_per_s[asks], at, size)
    out = _carried(loads.bytes_out[asks], loads.measured_bytes_out_per_s[asks], at, size)
    return before.after(cycle.observed_at_ms, broker, into, out)


def _carried(known: Int64, measured: Float64, at: Array, size: int) -> Float64:
    """[B] bytes a second; ``at``: [K] the broker of each row."""
    by_broker = highest_of(measured, at, size)
    return np.where(np.isnan(by_broker), np.bincount(at, known, size), by_broker)
