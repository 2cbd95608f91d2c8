"""The archive of a soak at random moments, compared with a replay of its observations."""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from streaming.history.archive.archive_past import ArchivePast
from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.row_layout import CYCLES, times_of
from streaming.history.capsules.capsule_past import CapsulePast
from streaming.history.capsules.opening import Capsule
from streaming.history.capsules.recording import recorded
from streaming.history.capsules.saving import save
from streaming.history.moment import MomentError, time_text
from streaming.history.past import PastView
from streaming.runtime.config import Config
from streaming.runtime.plugins import catalog_of
from tests.history.archive.test_differences import columns, without_segments
from tests.soak.judge import Span
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState
from twin.tables.state import Assignment, PartitionIndex, Replicas, Topics

MOMENTS: Final = 300

_BETWEEN_CYCLES: Final = ("remote_segments.", "lineage.")

Ends = Mapping[tuple[str, int, int], int]
"""Log end offsets by topic, partition and broker."""


@dataclass(frozen=True)
class PastResult:
    """What the archive answered."""

    equal: int = 0  # moments of which every decision was that of the replay
    ends: int = 0  # log end offsets that the replay had within the resolution
    unknown: int = 0  # moments without an answer, or without all of one, whose cycle is missing
    filled: int = 0  # of the equal ones, those of cycles without a snapshot
    gaps: int = 0  # made on purpose
    unpublished: int = 0  # of the unknown ones, cycles that the query took with the next one
    wrong: list[str] = field(default_factory=list)

    @property
    def objections(self) -> list[str]:
        """The objections, a line each."""
        objections = [*self.wrong]
        if not self.equal:
            objections.append("it answered about no moment")
        if self.gaps and not (self.unknown or self.filled):
            objections.append("no moment of its gaps is unknown, or was filled")
        return objections


def save_past(config: Config, span: Span, capsule: Path) -> None:
    """Write what the bus has of a span into a capsule."""
    save(recorded(config, span.to_ms), catalog_of(config), span.from_ms, span.to_ms, capsule)


def judge_past(
    config: Config, capsule: Path, rng: random.Random, gaps: Sequence[Span]
) -> PastResult:
    """Ask the archive about random moments of the span of a capsule.

    Every decision has to equal that of a replay of the observations up to the moment, and each log
    end offset has to be one that the replay had since the measurements before. Remote segments
    become known between two cycles, and the query may take them with either: the archive may have
    them a cycle sooner or later than the replay. A moment is unknown exactly where a shard's cycle
    was not archived, and all cycles were but those of the gaps that were made on purpose, and those
    that the query took together with the next one: of these not even the cluster's own shard has a
    snapshot, and the answer says that it is of the cycle before and incomplete. A cycle that was
    filled from observations has the same decisions, but those on remote segments.
    """
    catalog, wrong = catalog_of(config), list[str]()
    tables = ArchiveTables(config.archive.path)
    archive = ArchivePast(tables, catalog, config.cluster.name, config.collector.interval_ms)
    archived = _archived(tables)
    equal = ends = unknown = unpublished = filled = 0
    before_ms = 2 * config.archive.trigger_ms + 2 * config.collector.interval_ms  # not yet archived
    with closing(Capsule(capsule)) as opened:
        replay = CapsulePast(opened)
        times = [*replay.cycles(replay.span.begin_ms, replay.span.end_ms)]
        since_ms = times[0] + config.archive.measurements_ms + 2 * config.collector.interval_ms
        asked = sorted(rng.randrange(since_ms, times[-1]) for _ in range(MOMENTS))
        recent: dict[int, Ends] = {}  # of the cycles within the resolution
        done = 0
        for at_ms in asked:
            until = bisect.bisect_right(times, at_ms)
            oldest_ms = at_ms - config.archive.measurements_ms - 2 * config.collector.interval_ms
            for each in times[done:until]:
                if each >= oldest_ms:
                    recent[each] = _ends(replay.view(each).view.states)
            recent = {each: of for each, of in recent.items() if each >= oldest_ms}
            done = until
            true = replay.view(at_ms)
            shards = range(true.view.shards_expected)
            is_archived = all((n, true.at_ms) in archived for n in shards)
            found = _asked(archive, at_ms)
            if found is None or found.at_ms != true.at_ms or len(found.view.shards) < len(shards):
                unknown += 1
                if is_archived:
                    wrong.append(f"{time_text(at_ms)} is unknown, and its cycle was archived")
                is_said = found is not None and not found.complete and found.at_ms < true.at_ms
                if is_said and (CLUSTER, true.at_ms) not in archived:
                    unpublished += 1
                elif not any(gap.from_ms - before_ms <= at_ms <= gap.to_ms for gap in gaps):
                    wrong.append(f"{time_text(at_ms)} is unknown, and in no gap")
                continue
            if not is_archived:
                wrong.append(f"{time_text(at_ms)} is known, and its cycle was not archived")
            near = times[until - 2 : until + 1 : 2]
            differs = _different(
                true.view.states,
                found.view.states,
                lambda near=near: [replay.view(each).view.states for each in near],
                found.filled,
            )
            if differs:
                wrong.append(f"{time_text(at_ms)}: {', '.join(differs)}")
                continue
            equal += 1
            filled += found.filled
            for key, end in _ends(found.view.states).items():
                if any(of.get(key) == end for of in recent.values()):
                    ends += 1
                else:
                    wrong.append(f"{time_text(at_ms)}: log end {end} of {key} was never so")
    return PastResult(equal, ends, unknown, filled, len(gaps), unpublished, wrong)


