"""The past by replay is the state that the observations make, to the byte; a gap stays a gap."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache

import pytest

from streaming.history.capsules.opening import Capsule
from streaming.history.capsules.saving import Recorded, save
from streaming.history.past import PastView
from streaming.history.replay import KEPT_STATES, Replay
from streaming.history.stepping import States, nothing_yet, stepped
from streaming.history.timeline import Timeline, timeline_of
from tests.history.recorded import INTERVAL_MS, START_MS, a_recording, at
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine import codec, frames
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.proposals import PROPOSALS
from twin.remote_log import segment_store
from twin.step import step, step_segments

CYCLES = 36
MOMENTS = 30
BEGIN = 3  # the cycle with which the capsule begins
SHARDS = 2


@cache
def recording() -> Recorded:
    return a_recording(CYCLES, SHARDS)


@cache
def plainly_replayed() -> list[list[bytes]]:
    """The states of all shards and of the cluster's own after each cycle, by ``twin.step``."""
    states = {n: ShardState.empty(CATALOG, "sim", n, SHARDS) for n in range(SHARDS)}
    segments = dict[int, segment_store.SegmentStore]({n: {} for n in range(SHARDS)})
    own, after = empty_cluster(CATALOG, "sim", SHARDS), []
    for cycle in range(CYCLES):
        reported = []
        for shard, message in recording().messages[cycle * SHARDS : (cycle + 1) * SHARDS]:
            sent = frames.decode(message, CATALOG.observations).frames
            samples = [each for each in sent if each.header.kind not in segment_store.KINDS]
            remote = [each for each in sent if each.header.kind in segment_store.KINDS]
            states[shard], _ = step(states[shard], samples, at(cycle))
            reported += reports(states[shard])
            states[shard], segments[shard], _ = step_segments(
                states[shard], segments[shard], remote
            )
        own, _ = step_cluster(own, reported)
        after.append([codec.encode(each) for each in (*states.values(), own)])
    return after


def encoded(found: PastView) -> list[bytes]:
    assert found.view.cluster is not None
    return [codec.encode(each) for each in (*found.view.states, found.view.cluster)]


@pytest.fixture(scope="module")
def capsule(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Capsule]:
    file = tmp_path_factory.mktemp("capsule") / "incident.capsule"
    save(recording(), CATALOG, at(BEGIN), at(CYCLES), file)
    with closing(Capsule(file)) as opened:
        yield opened


def test_a_past_state_equals_a_plain_replay_of_all_observations_up_to_it(capsule: Capsule):
    chance = random.Random(29)
    span = capsule.replay.span
    assert (span.begin_ms, span.end_ms) == (at(BEGIN), at(CYCLES - 1))
    moments = [chance.randint(span.begin_ms, span.end_ms) for _ in range(MOMENTS)]
    for at_ms in (*moments, span.begin_ms, span.end_ms):
        found, cycle = capsule.replay.view(at_ms), (at_ms - START_MS) // INTERVAL_MS
        assert found.at_ms == at(cycle)
        assert encoded(found) == plainly_replayed()[cycle]
        assert found.complete
        assert found.resolution_ms == INTERVAL_MS


def test_a_bounded_number_of_states_is_kept(capsule: Capsule):
    for cycle in range(BEGIN, CYCLES):
        capsule.replay.view(at(cycle))
    assert len(capsule.replay._states) <= KEPT_STATES


def test_the_query_comes_to_the_same_states():
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from pyspark.sql import Row
    from pyspark.sql.streaming import TwsTester

    from streaming.bus.chains import Chain
    from streaming.query.processor import Destination, TwinProcessor
    from twin.engine import updates

    tester = TwsTester(
        TwinProcessor({"": Destination(SHARDS, "snapshots", "events")}, tuple(PROPOSALS))
    )
    chain = Chain()
    for cycle in range(12):
        message = recording().messages[cycle * SHARDS][1]
        row = Row(key="sim/0", value=message, topic="", partition=0, offset=cycle, timestamp_ms=0)
        for sent in tester.test("sim/0", [row]):
            if sent.topic == "snapshots":
                value = bytes(sent.value)
                if (link := updates.link_of(value)) is None:
                    chain.take_part(0, 1, codec.decode(value, CATALOG), value)
                else:
                    chain.take_update(link, value)
        assert chain.state is not None
        assert codec.encode(chain.state) == plainly_replayed()[cycle][0]


