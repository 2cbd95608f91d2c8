"""What if: the same rules over a fleet that something was done to.

Each function takes a fleet and returns a table; nothing is changed. Shards are asked one by one and
their answers add up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Configs, Fleet, blank
from twin.rules.balance import balanced, rack_names, racks_of, unreachable
from twin.rules.bootstrap import Bootstrap, bootstrap, cannot_start
from twin.rules.coverage import coverage, held_bytes, span_ms
from twin.rules.election import LossOutcome, NextLeaders, effective_min_isr, leaders_without
from twin.tables import (
    CLUSTER_WIDE,
    FLEET_CONFIGS,
    NO_BROKER,
    NOT_SET,
    UNKNOWN,
    Coverage,
    JoinPath,
    Slot,
)


@dataclass(frozen=True, slots=True)
class Loss:
    """What losing brokers does. [N] rows of the fleet that lose their leader, or end under min ISR.

    ``isr`` counts who stays in sync; ``leaders`` are those after the loss, by both rules.
    """

    row: Array
    leaders: NextLeaders
    isr: Array
    min_isr: Array

    @property
    def offline(self) -> Array:
        """[N] nobody leads it any more."""
        offline: Array = self.leaders.kafka == NO_BROKER
        return offline

    @property
    def under_min_isr(self) -> Array:
        """[N] too few replicas in sync for acks=all."""
        under: Array = self.isr < self.min_isr
        return under


def brokers_in(fleet: Fleet, racks: Collection[str]) -> list[int]:
    """The brokers of those racks."""
    inside = np.isin(fleet.brokers.rack.astype(str), list(racks))
    return [int(broker) for broker in fleet.brokers.broker[inside]]


def lose(fleet: Fleet, brokers: Collection[int]) -> Loss:
    """Fence those brokers at once."""
    lost = np.isin(fleet.broker, list(brokers)) & fleet.present
    described = fleet.described_at_ms != UNKNOWN
    in_isr = fleet.marked(Slot.IN_ISR) & fleet.present
    isr, least = (in_isr & ~lost).sum(axis=1), effective_min_isr(fleet)
    falls_short = (isr < least) & ((in_isr & lost).any(axis=1))
    row = np.flatnonzero(described & ((lost & fleet.leads).any(axis=1) | falls_short))
    leaders = leaders_without(fleet, lost)
    return Loss(
        row=row,
        leaders=NextLeaders(*(getattr(leaders, f.name)[row] for f in fields(NextLeaders))),
        isr=isr[row],
        min_isr=least[row],
    )


@dataclass(frozen=True, slots=True)
class Eligibility:
    """How a threshold divides the replicas, and what it does to leaders once they are balanced."""

    local_log_ms: int
    local_log_bytes: int
    thin_replicas: int
    thin_leaders: int
    next_leaders_thin: int
    moved_leaders: int  # others lead than by Kafka's rule
    unreachable_partitions: int
    leaders_by_rack: tuple[tuple[str, int], ...]

    @property
    def rack_skew(self) -> float:
        """Leaders of the rack with the most over the mean, NaN without leaders in racks."""
        counts = [count for _, count in self.leaders_by_rack]
        return max(counts) * len(counts) / sum(counts) if sum(counts) else float("nan")

    def __add__(self, other: Eligibility) -> Eligibility:
        racks = dict(self.leaders_by_rack)
        for rack, count in other.leaders_by_rack:
            racks[rack] = racks.get(rack, 0) + count
        counts = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("thin_replicas", "thin_leaders", "next_leaders_thin", "moved_leaders",
                         "unreachable_partitions")
        }  # fmt: skip
        return replace(self, leaders_by_rack=tuple(sorted(racks.items())), **counts)


def with_threshold(fleet: Fleet, local_log_ms: int, local_log_bytes: int, now_ms: int) -> Fleet:
    """The fleet with these thresholds for every topic (-1: off), judged anew."""
    configs = fleet.configs
    if CLUSTER_WIDE not in configs.topic:
        configs = _with_cluster_row(configs)
    everywhere = configs.topic == CLUSTER_WIDE
    changed = replace(
        configs,
        eligible_local_log_ms=np.where(everywhere, local_log_ms, NOT_SET),
        eligible_local_log_bytes=np.where(everywhere, local_log_bytes, NOT_SET),
    )
    fleet = replace(fleet, configs=changed)
    return replace(fleet, coverage=coverage(fleet, now_ms))


def eligibility(fleet: Fleet, local_log_ms: int, local_log_bytes: int, now_ms: int) -> Eligibility:
    """What these thresholds would do."""
    changed = with_threshold(fleet, local_log_ms, local_log_bytes, now_ms)
    thin = (changed.coverage == Coverage.THIN) & changed.present
    leaders = balanced(changed)
    lost = leaders_without(changed, changed.leads)
    names, racks = rack_names(changed), racks_of(changed, leaders.kip1303)
    counts = np.bincount(racks[racks != UNKNOWN], minlength=len(names))
    return Eligibility(
        local_log_ms=local_log_ms,
        local_log_bytes=local_log_bytes,
        thin_replicas=int(thin.sum()),
        thin_leaders=int((thin & changed.leads).sum()),
        next_leaders_thin=int((lost.kafka_outcome == LossOutcome.CLEAN_THIN).sum()),
        moved_leaders=int((leaders.kafka != leaders.kip1303).sum()),
        unreachable_partitions=int(unreachable(changed).sum()),
        leaders_by_rack=tuple(zip(names, counts.tolist(), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class Rejoin:
    """What an empty broker would copy, with the feature on and off. Unknown sizes are counted."""

    partitions: int
    cannot_start: int  # with the feature on
    unknown: int
    records_on: int
    records_off: int
    bytes_on: float
    bytes_off: float
    paths: tuple[tuple[str, int], ...]

    def __add__(self, other: Rejoin) -> Rejoin:
        paths = dict(self.paths)
        for path, count in other.paths:
            paths[path] = paths.get(path, 0) + count
        sums = {
            f.name: getattr(self, f.name) + getattr(other, f.name)
            for f in fields(Rejoin) if f.name != "paths"
        }  # fmt: skip
        return Rejoin(**sums, paths=tuple(sorted(paths.items())))


def rejoin(fleet: Fleet, broker: int) -> Rejoin:
    """If that broker came back empty: what it would copy of the partitions it is assigned to."""
    held = ((fleet.broker == broker) & fleet.present).any(axis=1)
    # What it leads itself is led by another by then, whose log is taken to be like its own.
    rows = np.flatnonzero(held & (fleet.leader != NO_BROKER))
    on, off = (_picked(bootstrap(fleet, feature), rows) for feature in (True, False))
    paths = {path: int(count) for path, count in zip(*np.unique(on.path, return_counts=True),
                                                     strict=True)}  # fmt: skip
    return Rejoin(
        partitions=len(rows),
        cannot_start=int(cannot_start(on.path).sum()),
        unknown=int((on.path == UNKNOWN).sum()),
        records_on=int(on.records[on.records > 0].sum()),
        records_off=int(off.records[off.records > 0].sum()),
        bytes_on=float(np.nansum(on.bytes)),
        bytes_off=float(np.nansum(off.bytes)),
        paths=tuple((_path_name(path), count) for path, count in sorted(paths.items())),
    )


@dataclass(frozen=True, slots=True)
class Retention:
    """What another local retention would leave on disk, and who would be thin by it."""

    replicas: int
    thin_before: int
    thin_after: int
    bytes_before: int
    bytes_after: int  # an estimate: a log is as dense everywhere

    def __add__(self, other: Retention) -> Retention:
        return Retention(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(Retention))
        )


def retain(fleet: Fleet, local_ms: int, local_bytes: int, now_ms: int) -> Retention:
    """Tiered topics keep no more than this on disk (UNKNOWN: as now). Nothing grows back."""
    tiered = (fleet.topic_setting("remote_storage") == 1)[:, None] & fleet.present
    span, held = span_ms(fleet, now_ms), held_bytes(fleet)
    share = np.ones(span.shape)
    if local_ms != UNKNOWN:
        too_old = tiered & (span > local_ms)
        share = np.where(too_old, local_ms / np.maximum(span, 1), share)
    if local_bytes != UNKNOWN:
        too_large = tiered & (held > local_bytes)
        share = np.minimum(share, np.where(too_large, local_bytes / np.maximum(held, 1), 1.0))
    after = replace(
        fleet,
        local_log_bytes=np.where(held == UNKNOWN, UNKNOWN, np.floor(held * share).astype(np.int64)),
        local_start_timestamp_ms=np.where(
            span == UNKNOWN, UNKNOWN, now_ms - np.floor(span * share).astype(np.int64)
        ),
    )
    before_thin = tiered & (fleet.coverage == Coverage.THIN)
    known = tiered & (held != UNKNOWN)
    return Retention(
        replicas=int(tiered.sum()),
        thin_before=int(before_thin.sum()),
        thin_after=int((tiered & (coverage(after, now_ms) == Coverage.THIN)).sum()),
        bytes_before=int(held[known].sum()),
        bytes_after=int(after.local_log_bytes[known].sum()),
    )


def _picked(found: Bootstrap, rows: NDArray[np.intp]) -> Bootstrap:
    return Bootstrap(*(getattr(found, f.name)[rows] for f in fields(Bootstrap)))


def _path_name(path: int) -> str:
    return "unknown" if path == UNKNOWN else JoinPath(path).name.lower()


def _with_cluster_row(configs: Configs) -> Configs:
    """With a row of the cluster-wide values, of which nobody has told."""
    columns = {}
    for column in FLEET_CONFIGS.columns:
        first = blank(column, 1)
        if column.name == "topic":
            first[:] = CLUSTER_WIDE
        columns[column.name] = np.concatenate([first, getattr(configs, column.name)])
    return Configs(**columns)
