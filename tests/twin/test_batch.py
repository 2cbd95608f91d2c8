"""However a shard's messages are cut into batches, it comes to the same state."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest

from tests.simulator.shard import Shape, SimulatedShard
from twin.batch import sorted_frames, step_cycle
from twin.builtin import CATALOG
from twin.engine import codec, frames
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState

START_MS, INTERVAL_MS = 1_800_000_000_000, 5_000
KEY = "c/0"


def messages(cycles: int) -> list[bytes]:
    """One a cycle, each with the newest fetches of followers: they are events."""
    shard = SimulatedShard(Shape(fetches=True), 1, "c", 0, 9)
    return [frames.join(map(frames.encode, sent)) for sent in shard.run(cycles, START_MS)]


def stepped(state: ShardState, batch: list[bytes]) -> ShardState:
    found = sorted_frames(((None, message) for message in batch), CATALOG.observations)
    for at_ms in sorted(found.cycles):
        state, _, refused = step_cycle(KEY, state, found.cycles[at_ms])
        assert not refused
    return state


@pytest.mark.parametrize("cuts", [(1, 2, 3, 4, 5), (1, 3), (2, 4), (4,), ()])
def test_the_state_is_the_same_however_its_cycles_are_cut_into_batches(cuts):
    sent, nothing = messages(6), ShardState.empty(CATALOG, "c", 0, 9)
    one_by_one = list(accumulate(([m] for m in sent), stepped, initial=nothing))
    state = nothing
    for begin, end in pairwise((0, *cuts, len(sent))):
        state = stepped(state, sent[begin:end])
        assert codec.encode(state) == codec.encode(one_by_one[end])


def events_of(message: bytes) -> list[Frame]:
    decoded = frames.decode(message, CATALOG.observations).frames
    return [f for f in decoded if CATALOG.observations[f.header.kind].event]


def test_an_event_joins_the_first_cycle_that_is_not_before_it_else_the_newest():
    sent = messages(3)
    events = [event for message in sent for event in events_of(message)]
    assert [e.header.observed_at_ms for e in events] == [
        START_MS + n * INTERVAL_MS for n in range(3)
    ]
    others = [
        frame
        for message in sent[:2]
        for frame in frames.decode(message, CATALOG.observations).frames
        if not CATALOG.observations[frame.header.kind].event
    ]
    found = sorted_frames(enumerate(map(frames.encode, events + others)), CATALOG.observations)
    joined = {
        at_ms: [number for _, number in entries if number < len(events)]
        for at_ms, entries in found.cycles.items()
    }
    assert joined == {START_MS: [0], START_MS + INTERVAL_MS: [1, 2]}
    alone = sorted_frames(enumerate(map(frames.encode, events)), CATALOG.observations)
    assert [len(entries) for entries in alone.cycles.values()] == [3], "one step for all"
