"""In sync by KIP-501's solution 1, and who would lead by its solution 2, beside Kafka's answer."""

from dataclasses import replace

import numpy as np
import pytest

from tests.asking import partition_object
from tests.builders import (
    NOW_MS,
    Fetch,
    Log,
    Partition,
    a_state,
    broker_metrics_frame,
    fetches_frame,
)
from tests.cycles import cycle_frames
from twin.builtin import CATALOG
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.engine import codec
from twin.engine.shard_state import ShardState
from twin.proposals.kip501 import InSyncKip501
from twin.proposals.kip501_handovers import HandoverKip501
from twin.rules.election.next_leader import NextLeaders
from twin.rules.replication.caught_up import InSync
from twin.rules.replication.last_fetches import LastFetches
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.step import step
from twin.totals import cluster_totals, shard_totals

AHEAD = Partition(logs={1: Log(end=200)})  # 2 and 3 end at 100
LAG_MAX_MS = 30_000
NOW = "kafka_twin_partitions_kip501_would_hand_over"
EVER = "kafka_twin_kip501_handovers_total"


def fetched(part: Partition, *fetches: Fetch, **config) -> ShardState:
    """The partition after its followers fetched."""
    return step(a_state(part, **config), [fetches_frame(fetches)], NOW_MS)[0]


def in_sync(state: ShardState) -> tuple[list[int], list[int]]:
    """Whether each replica is in sync, by Kafka's rule and by solution 1."""
    return state[InSync].in_sync[0].tolist(), state[InSyncKip501].in_sync_kip501[0].tolist()


def slow(took_ms: int, answered_at_ms: int = NOW_MS - 1_000) -> list[Fetch]:
    """Two fetches of all there was; the leader worked that long on the second."""
    arrived_ms = answered_at_ms - took_ms
    return [Fetch(arrived_ms - 500), Fetch(arrived_ms, took_ms=took_ms, leader_end=150)]


def test_a_leader_that_took_too_long_has_its_follower_in_sync_as_of_the_answer():
    stock, solution = in_sync(fetched(AHEAD, *slow(59_000)))
    assert (stock[1], solution[1]) == (0, 1)
    assert solution[0] == 1, "the leader"


def test_and_only_for_so_long_after_it():
    long_ago = NOW_MS - LAG_MAX_MS - 1
    stock, solution = in_sync(fetched(AHEAD, *slow(59_000, long_ago)))
    assert (stock[1], solution[1]) == (0, 0)


def test_a_fetch_that_may_be_pending_is_unknown_until_it_is_answered():
    state = fetched(AHEAD, Fetch(NOW_MS - 70_000))
    assert in_sync(state)[1][1] == UNKNOWN


@pytest.mark.parametrize(("end", "estimate"), [(120, None), (UNKNOWN, 120)])
def test_a_follower_that_lacks_what_the_leader_had_is_out(end, estimate):
    state = fetched(AHEAD, Fetch(NOW_MS - 70_000, 90, end, estimate=estimate))
    assert in_sync(state)[1][1] == 0


def test_without_a_fetch_it_is_unknown_unless_kafka_has_it_in_sync_or_it_is_gone():
    behind = Partition(isr=(1, 2), logs={1: Log(end=200), 2: Log(end=200)}, offline=(3,))
    stock, solution = in_sync(a_state(behind))
    assert (stock[1], solution[1]) == (1, 1)
    assert (stock[2], solution[2]) == (0, 0)
    out = Partition(isr=(1, 2), logs={1: Log(end=200), 2: Log(end=200)})
    assert in_sync(a_state(out))[1][2] == UNKNOWN


def test_with_an_unknown_limit_or_a_former_leaders_state_it_is_unknown():
    assert in_sync(fetched(AHEAD, *slow(59_000), replica_lag_time_max_ms=UNKNOWN))[1][1] == UNKNOWN
    former = [Fetch(NOW_MS - 60_000, took_ms=59_000, leader=3, epoch=0)]
    assert in_sync(fetched(AHEAD, *former))[1][1] == UNKNOWN


