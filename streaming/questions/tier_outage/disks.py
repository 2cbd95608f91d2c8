"""What an outage of remote storage does to the disks of each broker, and how uploads catch up."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypedDict

import numpy as np

from streaming.questions.tier_outage.times import Forecast, forecast_of, seconds_of
from twin.cluster_rules.disks.dir_contents import LogDirUse, ReportedLogDirs, is_volume
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.cluster_rules.disks.volume_curves import ReportedDiskCurves, VolumeCurves
from twin.cluster_rules.remote_storage import RemoteStorage
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.questions.tier_outage import Exposure

_NO_QUOTA: float = 1e15
"""Bytes a second: nobody has such a network, so a quota above it is none."""

_FASTER: float = 1.2
"""Times what is written, from which on an upload rate that was measured is one of catching up."""

CatchUp = Literal["after", "never", "unknown", "nothing_to_upload"]
UploadRate = Literal["given", "measured", "quota", "unknown"]


class DisksInOutage(TypedDict):
    """The disks of a broker during the outage."""

    log_dir: str | None
    forecast: Forecast
    full_after_s: float | None
    missing_bytes: int | None
    uploaded_bytes: int | None
    kept_bytes: int | None


class BrokerOutage(DisksInOutage):
    """A broker during the outage.

    ``forecast``: its first disk is full after ``full_after_s`` at the earliest, or that is not in
    sight, or unknown. ``missing_bytes``: what its disks lack for the whole outage, at the
    most. ``uploaded_bytes``: what is in remote storage and kept on its disks as well, so that less
    local retention would free it. ``kept_bytes``: what retention would have deleted meanwhile.
    ``catch_up_after_s``: from the end of the outage until its uploads have caught up, at
    ``upload_bytes_per_s``: what was given, else the most that it was seen to upload where that is
    more than it writes, else its quota. ``more_bytes_per_s``: what it uploads meanwhile beside what
    is written, so what it reads from its disks and sends more than before.
    """

    broker: int
    waiting_bytes: int
    written_bytes_per_s: int
    catch_up: CatchUp
    catch_up_after_s: float | None
    upload_bytes_per_s: int | None
    upload_rate: UploadRate
    more_bytes_per_s: int | None


def brokers_in_outage(
    own: ShardState | None,
    exposed: Exposure,
    quotas: Mapping[int, int],
    lost: Collection[int],
    for_ms: int,
    given_bytes_per_s: int,
) -> list[BrokerOutage]:
    """The brokers that are left, those whose disks are full first at the front.

    Args:
        own: the cluster's own shard; None if nothing is foretold of disks.
        exposed: of all shards.
        quotas: of uploads, in bytes a second by broker; UNKNOWN where nobody could read it.
        lost: brokers that are lost.
        for_ms: how long the outage lasts.
        given_bytes_per_s: how fast a broker uploads after it; UNKNOWN if nobody said it.
    """
    of_disks = {} if own is None else _by_broker(own, for_ms)
    seen = {} if own is None else _fastest(own)
    brokers = sorted({*of_disks, *exposed.waiting_bytes} - set(lost))
    found = []
    for broker in brokers:
        written = exposed.written_bytes_per_s.get(broker, 0.0)
        rate = upload_rate(
            given_bytes_per_s, seen.get(broker, 0.0), quotas.get(broker, UNKNOWN), written
        )
        found.append(_broker(broker, of_disks.get(broker), exposed, rate, for_ms))
    return sorted(found, key=_first_full)


def _first_full(row: BrokerOutage) -> tuple[float, int]:
    at_s = row["full_after_s"]
    return float("inf") if at_s is None else at_s, row["broker"]


def upload_rate(given: int, seen: float, quota: int, written: float) -> tuple[UploadRate, int]:
    """How fast a broker uploads after the outage, in bytes a second, and who says so."""
    if given != UNKNOWN:
        return "given", given
    has_quota = 0 < quota < _NO_QUOTA
    if seen > _FASTER * written:
        return "measured", round(min(seen, quota) if has_quota else seen)
    return ("quota", quota) if has_quota else ("unknown", UNKNOWN)


def _fastest(own: ShardState) -> dict[int, float]:
    """The most that each broker was seen to upload, in bytes a second."""
    uploads = own[RemoteStorage]
    rows = zip(uploads.broker.tolist(), uploads.fastest_bytes_per_s.tolist(), strict=True)
    return dict(rows)


def _broker(
    broker: int, disks: DisksInOutage | None, exposed: Exposure, upload: tuple[UploadRate, int],
    for_ms: int,
) -> BrokerOutage:  # fmt: skip
    nothing: DisksInOutage = {
        "log_dir": None, "forecast": "unknown", "full_after_s": None, "missing_bytes": None,
        "uploaded_bytes": None, "kept_bytes": None,
    }  # fmt: skip
    waiting = exposed.waiting_bytes.get(broker, 0.0)
    written = exposed.written_bytes_per_s.get(broker, 0.0)
    which, rate = upload
    # As much as now is in open segments then, and waits on.
    behind = waiting - exposed.open_bytes.get(broker, 0.0) + written * for_ms / 1_000
    how: CatchUp = "unknown"
    after_s = None
    if not behind:
        how = "nothing_to_upload"
    elif rate != UNKNOWN:
        how = "after" if rate > written else "never"
        after_s = behind / (rate - written) if rate > written else None
    return {
        "broker": broker,
        **(disks or nothing),
        "waiting_bytes": round(waiting),
        "written_bytes_per_s": round(written),
        "catch_up": how,
        "catch_up_after_s": after_s,
        "upload_bytes_per_s": None if rate == UNKNOWN else rate,
        "upload_rate": which,
        "more_bytes_per_s": round(rate - written) if how == "after" else None,
    }


def _by_broker(own: ShardState, for_ms: int) -> dict[int, DisksInOutage]:
    """What is known of the disks of each broker: of its first that is full, and sums over all."""
    dirs, curves, use = own[ReportedLogDirs], own[ReportedDiskCurves], own[LogDirUse]
    forecasts, now_ms = own[DiskForecasts], own.observed_at_ms
    rows = np.flatnonzero(is_volume(dirs))
    if len(rows) != len(forecasts.broker):  # a shard is late: nothing is foretold meanwhile
        return {}
    volumes, last_s = VolumeCurves(dirs, rows, curves, now_ms), for_ms / 1_000
    taken = volumes.taken_bytes(curves.away_bytes, last_s) + volumes.lacking_bytes()
    kept = volumes.taken_bytes(curves.away_bytes - curves.most_bytes, last_s)
    missing = np.maximum(taken - dirs.usable_bytes[rows], 0)
    # Where nothing is tiered, a disk fills as it does anyway.
    away_ms = forecasts.full_if_away_ms
    at_ms = np.where(np.isnan(away_ms), forecasts.full_at_earliest_ms, away_ms)
    outages: dict[int, DisksInOutage] = {}
    for broker in np.unique(forecasts.broker).tolist():
        mine = np.flatnonzero(forecasts.broker == broker)
        first = mine[np.argmin(np.nan_to_num(at_ms[mine], nan=np.inf))]
        after_s = float(at_ms[first] - now_ms) / 1_000
        is_known = bool(forecasts.is_current[mine].all())
        uploaded = use.tiered_bytes[use.broker == broker]
        outages[broker] = {
            "log_dir": str(forecasts.log_dir[first]),
            "forecast": forecast_of(after_s) if is_known else "unknown",
            "full_after_s": seconds_of(after_s) if is_known else None,
            "missing_bytes": round(float(missing[mine].sum())) if is_known else None,
            "uploaded_bytes": int(uploaded[uploaded != UNKNOWN].sum()),
            "kept_bytes": round(float(np.maximum(kept[mine], 0).sum())) if is_known else None,
        }
    return outages
