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
from twin.rules.election import (
    LossOutcome,
    NextLeaders,
    acceptable,
    effective_min_isr,
    leaders_without,
)
from twin.rules.growth import bytes_per_record
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

    ``isr`` is its size once leaders are elected; ``leaders`` are those by both rules.
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
    """Fence those brokers at once.

    Who cannot lead as it is counts as lost as well: the controller takes it out of the ISR when it
    fences it, which a listing made earlier does not show yet. So losing more is never safer.
    """
    named = np.isin(fleet.broker, list(brokers)) & fleet.present
    lost = named | (fleet.present & ~acceptable(fleet))
    described = fleet.described_at_ms != UNKNOWN
    in_isr = fleet.marked(Slot.IN_ISR) & fleet.present
    leaders = leaders_without(fleet, lost)
    # A leader from outside the ISR becomes the ISR (PartitionChangeBuilder.tryElection).
    isr = np.maximum((in_isr & ~lost).sum(axis=1), leaders.kafka != NO_BROKER)
    least = effective_min_isr(fleet)
    falls_short = (isr < least) & ((in_isr & named).any(axis=1))
    row = np.flatnonzero(described & ((named & fleet.leads).any(axis=1) | falls_short))
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
    configs = _with_cluster_row(fleet.configs)
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
    without_source: int  # nobody else can lead them: there is nothing to copy from
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


def held_by(fleet: Fleet, broker: int) -> NDArray[np.intp]:
    """[N] rows of the partitions that are assigned to the broker."""
    return np.flatnonzero(((fleet.broker == broker) & fleet.present).any(axis=1))


def fair_share(fleet: Fleet, brokers: int) -> NDArray[np.intp]:
    """[N] rows of which one more broker beside so many would take over a replica.

    Every (brokers + 1)th replica, so the load of all topics is met evenly. There are no more
    replicas of a partition than brokers, so no partition is met twice.
    """
    replicas = np.repeat(np.arange(len(fleet)), fleet.assigned)
    return replicas[brokers :: brokers + 1]


