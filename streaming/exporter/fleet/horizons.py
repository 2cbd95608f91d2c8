"""When the first disk of a cluster is full, as things are and without remote storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from streaming.exporter.views import disk_full
from streaming.exporter.views.cluster import shards_not_reported
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.engine.shard_state import ShardState

NOTHING_TIERED: Final = "nothing_tiered"


@dataclass(frozen=True, slots=True)
class Horizon:
    """The earliest time at which a disk is full, and a word that says why there is none."""

    forecast: str  # one of disk_full.FORECASTS, or NOTHING_TIERED
    at_ms: int | None = None


def disk_horizon(own: ShardState | None) -> Horizon:
    """The first disk that is full as things are, of the cluster's own shard."""
    return _first([each["earliest"] for each in _volumes(own)])


def tier_horizon(own: ShardState | None) -> Horizon:
    """The first disk that is full if remote storage is away from now on."""
    volumes = _volumes(own)
    away = [each["away"] for each in volumes if each["away"] is not None]
    is_judged = volumes and all(_is_judged(each) for each in volumes)
    return Horizon(NOTHING_TIERED) if is_judged and not away else _first(away)


def _is_judged(volume: disk_full.Foretold) -> bool:
    return bool(volume["earliest"]["forecast"] != disk_full.UNKNOWN_WHEN)


def _volumes(own: ShardState | None) -> Sequence[disk_full.Foretold]:
    """The forecast of each volume; none while a shard has not reported."""
    if own is None or shards_not_reported(own):
        return []
    return disk_full.foretold(own[DiskForecasts], own.observed_at_ms)


def _first(times: Sequence[Any]) -> Horizon:
    """The earliest of them; unknown if there is none, or some other is unknown."""
    known = [each["at_ms"] for each in times if each["forecast"] == disk_full.FULL]
    if known:
        return Horizon(disk_full.FULL, min(known))
    words = {each["forecast"] for each in times}
    is_none = words == {disk_full.NOT_IN_SIGHT}
    return Horizon(disk_full.NOT_IN_SIGHT if is_none else disk_full.UNKNOWN_WHEN)
