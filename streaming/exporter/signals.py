"""What brokers measure themselves, beside what the twin makes of them.

A signal that is absent or stale has no sample: it is never a zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from streaming.bus.view import Picture
from streaming.exporter.plain import number
from twin.fleet import Fleet, Signals
from twin.signals import STALE_MS
from twin.tables import SIGNALS, UNKNOWN

_MS: Final = 1 / 1000

EXPORTED: Final[dict[str, tuple[str, float]]] = {
    "fetch_follower_p99_ms": ("broker_fetch_follower_p99_seconds", _MS),
    "fetch_follower_local_p99_ms": ("broker_fetch_follower_local_p99_seconds", _MS),
    "request_queue_size": ("broker_request_queue_size", 1),
    "remote_copy_lag_bytes": ("broker_remote_copy_lag_bytes", 1),
    "remote_copy_errors_per_s": ("broker_remote_copy_errors_per_second", 1),
    "remote_fetch_requests_per_s": ("broker_remote_fetch_requests_per_second", 1),
    "remote_fetch_bytes_per_s": ("broker_remote_fetch_bytes_per_second", 1),
    "remote_fetch_errors_per_s": ("broker_remote_fetch_errors_per_second", 1),
    "remote_reader_queue_size": ("broker_remote_reader_queue_size", 1),
    "remote_reader_idle_ratio": ("broker_remote_reader_idle_ratio", 1),
    "aux_state_builds_per_s": ("broker_aux_state_builds_per_second", 1),
    "aux_state_errors_per_s": ("broker_aux_state_errors_per_second", 1),
}
"""Signal: metric and scale. The others serve the twin's own rules, and the API."""

Sample = tuple[str, float, Mapping[str, object]]  # metric, value, labels


def samples(picture: Picture, racks: Mapping[int, str]) -> Iterator[Sample]:
    """All samples of brokers' own measurements."""
    fleet = picture.newest
    if fleet is None:
        return
    signals = fleet.signals
    for i, broker in enumerate(signals.broker.tolist()):
        labels = {"broker": broker, "rack": racks.get(broker, "")}
        age_ms = fleet.observed_at_ms - int(signals.measured_at_ms[i])
        yield "broker_metrics_age_seconds", max(age_ms, 0) / 1000, labels
        if age_ms > STALE_MS:
            continue
        for name, (metric, scale) in EXPORTED.items():
            value = float(signals.of(name)[i])
            if not np.isnan(value):
                yield metric, value * scale, labels
        yield from _disagreement(picture, signals, i)
    error_ms = caught_up_error_ms(picture)
    if error_ms is not None:
        yield "caught_up_error_seconds", error_ms / 1000, {}


def caught_up_error_ms(picture: Picture) -> int | None:
    """How far the twin's caught-up times were off at most, of those that leaders' logs stated."""
    errors = [
        np.abs(of.kept_caught_up_at_ms - of.told_caught_up_at_ms)[
            (of.kept_caught_up_at_ms != UNKNOWN) & (of.told_caught_up_at_ms != UNKNOWN)
        ]
        for of in (piece.fleet.departures for piece in picture.pieces)
    ]
    known = np.concatenate([*errors, np.zeros(0, np.int64)])
    return int(known.max()) if len(known) else None


def of_broker(fleet: Fleet, broker: int) -> dict[str, Any] | None:
    """Every signal of one broker as plain data; null is absent."""
    signals = fleet.signals
    at = np.flatnonzero(signals.broker == broker)
    if not len(at):
        return None
    values = {name: number(signals.of(name)[at[0]]) for name in SIGNALS}
    return {"measured_at_ms": int(signals.measured_at_ms[at[0]]), **values}


def _disagreement(picture: Picture, signals: Signals, i: int) -> Iterator[Sample]:
    """The twin's value less the broker's, where both are known."""
    broker = int(signals.broker[i])
    for signal, ours in (("remote_copy_lag_bytes", "upload_lag_bytes"),):
        theirs = float(signals.of(signal)[i])
        if not np.isnan(theirs):
            difference = picture.totals.broker[ours, broker] - theirs
            yield "metric_disagreement", difference, {"broker": broker, "metric": ours}