def _asked(archive: ArchivePast, at_ms: int) -> PastView | None:
    try:
        return archive.view(at_ms)
    except MomentError:
        return None


def _archived(tables: ArchiveTables) -> set[tuple[int, int]]:
    """Shard and time of each cycle that was archived."""
    rows = tables.read(CYCLES, columns=["shard", "at"])
    assert rows is not None
    pairs = zip(rows.column("shard").to_pylist(), times_of(rows.column("at")), strict=True)
    return {(shard, int(at_ms)) for shard, at_ms in pairs}


def _different(
    true: list[ShardState],
    found: list[ShardState],
    beside: Callable[[], list[list[ShardState]]],
    is_filled: bool,
) -> list[str]:
    """Names of the columns of decisions that differ from those of the replay.

    Args:
        true: the shards by the replay.
        found: the shards by the archive.
        beside: the shards by the replay in the cycles before and after; what becomes known between
            two cycles is taken message by message, and may be as in either, or in part.
        is_filled: the archive computed it from observations.
    """
    different = []
    for number, (here, there) in enumerate(zip(true, found, strict=True)):
        expected, said = columns(here, measurements=False), columns(there, measurements=False)
        if is_filled:  # with the segments of before
            risks = here.catalog.risk_names
            expected, said = without_segments(expected, risks), without_segments(said, risks)
        names = [name for name in expected if said[name] != expected[name]]
        if names and all(name.startswith(_BETWEEN_CYCLES) for name in names):
            near = [columns(each[number], measurements=False) for each in beside()]
            segments = [_segments(each) for each in (expected, *near)]
            if set.intersection(*segments) <= _segments(said) <= set.union(*segments):
                names = []
        different += [f"shard {here.shard}, {name}" for name in names]
    return different


def _segments(state: Mapping[str, list[object]]) -> set[tuple[object, object]]:
    """Row and id of each remote segment."""
    return {*zip(state["remote_segments.row"], state["remote_segments.segment_id"], strict=True)}


def _ends(states: list[ShardState]) -> Ends:
    found: dict[tuple[str, int, int], int] = {}
    for state in states:
        index, brokers = state[PartitionIndex], state[Assignment].broker
        ends = state[Replicas].log_end_offset
        topics = state[Topics].topic[index.topic_index]
        for row, slot in zip(*np.nonzero((brokers >= 0) & (ends >= 0)), strict=True):
            key = (str(topics[row]), int(index.partition[row]), int(brokers[row, slot]))
            found[key] = int(ends[row, slot])
    return found
