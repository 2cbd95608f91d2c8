"""What brokers measure of themselves, as far as somebody collects it from their JMX exporters."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Final

import numpy as np

from twin.fleet import Array, Fleet, Signals, signals_of, to_numpy
from twin.frames import Frame
from twin.rows import refuse_duplicates
from twin.tables import UNKNOWN

STALE_MS: Final = 60_000
"""A signal older than this says nothing of now: four rounds of the default interval."""


def merge_signals(fleet: Fleet, frame: Frame) -> Fleet:
    """The fleet with the newest measurements of each broker; the same object if none is new.

    Raises:
        FrameRefused: ``rows``, a broker stands twice.
    """
    told = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    refuse_duplicates(told["broker"], "broker")
    new, known = signals_of(told), fleet.signals
    news = new.measured_at_ms > _looked_up(known, new.broker)
    if not news.any():
        return fleet
    stays = ~np.isin(known.broker, new.broker[news])
    columns = {
        f.name: np.concatenate([getattr(known, f.name)[stays], getattr(new, f.name)[news]])
        for f in fields(Signals)
    }
    order = np.argsort(columns["broker"])
    return replace(fleet, signals=Signals(**{name: v[order] for name, v in columns.items()}))


def of_listed(fleet: Fleet) -> Signals:
    """The signals without those of brokers that the cluster does not list any more."""
    signals = fleet.signals
    listed = np.isin(signals.broker, fleet.brokers.broker)
    if listed.all() or not len(fleet.brokers.broker):
        return signals
    return Signals(*(getattr(signals, f.name)[listed] for f in fields(Signals)))


def fresh(fleet: Fleet, name: str, now_ms: int) -> Array:
    """[B] a signal of each listed broker; NaN where it is absent or stale."""
    signals, brokers = fleet.signals, fleet.brokers.broker
    value = np.full(len(brokers), np.nan)
    _, here, there = np.intersect1d(brokers, signals.broker, return_indices=True)
    recent = now_ms - signals.measured_at_ms[there] <= STALE_MS
    value[here] = np.where(recent, signals.of(name)[there], np.nan)
    return value


def _looked_up(known: Signals, broker: Array) -> Array:
    """[N] when each broker was measured last, UNKNOWN for never."""
    at_ms = np.full(len(broker), UNKNOWN, np.int64)
    _, here, there = np.intersect1d(broker, known.broker, return_indices=True)
    at_ms[here] = known.measured_at_ms[there]
    return at_ms
