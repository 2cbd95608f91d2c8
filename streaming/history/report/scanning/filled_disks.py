"""Disks that filled in the span, and remote storage that took no uploads: when it began, who was
warned, and how far the forecasts were off."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from streaming.bus.view import ClusterView
from streaming.history.report.happenings import DISK_FULL, Happening
from streaming.history.report.model import DiskEnd, DiskForetold, FillingDisk, StorageOutage
from streaming.history.report.scanning.measures import brokers_away
from twin.cluster_rules.disks.dir_contents import ReportedLogDirs
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.cluster_rules.remote_storage import RemoteStorage
from twin.declarations.table import UNKNOWN
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.shard_state import ShardState

FULL_WITHIN_MS: Final = 60_000
"""A disk that is full within the time between two listings is not seen full."""

LOST_WITHIN_MS: Final = 300_000
"""A broker that goes while its disk is foretold to be full so soon goes with it."""

_ENDED: Final = {"full": "is full", "failed": "has failed", "broker_lost": "was about to be full"}

_Disk = tuple[int, str]  # broker and directory
_Said = tuple[int, float, float]  # cycle; when it is full at the earliest, and at the latest


@dataclass(slots=True)
class _Filling:
    """A disk from the first cycle on in which it was foretold to be full."""

    began_ms: int
    total_bytes: int
    least_usable_bytes: int
    said: list[_Said] = field(default_factory=list)
    warned_ms: int | None = None
    paged_ms: int | None = None
    end: DiskEnd = "open"
    end_ms: int | None = None


@dataclass(slots=True)
class FillingDisks:
    """Collects them, cycle by cycle."""

    happenings: list[Happening] = field(default_factory=list)
    _found: dict[_Disk, _Filling] = field(default_factory=dict)
    _outages: list[StorageOutage] = field(default_factory=list)

    def step(self, view: ClusterView, at_ms: int) -> None:
        """A cycle of the cluster."""
        own = view.cluster
        if own is None:
            return
        self._note_outage(own, at_ms)
        down, silent = brokers_away(view)
        self._note_near(own, at_ms)
        self._note_ends(own, {*down, *silent}, at_ms)

    def filling(self) -> list[FillingDisk]:
        """In the order in which they began."""
        disks = [self._told(disk, each) for disk, each in self._found.items()]
        return sorted(disks, key=lambda each: (each.began_at_ms, each.broker, each.log_dir))

    def outages(self) -> list[StorageOutage]:
        """In order of time."""
        return self._outages

    def _note_near(self, own: ShardState, at_ms: int) -> None:
        forecasts, risks = own[DiskForecasts], own[ClusterRisks]
        near = forecasts.is_current & forecasts.is_near(forecasts.warn_before_ms, at_ms)
        warned, paged = (risks.brokers(name) or [] for name in ("disk_fills", "disk_full_soon"))
        for i in np.flatnonzero(near).tolist():
            disk, free = _place(forecasts, i), int(forecasts.usable_bytes[i])
            each = self._found.get(disk)
            if each is None or each.end == "freed":
                each = _Filling(at_ms, int(forecasts.total_bytes[i]), free)
                self._found[disk] = each
            if each.end != "open":
                continue
            each.least_usable_bytes = min(each.least_usable_bytes, free)
            each.said.append((
                at_ms, float(forecasts.full_at_earliest_ms[i]),
                float(forecasts.full_at_latest_ms[i]),
            ))  # fmt: skip
            if each.paged_ms is None and disk[0] in paged:
                each.paged_ms = at_ms
            if each.warned_ms is None and disk[0] in [*warned, *paged]:
                each.warned_ms = at_ms

    def _note_ends(self, own: ShardState, away: set[int], at_ms: int) -> None:
        """Full, failed, lost with its broker, or near no longer."""
        forecasts, dirs = own[DiskForecasts], own[ReportedLogDirs]
        failed = {_place(dirs, i) for i in np.flatnonzero(dirs.error_code > 0).tolist()}
        rows = {_place(forecasts, i): i for i in range(len(forecasts.broker))}
        near = forecasts.is_near(forecasts.warn_before_ms, at_ms)
        for disk, each in self._found.items():
            if each.end in ("failed", "broker_lost", "freed"):
                continue
            row = rows.get(disk)
            if disk in failed:
                self._end(disk, each, "failed", at_ms)
            elif disk[0] in away and each.said[-1][1] <= at_ms + LOST_WITHIN_MS:
                self._end(disk, each, "broker_lost", at_ms)
            elif row is None or not forecasts.is_current[row]:
                continue
            elif _is_full(forecasts, row, at_ms):
                self._end(disk, each, "full", at_ms)
            elif not near[row]:
                each.end, each.end_ms = "freed", at_ms

    def _end(self, disk: _Disk, each: _Filling, end: DiskEnd, at_ms: int) -> None:
        """The first end counts: a full disk fails, and its broker is lost."""
        if each.end == "open":
            broker, path = disk
            text = f"the disk of broker {broker} at {path} {_ENDED[end]}"
            self.happenings.append(Happening(DISK_FULL, at_ms, text, broker=broker))
            each.end_ms = at_ms
        each.end = end

    def _told(self, disk: _Disk, each: _Filling) -> FillingDisk:
        is_full = each.end in ("full", "failed", "broker_lost")
        full_ms = each.end_ms if is_full else None
        begin_ms, last_ms = each.said[0][0], each.said[-1][0]
        wanted = {
            "began": begin_ms,
            "warned": each.warned_ms,
            "paged": each.paged_ms,
            "half_way": (begin_ms + (full_ms or last_ms)) // 2,
        }
        foretold = []
        for when, at_ms in wanted.items():
            if at_ms is not None:
                said = next((row for row in reversed(each.said) if row[0] <= at_ms), each.said[0])
                foretold.append(_foretold(when, said, full_ms))
        return FillingDisk(
            broker=disk[0],
            log_dir=disk[1],
            total_bytes=each.total_bytes,
            least_usable_bytes=each.least_usable_bytes,
            began_at_ms=each.began_ms,
            warned_at_ms=each.warned_ms,
            paged_at_ms=each.paged_ms,
            end=each.end,
            end_at_ms=each.end_ms,
            foretold=foretold,
        )

    def _note_outage(self, own: ShardState, at_ms: int) -> None:
        storage, risks = own[RemoteStorage], own[ClusterRisks]
        failing = storage.failing()
        goes_on = bool(self._outages) and self._outages[-1].until_ms is None
        if not failing.any():
            if goes_on:
                self._outages[-1] = replace(self._outages[-1], until_ms=at_ms)
            return
        if not goes_on:
            since_ms = storage.failing_since_ms()
            self._outages.append(
                StorageOutage(
                    None if since_ms == UNKNOWN else since_ms, at_ms, None, None, [], 0, 0
                )
            )
        outage = self._outages[-1]
        is_paged = outage.paged_at_ms is None and risks.brokers("remote_storage_failing")
        waiting = round(float(storage.stuck_bytes[failing].sum()))
        self._outages[-1] = replace(
            outage,
            paged_at_ms=at_ms if is_paged else outage.paged_at_ms,
            brokers=sorted({*outage.brokers, *storage.broker[failing].tolist()}),
            most_partitions=max(outage.most_partitions, int(storage.stuck[failing].sum())),
            most_waiting_bytes=max(outage.most_waiting_bytes, waiting),
        )


def _place(table: DiskForecasts | ReportedLogDirs, row: int) -> _Disk:
    return int(table.broker[row]), str(table.log_dir[row])


def _is_full(forecasts: DiskForecasts, row: int, at_ms: int) -> bool:
    soon = forecasts.full_at_latest_ms[row] <= at_ms + FULL_WITHIN_MS
    return bool(soon or forecasts.usable_bytes[row] == 0)


def _time(at_ms: float) -> int | None:
    return round(at_ms) if math.isfinite(at_ms) else None


def _foretold(when: str, said: _Said, full_ms: int | None) -> DiskForetold:
    at_ms, earliest, latest = said
    return DiskForetold(when, at_ms, _time(earliest), _time(latest), _off_s(said, full_ms))


def _off_s(said: _Said, full_ms: int | None) -> float | None:
    """From the nearer bound, below 0 if it was full before both; None if it was not full, or the
    bound was not in sight."""
    _, earliest, latest = said
    if full_ms is None or math.isnan(earliest):
        return None
    off_ms = min(full_ms - earliest, 0.0) + max(full_ms - latest, 0.0)
    return off_ms / 1_000 if math.isfinite(off_ms) else None
