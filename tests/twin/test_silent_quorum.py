"""A controller quorum that does not answer, and losses after which none is left."""

from __future__ import annotations

import pytest

from streaming.bus.view import ClusterView, ShardView
from streaming.questions.loss import lose
from streaming.questions.single_loss import single_loss
from tests.builders import NOW_MS, Partition, brokers_frame, partitions_frame, quorum_frame
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.declarations.table import NO_BROKER
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.shard_state import ShardState
from twin.questions import gate
from twin.questions.gate import Reason
from twin.questions.quorum import elects_without, newest_quorum
from twin.step import step
from twin.totals import cluster_totals, shard_totals

CYCLE_MS = 5_000
PARTS = [Partition("a"), Partition("b", replicas=(2, 3, 1), leader=2)]
VOTERS = (1, 2, 3)


def after(
    seconds: int, voters: tuple[int, ...] | None = VOTERS, silent: tuple[int, ...] = ()
) -> tuple[ShardState, ShardState]:
    """A shard and the cluster's own one, so many seconds after the last answer of the quorum."""
    state, own = ShardState.empty(CATALOG, "c", 0, 1), empty_cluster(CATALOG, "c", 1)
    for at_ms in range(NOW_MS, NOW_MS + seconds * 1_000 + 1, CYCLE_MS):
        is_first = at_ms == NOW_MS
        frames = [brokers_frame(at_ms=at_ms, silent=() if is_first else silent)]
        frames.append(partitions_frame(PARTS, at_ms))
        if voters is not None and is_first:
            frames.append(quorum_frame(voters, at_ms))
        state, _ = step(state, frames, at_ms)
        own, _ = step_cluster(own, reports(state))
    return state, own


def is_lost(own: ShardState) -> bool:
    return own[ClusterRisks].brokers("quorum_lost") == [NO_BROKER]


def view_of(state: ShardState, own: ShardState) -> ClusterView:
    shard = ShardView(state, shard_totals(state))
    totals = cluster_totals(CATALOG, [shard.totals])
    return ClusterView(shards=(shard,), shards_expected=1, cluster=own, totals=totals)


def test_a_quorum_is_lost_once_it_has_not_answered_for_longer_than_an_election_takes():
    assert [is_lost(after(seconds)[1]) for seconds in (5, 15, 20)] == [False, False, True]


@pytest.mark.parametrize(
    ("voters", "silent"),
    [
        pytest.param(None, (), id="never known, or no right"),
        pytest.param((-1,), (), id="ZooKeeper"),
        pytest.param(VOTERS, (1, 2, 3), id="no broker answers that could ask it"),
    ],
)
def test_what_is_not_known_is_not_called_lost(voters, silent):
    assert not is_lost(after(60, voters, silent)[1])


def test_while_it_is_lost_no_loss_of_a_leader_is_safe():
    view = view_of(*after(30))
    answer = single_loss(view, ())
    assert answer["sentence"].startswith(
        "No controller has answered since 2027-01-15 08:00:00 UTC: no leader is elected until one "
        "does. The only broker you can lose is 3"
    )
    assert (answer["can_be_lost"], answer["cannot_be_lost"]) == ([3], [1, 2])
    assert lose.data(view, {"broker": [3]})["elects"] is False
    state = view.states[0]
    assert Reason.QUORUM_UNKNOWN in gate.reasons([state], [3], gate.Terms())


def test_a_loss_of_the_majority_elects_nobody():
    view = view_of(*after(5))
    asked = [lose.data(view, {"broker": gone})["elects"] for gone in ([1], [1, 2])]
    assert asked == [True, False]
    [_, line, *_] = lose.text(lose.data(view, {"broker": [1, 2]})).lines
    assert line.startswith("No majority of the controllers would be left")


def test_a_broker_that_is_silent_already_counts_as_a_lost_controller():
    state, own = after(10)
    for at_ms in (NOW_MS + 15_000, NOW_MS + 20_000, NOW_MS + 25_000):
        frames = [brokers_frame(at_ms=at_ms, silent=(3,)), quorum_frame(VOTERS, at_ms)]
        state, _ = step(state, frames, at_ms)
    assert lose.data(view_of(state, own), {"broker": [1]})["elects"] is False


@pytest.mark.parametrize(
    ("voters", "gone", "expected"),
    [
        (VOTERS, [], True), (VOTERS, [1, 7], True), (VOTERS, [1, 2], False),
        ((1, 2, 3, 4), [1, 2], False), ((1,), [1], False), ((-1,), [1, 2, 3], True),
        (None, [1], None),
    ],
)  # fmt: skip
def test_more_than_half_of_the_voters_elect(voters, gone, expected):
    state, _ = after(5, voters)
    assert elects_without(newest_quorum([state]), gone) is expected
