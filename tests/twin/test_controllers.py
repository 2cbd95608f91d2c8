"""Controllers: who is away, who is behind, and how many more may go before elections stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from tests.builders import NOW_MS, Partition, brokers_frame, partitions_frame, quorum_frame
from tests.twin.test_silent_quorum import view_of
from twin.builtin import CATALOG
from twin.cluster_rules.controllers import Controllers, Follows, spare_controllers
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.engine.changes import Change
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.shard_state import ShardState
from twin.questions.quorum import elects_without, newest_quorum
from twin.step import step
from twin.totals import cluster_totals, shard_totals

CYCLE_MS = 5_000
NO_BROKERS = (3000, 3001, 3002)
"""Controllers that are no brokers."""


class Cluster:
    """A cluster whose voters copy 10 records of the metadata log a cycle, some of them since."""

    def __init__(self, voters: Sequence[int] = NO_BROKERS) -> None:
        self.voters = voters
        self.state = ShardState.empty(CATALOG, "c", 0, 1)
        self.own = empty_cluster(CATALOG, "c", 1)
        self.now_ms = NOW_MS
        self.changes: list[Change] = []

    def run(
        self, seconds: int, away: Sequence[int] = (), slow: Sequence[int] = (),
        since_ms: int = NOW_MS, answers: bool = True,
    ) -> Cluster:  # fmt: skip
        for _ in range(seconds * 1_000 // CYCLE_MS):
            self.now_ms += CYCLE_MS
            end = (self.now_ms - NOW_MS) // 500
            late = dict.fromkeys((*away, *slow), since_ms)
            ends = {
                **dict.fromkeys(self.voters, end),
                **dict.fromkeys(slow, end // 2),
                **dict.fromkeys(away, (since_ms - NOW_MS) // 500),
            }
            frames = [
                brokers_frame(at_ms=self.now_ms),
                partitions_frame([Partition()], self.now_ms),
            ]
            if answers:
                frames.append(
                    quorum_frame(
                        self.voters, self.now_ms, self.voters[0], caught_up_at_ms=late, ends=ends
                    )
                )
            self.state, _ = step(self.state, frames, self.now_ms)
            self.own, changes = step_cluster(self.own, reports(self.state))
            self.changes += changes
        return self

    @property
    def controllers(self) -> Controllers:
        return self.own[Controllers]

    @property
    def follows(self) -> Mapping[int, Follows]:
        found = self.controllers
        return {n: Follows(f) for n, f in zip(found.node.tolist(), found.follows, strict=True)}

    @property
    def is_short(self) -> bool | None:
        risk = self.own[ClusterRisks].brokers("quorum_short")
        return None if risk is None else risk == [NO_BROKER]


def test_all_follow_and_one_of_three_may_go():
    cluster = Cluster().run(150)
    active, *others = NO_BROKERS
    assert cluster.follows == {active: Follows.ACTIVE, **dict.fromkeys(others, Follows.CAUGHT_UP)}
    assert (spare_controllers(cluster.controllers), cluster.is_short) == (1, False)


def test_one_of_three_that_is_away_for_two_minutes_is_a_risk_and_none_more_may_go():
    cluster = Cluster().run(30).run(60, away=[3002], since_ms=NOW_MS + 30_000)
    assert cluster.follows[3002] is Follows.AWAY
    assert (spare_controllers(cluster.controllers), cluster.is_short) == (0, False)
    cluster.run(120, away=[3002], since_ms=NOW_MS + 30_000)
    assert cluster.is_short is True
    [text] = [each.text for each in cluster.changes if each.kind == "controller_lost"]
    assert text == "controller 3002 is away: 0 more may go before no leader is elected"
    cluster.run(30)
    assert cluster.is_short is False
    assert "controller 3002 follows again: 1 more may go" in [c.text for c in cluster.changes]


def test_one_that_copies_and_is_not_caught_up_is_behind_by_time_and_records():
    cluster = Cluster().run(30).run(30, slow=[3001], since_ms=NOW_MS + 30_000)
    assert cluster.follows[3001] is Follows.BEHIND
    place = cluster.controllers.node.tolist().index(3001)
    assert cluster.controllers.behind_ms[place] == 30_000
    assert cluster.controllers.behind_records[place] == 60


def test_two_of_five_that_are_away_leave_none_to_spare_and_one_leaves_one():
    voters = (1, 2, 3, 4, 5)
    one = Cluster(voters).run(30, away=[5])
    two = Cluster(voters).run(30, away=[4, 5])
    assert spare_controllers(Cluster(voters).run(10).controllers) == 2
    assert (spare_controllers(one.controllers), spare_controllers(two.controllers)) == (1, 0)


def test_a_single_controller_is_no_risk_but_none_may_go():
    cluster = Cluster((1,)).run(150)
    assert (spare_controllers(cluster.controllers), cluster.is_short) == (0, False)


def test_a_quorum_that_does_not_answer_is_unknown_after_an_election_would_be_over():
    cluster = Cluster().run(30).run(20, answers=False)
    assert len(cluster.controllers.node) == 0
    assert spare_controllers(cluster.controllers) == UNKNOWN
    assert cluster.is_short is None


def test_without_the_times_of_kafka_3_4_who_follows_is_unknown():
    cluster = Cluster()
    voters = quorum_frame(caught_up_at_ms=dict.fromkeys((1, 2, 3), UNKNOWN))
    frames = [brokers_frame(), partitions_frame([Partition()]), voters]
    cluster.state, _ = step(cluster.state, frames, NOW_MS)
    cluster.own, _ = step_cluster(cluster.own, reports(cluster.state))
    assert cluster.controllers.follows.tolist() == [Follows.ACTIVE, UNKNOWN, UNKNOWN]
    assert spare_controllers(cluster.controllers) == UNKNOWN
    assert cluster.is_short is None


def test_a_report_of_another_shard_in_the_same_cycle_changes_nothing():
    cluster = Cluster().run(30).run(30, slow=[3001], since_ms=NOW_MS + 30_000)
    again, _ = step_cluster(cluster.own, reports(cluster.state))
    for one, other in zip(again[Controllers].values(), cluster.controllers.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_loss_elects_nobody_where_a_controller_that_is_no_broker_is_away_already():
    cluster = Cluster((1, 3001, 3002)).run(30)
    quorum = newest_quorum([cluster.state])
    assert (elects_without(quorum, [1]), elects_without(quorum, [2])) == (True, True)
    cluster.run(30, away=[3002], since_ms=NOW_MS + 30_000)
    quorum = newest_quorum([cluster.state])
    assert (elects_without(quorum, [1]), elects_without(quorum, [2])) == (False, True)


@pytest.mark.parametrize("node", NO_BROKERS)
def test_series_and_the_summary_name_each_node_also_of_those_that_are_no_brokers(node: int):
    cluster = Cluster().run(30).run(30, away=[3002], since_ms=NOW_MS + 30_000)
    totals = cluster_totals(CATALOG, [shard_totals(cluster.state)], shard_totals(cluster.own))
    assert totals["kafka_twin_controller_follows"][str(node),] == (node != 3002)
    assert totals["kafka_twin_controller_behind_seconds"][str(node),] == 30 * (node == 3002)
    assert totals.value("kafka_twin_controllers_spare") == 0
    assert view_of(cluster.state, cluster.own).cluster is not None
