"""What survivors would carry, by the rates that brokers measure where they measure them.

The twin knows the shares of partitions: rates of log ends times sizes of records, and of committed
offsets. A broker measures sums. Where it does, the shares are scaled so that they add up to its
own number; what a broker measures and the twin has no share of is spread over what it leads. A sum
that is measured is known although shares of it are not, but what moves of it is not.

``bytes_in_per_s`` and ``bytes_out_per_s`` are Kafka's BytesInPerSec and BytesOutPerSec: from
producers and to consumers. Replication is apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from twin.declarations.table import Array, Bool, Float64, Int32
from twin.rules.load.amounts import (
    IN,
    LEADERS,
    OUT,
    QUANTITIES,
    REPLICATION_IN,
    REPLICATION_OUT,
    Amounts,
)
from twin.rules.load.shifts import Shifts
from twin.tables.state import BrokerMetrics

MEASURED_BY: Final = {
    IN: "bytes_in_per_s",
    REPLICATION_IN: "replication_bytes_in_per_s",
    REPLICATION_OUT: "replication_bytes_out_per_s",
    OUT: "bytes_out_per_s",
}
"""The columns of broker metrics."""

_SPREAD_BY: Final = {
    IN: (LEADERS,),
    REPLICATION_OUT: (IN, LEADERS),
    OUT: (IN, LEADERS),
}
"""What is measured and has no share goes with the first of these that a broker has."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadForecast:
    """What brokers carry now [Q, B], and after each of K losses [Q, K, B].

    What the lost brokers themselves have in ``then`` means nothing.
    """

    now: Amounts
    then: Amounts
    is_measured: Bool  # [Q, B]


def measured(metrics: BrokerMetrics, broker: Int32, now_ms: int) -> Float64:
    """[Q, B] what those brokers measure; NaN where they do not, or not lately."""
    values = np.full((len(QUANTITIES), len(broker)), np.nan)
    for quantity, name in MEASURED_BY.items():
        values[quantity] = metrics.of_brokers(broker, name, now_ms)
    return values


def in_turn(now: Amounts, shifts: Shifts, by_brokers: Float64) -> LoadForecast:
    """The forecast for the loss of each broker: K is B.

    Args:
        now: [Q, B] by the twin's own rates.
        shifts: [Q, B, B] by lost broker and survivor.
        by_brokers: [Q, B] what brokers measure, NaN where they do not.
    """
    return _forecast(now, by_brokers, _changes(now, shifts, by_brokers))


def at_once(now: Amounts, shifts: Shifts, by_brokers: Float64) -> LoadForecast:
    """The forecast for the loss of all brokers at once whose shifts these are: K is 1."""
    each = _changes(now, shifts, by_brokers)
    total = Amounts(*(part.sum(axis=1, keepdims=True) for part in (each.known, each.unknown)))
    return _forecast(now, by_brokers, total)


def _changes(now: Amounts, shifts: Shifts, by_brokers: Float64) -> Amounts:
    """[Q, B, B] how much more survivors carry, by lost broker."""
    is_measured = ~np.isnan(by_brokers)
    has_shares = is_measured & (now.known > 0)
    scale = np.ones(by_brokers.shape)
    scale[has_shares] = by_brokers[has_shares] / now.known[has_shares]
    gained = shifts.gained.known * scale[:, :, None]
    for quantity, others in _SPREAD_BY.items():
        _spread(gained[quantity], quantity, others, now, shifts, by_brokers)
    known = gained - shifts.dropped.known * scale[:, None]
    moved, left = shifts.gained.unknown, shifts.dropped.unknown
    # What is measured is known as a whole: of what leaves it, an unknown share makes it unknown.
    return Amounts(known, np.where(is_measured[:, None], moved + left, moved - left))


def _forecast(now: Amounts, by_brokers: Float64, change: Amounts) -> LoadForecast:
    is_measured = ~np.isnan(by_brokers)
    known = np.where(is_measured, by_brokers, now.known)
    unknown = np.where(is_measured, 0, now.unknown)
    then = Amounts(
        np.maximum(known[:, None] + change.known, 0.0), unknown[:, None] + change.unknown
    )
    return LoadForecast(Amounts(known, unknown), then, is_measured)


def exceeds(forecast: LoadForecast, capacity: Float64) -> tuple[Bool, Bool]:
    """[Q, K, B], [Q, K, B] a survivor would get more than its capacity; it may, but it is unknown.

    A broker that carries more than its capacity whatever is lost is not meant: its load must grow.
    """
    then, now = forecast.then, forecast.now.known[:, None]
    limit = capacity[:, None]
    with np.errstate(invalid="ignore"):
        above = (then.known > limit) & (then.known > now)
    return above, ~above & (then.unknown > 0) & ~np.isnan(limit)


def _spread(
    gained: Float64, quantity: int, others: tuple[int, ...], now: Amounts, shifts: Shifts,
    by_brokers: Float64,
) -> None:  # fmt: skip
    """Add to ``gained`` what lost brokers measure of a quantity that is known of no partition.

    It is divided as the first of the ``others`` that is known: in proportion to what each broker
    takes over of that one.
    """
    left: Array = (by_brokers[quantity] > 0) & (now.known[quantity] == 0)
    left &= now.unknown[quantity] == 0
    for other in others:
        has = np.flatnonzero(left & (now.known[other] > 0))
        part = by_brokers[quantity, has] / now.known[other, has]
        gained[has] = shifts.gained.known[other, has] * part[:, None]
        left[has] = False