# ---------------------------------------------------------------- gaps


def past_without(*missing: tuple[int, int]) -> Replay:
    """The past of which these messages are missing: cycle and shard."""
    messages = [
        each
        for n, each in enumerate(recording().messages)
        if (n // SHARDS, n % SHARDS) not in missing
    ]
    return past_of(replace(recording(), messages=messages))


def past_of(recorded: Recorded) -> Replay:
    found = timeline_of(recorded.messages, "sim", SHARDS, CATALOG.observations)
    readers = [
        [(shard, lambda message=message: message) for shard, message in sent]
        for sent in found.messages
    ]
    return Replay(CATALOG, "sim", SHARDS, Timeline(found.cycles, readers), {})


def test_missing_cycles_are_said_and_not_filled_in():
    past = past_without((5, 0), (5, 1), (6, 0), (6, 1))
    assert past.view(at(4)).complete
    assert past.view(at(5) - 1).complete
    for at_ms in (at(5), at(6), at(7) - 1):
        found = past.view(at_ms)
        assert (found.complete, found.at_ms) == (False, at(4))
        assert encoded(found) == plainly_replayed()[4]
    found = past.view(at(7))
    assert (found.complete, found.at_ms) == (True, at(7))


def test_a_cycle_that_one_shard_lacks_is_not_complete():
    past = past_without((5, 1))
    found = past.view(at(5) + 10)
    assert (found.complete, found.at_ms) == (False, at(5))
    assert found.view.observed_at_ms == at(4)
    assert encoded(found)[0] == plainly_replayed()[5][0]
    assert past.view(at(6)).complete


def test_a_shard_that_was_never_observed_is_missing_in_the_view():
    past = past_without(*((cycle, 1) for cycle in range(CYCLES)))
    found = past.view(at(8))
    assert not found.complete
    assert found.view.why_not_up(at(8)) == "snapshots of 1 of 2 shards were read"


def test_a_message_with_a_part_of_a_cycle_is_not_a_whole_cycle():
    messages = list(recording().messages)
    shard, message = messages[5 * SHARDS]
    sent = frames.decode(message, CATALOG.observations).frames
    brokers = frames.encode(next(each for each in sent if each.header.kind == "brokers"))
    messages[5 * SHARDS] = shard, brokers
    past = past_of(replace(recording(), messages=messages))
    assert not past.view(at(5)).complete
    assert past.view(at(6)).complete


def test_what_comes_between_two_cycles_belongs_to_the_later_one():
    messages = list(recording().messages[: 4 * SHARDS])
    sent = frames.decode(messages[3 * SHARDS][1], CATALOG.observations).frames
    alone = frames.encode(next(each for each in sent if each.header.kind == "fetches"))
    messages.insert(2 * SHARDS, (0, alone))
    found = timeline_of(messages, "sim", SHARDS, CATALOG.observations)
    assert [len(each) for each in found.messages] == [2, 2, 3, 2]


def test_a_message_that_cannot_be_read_changes_nothing():
    messages = list(recording().messages[: 4 * SHARDS])
    messages.insert(2 * SHARDS, (0, b"nothing of Arrow's"))
    past = past_of(replace(recording(), messages=messages))
    assert encoded(past.view(at(3))) == plainly_replayed()[3]


def test_observations_of_another_cluster_are_not_taken_in():
    other = a_recording(2, SHARDS, cluster="other")
    found = timeline_of(other.messages, "sim", SHARDS, CATALOG.observations)
    assert not found.cycles
    before: States = nothing_yet(CATALOG, "sim", SHARDS)
    after = stepped(CATALOG, "sim", before, other.messages)
    assert all(each.state is None or each.state.partitions == 0 for each in after.shards.values())


def test_late_observations_are_in_the_step_in_which_they_came():
    by_shard = defaultdict(list)
    for shard, message in recording().messages[: 5 * SHARDS]:
        by_shard[shard].append(message)
    by_shard[0].insert(4, by_shard[0][1])  # of cycle 1, after cycle 3
    messages = [(shard, each) for shard, sent in by_shard.items() for each in sent]
    past = past_of(replace(recording(), messages=messages))
    assert encoded(past.view(at(4))) == plainly_replayed()[4]
    with pytest.raises(InvalidFrame):
        frames.decode(b"", CATALOG.observations)