def rejoin(fleet: Fleet, broker: int, rows: NDArray[np.intp]) -> Rejoin:
    """If that broker, empty, were to hold those partitions: what it would copy.

    What it leads is led by another by then, whom Kafka's rule elects.
    """
    lost = (fleet.broker == broker) & fleet.present
    led = replace(fleet, leader=leaders_without(fleet, lost).kafka)
    has_source = led.leader[rows] != NO_BROKER
    on, off = (_picked(bootstrap(led, feature), rows[has_source]) for feature in (True, False))
    paths, counts = np.unique(on.path, return_counts=True)
    return Rejoin(
        partitions=len(rows),
        without_source=int((~has_source).sum()),
        cannot_start=int(cannot_start(on.path).sum()),
        unknown=int((on.path == UNKNOWN).sum()),
        records_on=int(on.records[on.records > 0].sum()),
        records_off=int(off.records[off.records > 0].sum()),
        bytes_on=float(np.nansum(on.bytes)),
        bytes_off=float(np.nansum(off.bytes)),
        paths=tuple(zip(map(_path_name, paths.tolist()), counts.tolist(), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """What local retention leaves on the disks of tiered topics, and who is thin by it."""

    replicas: int
    thin: int
    thin_for_good: int  # retention deletes before a threshold is reached
    bytes: int
    # What a local log can come to span: that of the busiest partition, and of the calmest.
    shortest_span_ms: float
    longest_span_ms: float

    def __add__(self, other: Kept) -> Kept:
        return Kept(
            replicas=self.replicas + other.replicas,
            thin=self.thin + other.thin,
            thin_for_good=self.thin_for_good + other.thin_for_good,
            bytes=self.bytes + other.bytes,
            shortest_span_ms=float(np.fmin(self.shortest_span_ms, other.shortest_span_ms)),
            longest_span_ms=float(np.fmax(self.longest_span_ms, other.longest_span_ms)),
        )


def kept(fleet: Fleet) -> Kept:
    """What is kept of tiered topics as the fleet stands. Sizes leave out what nobody told."""
    tiered = fleet.topic_setting("remote_storage") == 1
    replicas = tiered[:, None] & fleet.present
    thin = replicas & (fleet.coverage == Coverage.THIN)
    held, spans = held_bytes(fleet), longest_span_ms(fleet)[tiered]
    return Kept(
        replicas=int(replicas.sum()),
        thin=int(thin.sum()),
        thin_for_good=int((thin & unreachable(fleet)[:, None]).sum()),
        bytes=int(held[replicas & (held != UNKNOWN)].sum()),
        shortest_span_ms=float(np.fmin.reduce(spans, initial=np.nan)),
        longest_span_ms=float(np.fmax.reduce(spans, initial=np.nan)),
    )


def longest_span_ms(fleet: Fleet) -> NDArray[np.float64]:
    """[P] what a local log can come to span: by time, or as fast as its bytes are written.

    Infinite without a known limit; NaN where only bytes limit it and nobody knows how it grows.
    """
    kept_ms = fleet.topic_setting("local_retention_ms").astype(np.float64)
    kept_bytes = fleet.topic_setting("local_retention_bytes").astype(np.float64)
    rate = np.where(fleet.appended_per_s == UNKNOWN, np.nan, fleet.appended_per_s)
    bytes_per_ms = np.where(rate == 0, 0.0, rate * bytes_per_record(fleet)) / 1000
    with np.errstate(divide="ignore", invalid="ignore"):
        by_bytes = np.where(bytes_per_ms == 0, np.inf, kept_bytes / bytes_per_ms)
    by_bytes = np.where(kept_bytes < 0, np.inf, by_bytes)
    by_ms = np.where(kept_ms < 0, np.inf, kept_ms)
    is_unknown = np.isnan(by_bytes) & np.isinf(by_ms)
    return np.where(is_unknown, np.nan, np.fmin(by_ms, by_bytes))


def with_local_retention(fleet: Fleet, local_ms: int, local_bytes: int, now_ms: int) -> Fleet:
    """The fleet once tiered topics keep so much on disk (UNKNOWN: as now), judged anew.

    A log is taken to be evenly dense. What is longer is cut; what is shorter is still to grow.
    """
    span, held = span_ms(fleet, now_ms), held_bytes(fleet)
    share = np.ones(span.shape)
    if local_ms != UNKNOWN:
        share = np.where(span > local_ms, local_ms / np.maximum(span, 1), share)
    if local_bytes != UNKNOWN:
        fits = np.where(held > local_bytes, local_bytes / np.maximum(held, 1), 1.0)
        share = np.minimum(share, fits)
    share = np.where((fleet.topic_setting("remote_storage") == 1)[:, None], share, 1.0)
    cut_bytes, cut_ms = (np.floor(value * share).astype(np.int64) for value in (held, span))
    fleet = _with_settings(fleet, local_retention_ms=local_ms, local_retention_bytes=local_bytes)
    fleet = replace(
        fleet,
        local_log_bytes=np.where(held == UNKNOWN, UNKNOWN, cut_bytes),
        local_start_timestamp_ms=np.where(span == UNKNOWN, UNKNOWN, now_ms - cut_ms),
    )
    return replace(fleet, coverage=coverage(fleet, now_ms))


def _with_settings(fleet: Fleet, **values: int) -> Fleet:
    """Those settings for every topic; UNKNOWN leaves one as it is."""
    configs = _with_cluster_row(fleet.configs)
    rows = len(configs.topic)
    told = {n: np.full(rows, value, np.int64) for n, value in values.items() if value != UNKNOWN}
    return replace(fleet, configs=replace(configs, **told))


def _picked(found: Bootstrap, rows: NDArray[np.intp]) -> Bootstrap:
    return Bootstrap(*(getattr(found, f.name)[rows] for f in fields(Bootstrap)))


def _path_name(path: int) -> str:
    return "unknown" if path == UNKNOWN else JoinPath(path).name.lower()


def _with_cluster_row(configs: Configs) -> Configs:
    """With a row of the cluster-wide values, also where nobody has told of them."""
    if CLUSTER_WIDE in configs.topic:
        return configs
    columns = {}
    for column in FLEET_CONFIGS.columns:
        first = blank(column, 1)
        if column.name == "topic":
            first[:] = CLUSTER_WIDE
        columns[column.name] = np.concatenate([first, getattr(configs, column.name)])
    return Configs(**columns)
