"""Steps through the cycles of a span once, and collects what a report needs of them.

Each cycle's state is measured as arrays and let go: what is kept does not grow with partitions,
but for those that something happened to. A cycle stands for the time until the next one, but for no
more than two usual cycles: of what is longer, nothing is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from streaming.bus.view import ClusterView
from streaming.history.moment import MomentError, time_text
from streaming.history.past import Past, PastView
from streaming.history.report.happenings import Happening, Place
from streaming.history.report.model import RemoteReads, Series, Standing
from streaming.history.report.scanning import shown
from streaming.history.report.scanning.elections import Elections
from streaming.history.report.scanning.filled_disks import FillingDisks
from streaming.history.report.scanning.losses import LostRecords, SufferingGroups
from streaming.history.report.scanning.measures import (
    ShardMeasures,
    alerting_counts,
    brokers_away,
    leaders_of,
    measured,
    places,
    remote_bytes_per_s,
    standing,
)
from twin.arrays.plain import counted
from twin.engine.shard_state import ShardState
from twin.tables.state import Brokers

MOST_CYCLES: Final = 2_000
"""Nearly three hours at five seconds a cycle."""

MOST_REPLICA_CYCLES: Final = 100_000_000
"""Replicas times cycles: 200 000 replicas for 40 minutes. Measured: 2 microseconds of CPU each."""

GAP: Final = 2
"""The longest time that a cycle counts for, in usual cycles."""


@dataclass(slots=True)
class Gap:
    """A time of which nothing, or not all, is known."""

    begin_ms: int
    end_ms: int


@dataclass(slots=True)
class Scan:
    """What was collected. Numbers of partitions are summed over shards."""

    begin_ms: int
    end_ms: int
    resolution_ms: int = 0
    at_ms: list[int] = field(default_factory=list)
    stands_s: list[float] = field(default_factory=list)  # the time that each cycle stands for
    series: dict[str, list[int]] = field(
        default_factory=lambda: {
            name: [] for name in ("offline", "under_min_isr", "at_risk", "brokers_down")
        }
    )
    alerting: list[Counter[str]] = field(default_factory=list)  # by cycle
    before: Standing | None = None
    worst: Standing | None = None
    after: Standing | None = None
    racks: dict[str, frozenset[int]] = field(default_factory=dict)
    incomplete: list[int] = field(default_factory=list)
    filled: list[int] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    shards_missing: int = 0  # the most shards of which nothing was known
    most_partitions: int = 0  # that were described at once
    not_described: int = 0  # the most partitions at once
    unknown_min_isr: int = 0  # the most partitions at once
    ever_offline: set[Place] = field(default_factory=set)
    ever_under: set[Place] = field(default_factory=set)
    happenings: list[Happening] = field(default_factory=list)  # that states show, not events
    disks: FillingDisks = field(default_factory=FillingDisks)
    leaders: dict[tuple[str, int, int], int] = field(default_factory=dict)  # of those asked about
    remote_bytes: float = 0.0
    remote_measured: int = 0  # brokers that measured it, over all cycles
    remote_expected: int = 0

    def partition_seconds(self, name: str) -> float:
        """Partitions in a condition, times seconds."""
        return float(np.dot(self.series[name], self.stands_s))

    def remote_reads(self) -> RemoteReads:
        """Unknown if no broker measured it in any cycle."""
        if not self.remote_measured:
            return RemoteReads(None, False)
        is_lower = self.remote_measured < self.remote_expected or bool(self.gaps)
        return RemoteReads(round(self.remote_bytes), is_lower)

    def shown(self) -> Series:
        """The numbers of each cycle."""
        return Series(self.at_ms, **self.series)


def check_size(past: Past, from_ms: int, to_ms: int) -> tuple[Sequence[int], PastView]:
    """The cycles of the span, from the one that holds at its beginning, and the view of that.

    Raises:
        MomentError: there are too many of them for a report.
    """
    first = past.view(from_ms)
    times = [first.at_ms, *(at for at in past.cycles(from_ms, to_ms) if at > first.at_ms)]
    slots = sum(state.partitions * state.slots for state in first.view.states)
    most = min(MOST_CYCLES, MOST_REPLICA_CYCLES // max(slots, 1))
    if len(times) > max(most, 2):
        raise MomentError(
            f"{time_text(from_ms)} to {time_text(to_ms)} has {counted(len(times), 'cycle')}, and a "
            f"report of this cluster at most {most}: ask for a shorter span"
        )
    return times, first


def scanned(
    past: Past, times: Sequence[int], first: PastView, asked: Mapping[int, Collection[Place]]
) -> tuple[Scan, Elections, LostRecords, SufferingGroups]:
    """All that the states of those cycles show, and by time the leaders that are asked about."""
    scan = Scan(times[0], times[-1], first.resolution_ms)
    elections, lost, groups = Elections(times[0]), LostRecords(times[0]), SufferingGroups()
    scan.racks = _racks(first.view)
    earlier: dict[int, ShardState] = {}
    worst_key: tuple[int, ...] = (0,)
    measures: dict[int, ShardMeasures] = {}
    for number, (at_ms, found) in enumerate(_views(past, times, first)):
        scan.at_ms.append(at_ms)
        view, is_first, is_last = found.view, number == 0, number == len(times) - 1
        of = {state.shard: measured(state) for state in view.states}
        for state in view.states:
            was = earlier.get(state.shard)
            if was is None:
                elections.first(state)
            else:
                elections.step(was, state)
                scan.happenings += shown.between(was, state, at_ms)
            lost.step(state, is_last=is_last)
            _note_places(scan, state, of[state.shard], was, measures.get(state.shard))
            earlier[state.shard] = state
            if at_ms in asked:
                for place, leader in leaders_of(state, asked[at_ms]).items():
                    scan.leaders[(*place, at_ms)] = leader
        measures = of
        groups.step(view, at_ms, is_first=is_first)
        scan.disks.step(view, at_ms)
        key = _note_numbers(scan, found, of)
        if is_first:
            scan.before = standing(found, of)
        if is_last:
            scan.after = standing(found, of)
        if key > worst_key:
            worst_key, scan.worst = key, standing(found, of)
        following = times[number + 1] if not is_last else at_ms
        scan.stands_s.append(_stands_s(scan, at_ms, following))
        rate, has, should = remote_bytes_per_s(view)
        scan.remote_bytes += rate * scan.stands_s[-1]
        if not is_last:
            scan.remote_measured += has
            scan.remote_expected += should
    scan.happenings = [*dict.fromkeys(scan.happenings), *elections.by_hand, *groups.happenings,
                       *scan.disks.happenings]  # fmt: skip
    return scan, elections, lost, groups


def _views(past: Past, times: Sequence[int], first: PastView) -> Iterator[tuple[int, PastView]]:
    yield times[0], first
    for at_ms in times[1:]:
        yield at_ms, past.view(at_ms)


def _stands_s(scan: Scan, at_ms: int, following_ms: int) -> float:
    """The time that a cycle stands for; notes the gap behind it."""
    length_ms = following_ms - at_ms
    if scan.resolution_ms and length_ms > GAP * scan.resolution_ms:
        scan.gaps.append(Gap(at_ms + scan.resolution_ms, following_ms))
        length_ms = scan.resolution_ms
    return length_ms / 1_000


def _note_numbers(scan: Scan, found: PastView, of: Mapping[int, ShardMeasures]) -> tuple[int, ...]:
    """Add a cycle to the series; how bad it is, as a key."""
    measures, view = list(of.values()), found.view
    down, silent = brokers_away(view)
    offline = sum(int(each.is_offline.sum()) for each in measures)
    under = sum(int(each.is_under_min_isr.sum()) for each in measures)
    risks = sum(int((each.open_risks != 0).sum()) for each in measures)
    values = {"offline": offline, "under_min_isr": under, "at_risk": risks,
              "brokers_down": len(down)}  # fmt: skip
    for name, value in values.items():
        scan.series[name].append(value)
    scan.alerting.append(alerting_counts(view, of))
    if not found.complete:
        scan.incomplete.append(found.at_ms)
    if found.filled:
        scan.filled.append(found.at_ms)
    scan.shards_missing = max(scan.shards_missing, view.shards_expected - len(view.shards))
    described = sum(int(each.is_described.sum()) for each in measures)
    scan.most_partitions = max(scan.most_partitions, described)
    all_partitions = sum(len(each.is_described) for each in measures)
    scan.not_described = max(scan.not_described, all_partitions - described)
    unknown = sum(int((each.is_described & ~each.is_min_isr_known).sum()) for each in measures)
    scan.unknown_min_isr = max(scan.unknown_min_isr, unknown)
    return offline, under, len(down) + len(silent), risks


def _note_places(scan: Scan, state: ShardState, now: ShardMeasures, before: ShardState | None,
                 was: ShardMeasures | None) -> None:  # fmt: skip
    """The partitions that are offline, or under min ISR, by name; those of the cycle before are
    known."""
    offline, under = now.is_offline, now.is_under_min_isr
    if was is not None and before is not None and shown.same_rows(before, state):
        offline, under = offline & ~was.is_offline, under & ~was.is_under_min_isr
    scan.ever_offline.update(places(state, np.flatnonzero(offline)))
    scan.ever_under.update(places(state, np.flatnonzero(under)))


def _racks(view: ClusterView) -> dict[str, frozenset[int]]:
    if view.newest is None:
        return {}
    racks: dict[str, set[int]] = {}
    brokers = view.newest[Brokers]
    for rack, broker in zip(brokers.rack.tolist(), brokers.broker.tolist(), strict=True):
        if rack:
            racks.setdefault(str(rack), set()).add(broker)
    return {rack: frozenset(ids) for rack, ids in racks.items() if len(ids) > 1}
