"""The cost of an unclean election, and the offset at which a replica truncates after one."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaming.exporter.views.api import partition_objects
from tests.builders import (
    NOW_MS,
    Log,
    Partition,
    SegmentEvent,
    a_state,
    epochs_frame,
    segments_frame,
)
from twin.engine.state import ShardState
from twin.questions import whatif
from twin.step import step_archive
from twin.tables.enums import SegmentState

UPLOADED = ((0, 39), (40, 79), (80, 99))


def partition(**more: Any) -> Partition:
    """Broker 1 leads alone up to 120; 2 ends at 60 and 3 is not known."""
    return Partition(isr=(1,), logs={1: Log(end=120), 2: Log(end=60)}, silent=(3,), **more)


def tiered(part: Partition, uploaded: tuple[tuple[int, int], ...] = UPLOADED) -> ShardState:
    events = []
    for start, end in uploaded:
        name = f"s{start}"
        events += [
            SegmentEvent(SegmentState.COPY_STARTED, name, start, end, ((0, start),)),
            SegmentEvent(SegmentState.COPY_FINISHED, name),
        ]
    topics = {"t": {"unclean_leader_election": 1, "remote_storage": 1}}
    frames = [epochs_frame(part, [(0, 0)]), segments_frame(part, events)]
    return step_archive(a_state(part, topics=topics), {}, frames)[0]


def shown(state: ShardState) -> dict[str, Any]:
    [partition] = partition_objects(state, np.array([0]), NOW_MS)
    return partition


def test_each_replica_outside_the_isr_says_what_it_would_lose_and_orphan():
    assert shown(tiered(partition()))["unclean_successors"] == [
        {"broker": 2, "records_lost": 60, "orphaned_segments": 2, "orphaned_bytes": 60},
        {"broker": 3, "records_lost": None, "orphaned_segments": None, "orphaned_bytes": None},
    ]
    assert shown(tiered(partition(elr=(2, 3))))["unclean_successors"] == []


def test_without_known_segments_orphans_are_unknown():
    [second, _] = shown(a_state(partition()))["unclean_successors"]
    assert (second["records_lost"], second["orphaned_bytes"]) == (60, None)


def test_segments_that_are_not_listed_make_orphans_unknown_unless_the_listed_reach_below():
    """Of 300 segments the last 200 are listed: those that begin at offset 100 and above."""
    many = tuple((n, n) for n in range(300))
    for end, orphans in ((50, None), (100, None), (101, 199), (250, 50)):
        part = Partition(isr=(1,), logs={1: Log(end=300), 2: Log(end=end)}, silent=(3,))
        [second, _] = shown(tiered(part, many))["unclean_successors"]
        assert second["orphaned_segments"] == orphans


def test_losing_the_leader_shows_the_bytes_that_an_unclean_successor_orphans():
    state = tiered(partition(offline=(3,)))
    loss = whatif.lose(state, [1])
    assert whatif.loss_fields(state, loss, np.array([0]))["orphaned_bytes"].tolist() == [60]


def test_the_old_leader_truncates_to_where_the_new_one_began_when_it_is_back():
    def led_by_2(at_ms: int, since: ShardState, silent: tuple[int, ...]) -> ShardState:
        logs = {1: Log(end=60), 2: Log(end=60)}
        part = Partition(leader=2, isr=(2,), epoch=2, logs=logs, silent=silent)
        return a_state(part, since=since, at_ms=at_ms)

    before = a_state(partition())
    state = led_by_2(NOW_MS + 5_000, before, (1, 3))
    assert shown(state)["truncations"] == [{"broker": 1, "to_offset": 60, "records": 60}]
    state = led_by_2(NOW_MS + 10_000, state, (3,))
    assert shown(state)["truncations"] == [], "it is back, and has done so"
    assert shown(before)["truncations"] == []