def test_it_keeps_whom_kafka_keeps_and_survives_a_codec():
    state = fetched(AHEAD, *slow(59_000))
    again = codec.decode(codec.encode(state), CATALOG).state
    kept = state[InSyncKip501].in_sync_kip501
    assert np.array_equal(again[InSyncKip501].in_sync_kip501, kept)
    assert (kept[state[InSync].in_sync == 1] == 1).all()


def test_a_leader_hands_over_that_took_longer_than_the_limit():
    for took_ms, to in ((LAG_MAX_MS, NO_BROKER), (LAG_MAX_MS + 1, 2)):
        assert fetched(AHEAD, *slow(took_ms))[HandoverKip501].leader.tolist() == [to]
    assert a_state(AHEAD)[HandoverKip501].leader.tolist() == [NO_BROKER]


def test_to_the_next_live_member_and_says_if_that_one_is_cold():
    cold = Partition(
        logs={1: Log(end=200)}, log=Log(local_start=1, size_bytes=10), offline=(2,), isr=(1, 3)
    )
    fetches = [
        Fetch(f.arrived_ms, f.offset, f.leader_end, f.estimate, f.took_ms, broker=3)
        for f in slow(40_000)
    ]
    state = fetched(cold, *fetches, topics={"t": {"eligible_local_log_bytes": 100}})
    assert state[HandoverKip501].leader.tolist() == [3]
    assert state[ReplicaCoverage].coverage[0, 2] == Coverage.COLD
    assert state[HandoverKip501].is_cold.tolist() == [1]


def test_a_leader_that_removed_every_follower_hands_over_to_one_that_solution_1_keeps():
    # KIP-501's motivation: the ISR is the slow leader alone, so nobody else may lead.
    state = fetched(AHEAD, *slow(LAG_MAX_MS + 5_000, NOW_MS + 4_000))
    later = NOW_MS + 5_000
    alone = replace(AHEAD, isr=(1,))
    frames = cycle_frames([alone], later)
    shrunk, _ = step(state, frames, later)
    assert shrunk[NextLeaders].leader.tolist() == [NO_BROKER]
    assert shrunk[HandoverKip501].leader.tolist() == [2]


def test_not_for_ever():
    state = fetched(AHEAD, *slow(40_000, NOW_MS - 60_001))
    assert state[HandoverKip501].leader.tolist() == [NO_BROKER]


def test_a_fetch_in_the_request_queue_makes_no_leader_hand_over():
    for queue_ms, to in ((10_000, NO_BROKER), (9_999, 2)):
        earlier, late = slow(LAG_MAX_MS + 10_000)
        state = fetched(AHEAD, earlier, replace(late, queue_ms=queue_ms))
        assert state[HandoverKip501].leader.tolist() == [to]


def test_the_fetch_that_was_processed_longest_counts_not_the_one_that_waited_longest():
    processed, queued = slow(LAG_MAX_MS + 1, NOW_MS - 50_000)[1], slow(49_000)[1]
    state = fetched(AHEAD, processed, replace(queued, queue_ms=49_000))
    assert state[HandoverKip501].leader.tolist() == [2]


def test_solution_2_has_a_time_of_its_own():
    for limit_ms, to in ((40_000, NO_BROKER), (39_999, 2), (UNKNOWN, 2)):
        state = fetched(AHEAD, *slow(40_000), fetch_processing_max_ms=limit_ms)
        assert state[HandoverKip501].leader.tolist() == [to]


