"""A cluster by hand whose logs grow, for hours, cycle by cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.builders import NOW_MS, Log, Partition, configs_frame
from tests.cycles import cycle_frames
from tests.log_dir_frames import Directory, log_dirs_frame
from twin.builtin import CATALOG
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.step import step

HOUR_S = 3_600
MINUTES = [0, 10, *range(60, 2_400, 180)]
"""More than half an hour, and a cycle more at first: rates need two."""

MB = 1_000_000
GB = 1_000 * MB
RECORD = 1_000  # bytes of a record
PLAIN = {
    "remote_storage": 0, "retention_ms": -1, "retention_bytes": -1, "segment_ms": 604_800_000,
    "segment_bytes": 100 * MB, "compacted": 0,
}  # fmt: skip
TIERED = PLAIN | {
    "remote_storage": 1, "copies_disabled": 0, "upload_delay_ms": 0, "upload_delay_bytes": 0,
    "local_retention_bytes": -1, "local_retention_ms": -1,
}  # fmt: skip


def volumes(
    free_gb: float, *, beside_mb_per_s: float = 0.0
) -> Callable[[float, Sequence[Partition]], list[Directory]]:
    """A volume a broker with so much free at first; what is no log grows as well."""
    at_first: dict[int, int] = {}

    def of(after_s: float, parts: Sequence[Partition]) -> list[Directory]:
        found = []
        for broker in (1, 2):
            logs = sum(p.log.size_bytes for p in parts if broker in p.replicas)
            first = at_first.setdefault(broker, logs)
            other = round(beside_mb_per_s * MB * after_s)
            free = max(round(free_gb * GB) - (logs - first) - other, 0)
            found.append(Directory(broker, 0, 500 * GB, free, replicas=logs))
        return found

    return of


@dataclass(frozen=True)
class Growing:
    """A partition that has grown at a constant rate since ``age_s`` before the first cycle."""

    topic: str = "t"
    mb_per_s: float = 1.0
    age_s: float = HOUR_S
    keeps_s: float = float("inf")
    replicas: tuple[int, ...] = (1, 2)
    uploaded_until_s: float | None = None  # after the first cycle; None: all the time

    def at(self, after_s: float, *, is_tiered: bool = False) -> Partition:
        """The partition so many seconds after the first cycle."""
        span_s = min(self.age_s + after_s, self.keeps_s)
        per_s = self.mb_per_s * MB / RECORD
        end = round((self.age_s + after_s) * per_s)
        size, start = round(span_s * per_s) * RECORD, end - round(span_s * per_s)
        until_s = after_s if self.uploaded_until_s is None else min(after_s, self.uploaded_until_s)
        tiered = round((self.age_s + until_s) * per_s) - 1
        at_ms = NOW_MS + round(1_000 * after_s)
        log = Log(
            end=end, local_start=start, size_bytes=size, started_ms=at_ms - round(1_000 * span_s),
            last_tiered=tiered if is_tiered else -1,
        )  # fmt: skip
        return Partition(self.topic, 0, self.replicas, log=log)


def cycles(
    parts: Sequence[Growing],
    disks: Callable[[float, Sequence[Partition]], Sequence[Directory]],
    configs: dict[str, dict[str, int]],
    seconds: Sequence[float],
) -> Iterator[tuple[list[Frame], int]]:
    """The frames of cycles at those seconds."""
    for after_s in seconds:
        at_ms = NOW_MS + round(1_000 * after_s)
        tiered = {name for name, own in configs.items() if own["remote_storage"] == 1}
        now = [part.at(after_s, is_tiered=part.topic in tiered) for part in parts]
        yield (
            [
                *cycle_frames(now, at_ms),
                configs_frame(configs, at_ms),
                log_dirs_frame(disks(after_s, now), at_ms),
            ],
            at_ms,
        )


def one_shard(of_cycles: Iterable[tuple[list[Frame], int]]) -> tuple[ShardState, ShardState]:
    """The only shard after those cycles, and the cluster's own."""
    state, own = ShardState.empty(CATALOG, "c", 0, 1), empty_cluster(CATALOG, "c", 1)
    for frames, at_ms in of_cycles:
        state, _ = step(state, frames, at_ms)
        own, _ = step_cluster(own, reports(state))
    return state, own


def hours(ms: float, state: ShardState) -> float:
    """From the newest cycle until then."""
    return (ms - state.observed_at_ms) / HOUR_S / 1_000


def forecast(state: ShardState, broker: int = 1, number: int = 0) -> dict[str, Any]:
    """A row of the forecasts; times are hours from now."""
    table = state[DiskForecasts]
    [row] = ((table.broker == broker) & (table.number == number)).nonzero()[0].tolist()
    return {
        column.name: hours(value, state) if column.name.startswith(("full", "away")) else value
        for column in DiskForecasts.columns
        for value in [getattr(table, column.name)[row]]
    }


def open_risks(state: ShardState) -> set[tuple[str, int]]:
    """The open risks of the cluster about disks, with their brokers."""
    names = ("disk_full_soon", "disk_fills", "log_dir_failed")
    return {(name, b) for name in names for b in state[ClusterRisks].brokers(name)}
