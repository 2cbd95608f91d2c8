"""Recorded observations and events of simulated clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec

from streaming.history.capsules.saving import Recorded
from streaming.history.change_times import ChangeTimes
from streaming.history.past import PastView
from streaming.history.replay import Replay
from streaming.history.span import Span
from streaming.history.timeline import Timeline, timeline_of
from streaming.query.event_rows import changed
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.engine import frames
from twin.engine.changes import changes
from twin.engine.frames import Frame
from twin.proposals import PROPOSALS

START_MS = 1_000_000_000_000
INTERVAL_MS = 5_000
SMALL = Shape(topics=2, partitions=2, brokers=4, tier=True, groups=2, fetches=True)


def message(cycle: list[Frame]) -> bytes:
    """The frames of a cycle as the collector sends them."""
    return frames.join(frames.encode(frame, CATALOG.observations) for frame in cycle)


def a_recording(
    cycles: int, shards: int = 2, seed: int = 0, shape: Shape = SMALL, cluster: str = "sim",
    start_ms: int = START_MS,
) -> Recorded:  # fmt: skip
    """Cycles of some shards, all of them with the same times and numbers."""
    simulated = [SimulatedShard(shape, seed, cluster, n, shards) for n in range(shards)]
    runs = [shard.run(cycles, start_ms, INTERVAL_MS) for shard in simulated]
    messages = [
        (shard, message(cycle))
        for of_all in zip(*runs, strict=True)
        for shard, cycle in enumerate(of_all)
    ]
    events = [an_event(cluster, start_ms + n * INTERVAL_MS) for n in range(cycles)]
    return Recorded(cluster, shards, messages, events, tuple(PROPOSALS))


def with_events(recorded: Recorded) -> Recorded:
    """The recording with the events that the query would have written of it."""
    timeline = timeline_of(
        recorded.messages, recorded.cluster, recorded.shards, CATALOG.observations
    )
    reads = [[(shard, partial(bytes, sent)) for shard, sent in each] for each in timeline.messages]
    whole = Timeline(timeline.cycles, reads)
    replay = Replay(CATALOG, recorded.cluster, recorded.shards, whole, {})
    events: list[bytes] = []
    for index in range(1, len(timeline.cycles)):
        before, after = replay.states(index - 1), replay.states(index)
        for shard in range(recorded.shards):
            was, now = before.shards[shard].state, after.shards[shard].state
            if was is not None and now is not None:
                events += [changed(each)[1] for each in changes(was, now)]
    return replace(recorded, events=events)


def an_event(
    cluster: str, at_ms: int, topic: str = "topic-0-0", text: str = "is led by 2"
) -> bytes:
    """An event about a partition, as the query writes it."""
    return msgspec.json.encode(
        {
            "id": f"{cluster}/{topic}-1/leader_changed/{at_ms}",
            "kind": "leader_changed",
            "cluster": cluster,
            "at_ms": at_ms,
            "text": f"{topic}-1 {text}",
            "topic": topic,
            "partition": 1,
            "broker": 2,
            "before": [1],
            "after": [2],
        }
    )


def at(cycle: int) -> int:
    """The time of a cycle, from 0."""
    return START_MS + cycle * INTERVAL_MS


class RecordedPast:
    """The past of a recording, without a file."""

    def __init__(self, recorded: Recorded) -> None:
        timeline = timeline_of(
            recorded.messages, recorded.cluster, recorded.shards, CATALOG.observations
        )
        reads = [[(n, partial(bytes, sent)) for n, sent in each] for each in timeline.messages]
        whole = Timeline(timeline.cycles, reads)
        self._replay = Replay(CATALOG, recorded.cluster, recorded.shards, whole, {})
        self._events = [(msgspec.json.decode(each)["at_ms"], each) for each in recorded.events]

    @property
    def span(self) -> Span:
        """All of the recording."""
        return self._replay.span

    @property
    def changes(self) -> ChangeTimes:
        """When its events were."""
        return ChangeTimes.of([event for _, event in self._events], CATALOG)

    def cycles(self, from_ms: int, to_ms: int) -> Sequence[int]:
        """The times of its cycles."""
        return self._replay.cycles(from_ms, to_ms)

    def events(self, from_ms: int, to_ms: int) -> Sequence[bytes]:
        """Its events."""
        return [event for at_ms, event in self._events if from_ms <= at_ms <= to_ms]

    def view(self, at_ms: int, topic: str | None = None) -> PastView:
        """The cluster at a moment."""
        return self._replay.view(at_ms)
