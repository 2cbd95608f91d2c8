"""The whole state machine: a fleet, what was observed, and the time make a fleet and what changed.

Replay, what-if, tests, the benchmark and Spark all call ``step``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twin.archive import Archive, Key, newcomers, told, with_findings, without_gone
from twin.changes import Change, changes
from twin.fleet import Fleet
from twin.frames import Frame
from twin.hysteresis import settle
from twin.merge import EVENTS, merge
from twin.rules.balance import election
from twin.rules.coverage import coverage
from twin.rules.election import next_leaders
from twin.rules.growth import appended_per_s
from twin.rules.joining import joins
from twin.rules.replication import caught_up_at_ms, in_sync
from twin.rules.risks import seen
from twin.rules.selection import cold_reads, out_of_range
from twin.rules.shrinks import shrinks
from twin.told import with_books


def step(fleet: Fleet, observation: Sequence[Frame], now_ms: int) -> tuple[Fleet, list[Change]]:
    """The fleet after an observation, and what a person would want to hear of.

    Args:
        fleet: the shard as it was.
        observation: frames of one cycle, in any order; some may be late or seen before.
        now_ms: the time against which ages and spans are judged.

    Raises:
        FrameRefused: a frame contradicts itself or belongs elsewhere; the fleet is unchanged.
    """
    merged = fleet
    for frame in observation:
        merged = merge(merged, frame)
    if merged is fleet:
        return fleet, []
    if all(
        frame.stamp.kind in EVENTS or frame.stamp.observed_at_ms < fleet.observed_at_ms
        for frame in observation
    ):
        now_ms = merged.observed_at_ms  # events bring no new time: samples are not older for them
    after = assess(merged, now_ms)
    return after, changes(fleet, after)


def step_archive(
    fleet: Fleet, archive: Archive, observation: Sequence[Frame]
) -> tuple[Fleet, Archive, list[Change]]:
    """The fleet and the archive after events of remote segments and leader epochs.

    Apart from ``step``, since most cycles bring none and need not have the archive at hand.

    Args:
        fleet: the shard as it is.
        archive: its remote segments.
        observation: frames of the kinds ``archive.KINDS``, in the order they were sent.
    """
    before = fleet
    changed: set[Key] = set()
    for frame in observation:
        archive, keys = told(archive, frame)
        changed |= keys
    archive = without_gone(archive, fleet)
    changed = (changed & archive.keys()).union(newcomers(fleet, archive))
    fleet = with_findings(fleet, archive, changed)
    if fleet is before:
        return fleet, archive, []
    after = assess(fleet, fleet.observed_at_ms)
    return after, archive, changes(before, after)


def assess(fleet: Fleet, now_ms: int) -> Fleet:
    """The fleet with every finding made anew. To add a rule, add its line here."""
    fleet = replace(fleet, caught_up_at_ms=caught_up_at_ms(fleet))
    fleet = replace(fleet, in_sync=in_sync(fleet, now_ms), coverage=coverage(fleet, now_ms))
    fleet = replace(fleet, appended_per_s=appended_per_s(fleet))
    fleet = replace(fleet, joins=joins(fleet, now_ms))
    fleet = replace(fleet, departures=with_books(fleet.departures, fleet.fetches))
    fleet = replace(fleet, shrinks=shrinks(fleet))
    leaders = next_leaders(fleet)
    fleet = replace(
        fleet,
        next_leader_kafka=leaders.kafka,
        next_outcome_kafka=leaders.kafka_outcome,
        next_leader_kip1303=leaders.kip1303,
        next_outcome_kip1303=leaders.kip1303_outcome,
    )
    fleet = replace(
        fleet,
        election=election(fleet),
        cold_read_records=np.maximum(cold_reads(fleet, now_ms).records, 0),
        out_of_range=out_of_range(fleet),
    )
    fleet = replace(fleet, risks_seen=seen(fleet, now_ms))
    open_now, pending = settle(fleet, now_ms)
    return replace(fleet, risks=open_now, pending=pending)
