"""Remote storage that takes no uploads, and which disk is full first by that.

While it is away for all brokers, what the forecast says of an outage is what happens. If only some
brokers cannot upload, the others' logs go on as they are, and so does the forecast as it is.
"""

from __future__ import annotations

import numpy as np

from streaming.bus.view import ClusterView
from streaming.runtime.quantities import duration_text, utc_text
from twin.arrays.plain import enumerated
from twin.cluster_rules.disks.disk_full import MUCH, DiskForecasts
from twin.cluster_rules.remote_storage import RemoteStorage
from twin.declarations.table import UNKNOWN
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.shard_state import ShardState


def of_remote_storage(view: ClusterView) -> str:
    """One or two sentences with a space behind them; nothing while that is no open risk."""
    if view.cluster is None or not view.cluster[ClusterRisks].brokers("remote_storage_failing"):
        return ""
    storage = view.cluster[RemoteStorage]
    since_ms = storage.failing_since_ms()
    if since_ms == UNKNOWN:  # uploads have just begun again
        return ""
    failing = storage.failing()
    is_for_all = not (storage.uploaded_at_ms > since_ms).any()
    of_whom = "" if is_for_all else f" of {_named(storage.broker[failing].tolist())}"
    others = {"reads from it": storage.reads_fail, "deletions": storage.deletions_fail}
    failing_too = [name for name, fails in others.items() if (fails == 1).any()]
    more = f", and {enumerated(failing_too)} fail" if failing_too else ""
    said = f"Remote storage takes no uploads{of_whom} since {utc_text(since_ms)}{more}. "
    return said + _first_full(view.cluster, is_for_all=is_for_all)


def _named(brokers: list[int]) -> str:
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {enumerated(brokers)}"


def _first_full(state: ShardState, *, is_for_all: bool) -> str:
    """The disk that is full first, with both bounds where they differ by much."""
    forecasts = state[DiskForecasts]
    bounds_ms = (
        (forecasts.full_if_away_ms, forecasts.full_if_away_ms)
        if is_for_all
        else (forecasts.full_at_earliest_ms, forecasts.full_at_latest_ms)
    )
    in_sight = forecasts.is_current & np.isfinite(bounds_ms[0])
    if not in_sight.any():
        return ""
    broker = forecasts.broker[in_sight]
    after_s = (np.stack(bounds_ms)[:, in_sight] - state.observed_at_ms).clip(min=0) / 1_000
    earliest_s, latest_s = after_s
    first = np.lexsort((earliest_s, np.nan_to_num(latest_s, nan=np.inf, posinf=np.inf)))[0]
    who, soon, late = int(broker[first]), float(earliest_s[first]), float(latest_s[first])
    if not np.isfinite(late):
        return f"Broker {who} may be full in {duration_text(soon)}. "
    if late - soon <= MUCH * late:
        return f"Broker {who} is full in {duration_text(soon)}. "
    return f"Broker {who} is full in {duration_text(soon)} to {duration_text(late)}. "
