"""The capacity of each broker in bytes a second: as configured, or by its peak of seven days."""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.table import Float64, Int32
from twin.rules.load.amounts import IN, OUT, QUANTITIES
from twin.rules.load.peaks import CarriedPeaks
from twin.tables.state import Brokers

_SET: Final = {IN: "capacity_bytes_in_per_s", OUT: "capacity_bytes_out_per_s"}
"""Columns of brokers: what the configuration says that each can carry."""

_PERCENT: Final = "capacity_peak_percent"


def is_limited(brokers: Brokers) -> bool:
    """A capacity is set for some broker, or follows from what it carried."""
    columns = (*_SET.values(), _PERCENT)
    return any(bool((getattr(brokers, name) > 0).any()) for name in columns)


def set_capacities(brokers: Brokers, broker: Int32) -> Float64:
    """[Q, B] the bytes a second that are set for those brokers; NaN where none are."""
    values = np.full((len(QUANTITIES), len(broker)), np.nan)
    for quantity, name in _SET.items():
        values[quantity] = _configured(brokers, broker, name)
    return values


def peak_percents(brokers: Brokers, broker: Int32) -> Float64:
    """[B] the percentage of its peak that is the capacity of each; NaN where none is set."""
    return _configured(brokers, broker, _PERCENT)


def _configured(brokers: Brokers, broker: Int32, name: str) -> Float64:
    """[B] a column of those brokers; NaN where nothing is set."""
    values = np.full(len(broker), np.nan)
    _, here, configured = np.intersect1d(broker, brokers.broker, return_indices=True)
    own = getattr(brokers, name)[configured]
    values[here] = np.where(own > 0, own, np.nan)
    return values


def with_peaks(
    capacity: Float64, percent: Float64, peaks: CarriedPeaks, broker: Int32, now_ms: int
) -> Float64:
    """[Q, B] capacities; where no bytes are set, that percentage of a broker's peak.

    Args:
        capacity: [Q, B] what is set, NaN where nothing is.
        percent: [B] of its peak, NaN where none is set.
        peaks: of the last days.
        broker: [B] ids, ascending.
        now_ms: a broker observed for less than a day by then has no peak.
    """
    values = capacity.copy()
    for quantity, most in zip((IN, OUT), peaks.highest(broker, now_ms), strict=True):
        by_peak = np.where(most > 0, most * percent / 100, np.nan)
        values[quantity] = np.where(np.isnan(values[quantity]), by_peak, values[quantity])
    return values


def capacities(brokers: Brokers, broker: Int32, peaks: CarriedPeaks, now_ms: int) -> Float64:
    """[Q, B] the capacity of those brokers; NaN where none is known."""
    percent = peak_percents(brokers, broker)
    return with_peaks(set_capacities(brokers, broker), percent, peaks, broker, now_ms)