def test_handovers_are_counted_once_each():
    def counts(state: ShardState) -> tuple[float, float]:
        totals = cluster_totals(state.catalog, [shard_totals(state)])
        return totals.value(EVER), totals.value(NOW)

    def next_cycle(state: ShardState, after_ms: int) -> ShardState:
        return a_state(AHEAD, since=state, at_ms=state.observed_at_ms + after_ms)

    state = fetched(AHEAD, *slow(40_000))
    assert counts(state) == (1, 1)
    state = next_cycle(state, 5_000)
    assert counts(state) == (1, 1), "the same fetch"
    state = next_cycle(next_cycle(state, 60_000), 5_000)
    assert counts(state) == (1, 0)
    again = slow(40_000, state.observed_at_ms)
    state, changes = step(state, [fetches_frame(again)], state.observed_at_ms)
    assert counts(state) == (2, 1)
    assert [c.text for c in changes if c.kind == "kip501_handover"] == [
        "t-0: leader 1 processed a fetch for too long; by solution 2 of KIP-501 it would hand over "
        "to 2"
    ]
    _, changes = step(state, [fetches_frame(again)], state.observed_at_ms + 1)
    assert "kip501_handover" not in {c.kind for c in changes}


def test_the_last_fetch_that_it_is_judged_by_is_shown():
    state = fetched(AHEAD, *slow(LAG_MAX_MS))
    arrived_ms = NOW_MS - 1_000 - LAG_MAX_MS
    assert state[LastFetches].last_fetch_at_ms.tolist() == [[UNKNOWN, arrived_ms, UNKNOWN]]
    assert state[LastFetches].last_fetch_leader_end_offset.tolist() == [[UNKNOWN, 150, UNKNOWN]]
    shown = partition_object(state, NOW_MS)
    assert [replica["last_fetch_at_ms"] for replica in shown["replicas"]] == [
        None,
        arrived_ms,
        None,
    ]


def test_it_is_said_whether_the_next_leader_is_slow_too():
    """By its own measurements or its answers; one that measures nothing may be slow."""
    took = slow(LAG_MAX_MS + 1)
    for measured, answers, expected in (
        ({}, {}, UNKNOWN),
        ({2: {"fetch_follower_local_p99_ms": 5.0}}, {}, 0),
        ({2: {"fetch_follower_local_p99_ms": 5_000.0}}, {}, 1),
        ({}, {"slow": (2,)}, 1),
        ({}, {"silent": (2,)}, 1),
    ):
        at_ms = NOW_MS + 1_000
        frames = [fetches_frame(took), broker_metrics_frame(measured, at_ms),
                  *cycle_frames([AHEAD], at_ms, ids=(1, 2, 3), **answers)]  # fmt: skip
        state, changes = step(a_state(AHEAD, brokers=(1, 2, 3)), frames, at_ms)
        handover = state[HandoverKip501]
        assert (handover.leader.tolist(), handover.is_slow.tolist()) == ([2], [expected])
        [event] = [c.text for c in changes if c.kind == "kip501_handover"]
        assert event.endswith("which is slow too and would hand back") == (expected == 1)


def test_two_slow_brokers_would_hand_over_back_and_forth_each_time_the_limit_has_passed():
    state = fetched(AHEAD, *slow(LAG_MAX_MS + 1), brokers=(1, 2, 3))
    seen = []
    for seconds, slow_ones in ((1, ()), (2, (2,)), (31, (2,)), (32, (2,)), (40, ())):
        at_ms = NOW_MS + seconds * 1_000
        again = slow(LAG_MAX_MS + 1, at_ms - 500)
        answers = cycle_frames([AHEAD], at_ms, ids=(1, 2, 3), slow=slow_ones)
        frames = [fetches_frame(again, at_ms), *answers]
        state, _ = step(state, frames, at_ms)
        state = codec.decode(codec.encode(state), CATALOG).state
        partition = partition_object(state, at_ms)
        seen.append(partition["kip501_ping_pong"])
    since = {"broker": 2, "since_ms": NOW_MS + 2_000}
    assert seen == [None, since | {"handovers": 1}, since | {"handovers": 1},
                    since | {"handovers": 2}, None]  # fmt: skip
