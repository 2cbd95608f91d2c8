"""Which partitions a group of consumers uses: a group that left a topic has left it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import NOW_MS, Group, Log, Partition, brokers_frame
from tests.exporter.test_exporter import a_client, a_store
from tests.reading import open_risks
from tests.twin.test_groups import ROUND_MS, cycle
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.questions import whatif
from twin.questions.whatif_groups import hurt_by_loss, together
from twin.rules.groups.moves import GroupLags
from twin.rules.groups.reads import GroupReads, ReadsFrom
from twin.rules.groups.usage import IN_USE_MS
from twin.step import step
from twin.tables.enums import GroupState

DAY_MS = 86_400_000
LEFT_BEHIND = Partition(
    log=Log(end=100_000, start=90_000, local_start=90_000, started_ms=NOW_MS - 2 * DAY_MS)
)
REBALANCES = (
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
)


def read(*rounds: dict[str, Any]) -> ShardState:
    """The state after these readings of a group that committed 5 there, long ago."""
    state, at_ms = None, NOW_MS
    for each in rounds:
        group = Group(offsets=[(LEFT_BEHIND, each.get("offset", 5))], **_of_group(each))
        for is_read in (True, *[False] * 5):
            state = cycle(
                *([group] if is_read else []), parts=(LEFT_BEHIND,), since=state, at_ms=at_ms,
                is_read=is_read, remote_storage=0, retention_ms=2 * DAY_MS, segment_ms=DAY_MS,
            )  # fmt: skip
            at_ms += ROUND_MS // 6
    assert state is not None
    return state


def _of_group(each: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in each.items() if name != "offset"}


def is_in_use(state: ShardState) -> bool:
    [in_use] = state[GroupLags].in_use.tolist()
    return bool(in_use)


def test_a_group_that_left_a_topic_loses_nothing_there():
    """kminion 5, Burrow 504: it is stable, has members, and none is assigned the partition."""
    state = read({"assigned": 0}, {"assigned": 0})
    assert not is_in_use(state)
    assert not {risk for risk in open_risks(state) if risk.startswith("consumer")}


@pytest.mark.parametrize("rebalance", REBALANCES)
def test_a_rebalance_pages_for_no_topic_that_the_group_left(rebalance):
    state = read({"assigned": 0}, *[{"assigned": 0, "state": rebalance}] * 3)
    assert not is_in_use(state)
    assert not {risk for risk in open_risks(state) if risk.startswith("consumer")}


@pytest.mark.parametrize("rebalance", REBALANCES)
def test_a_rebalance_hides_no_partition_that_the_group_reads(rebalance):
    """No member is assigned anything until the group is stable again."""
    state = read({"assigned": 1}, *[{"assigned": 0, "state": rebalance}] * 3)
    assert is_in_use(state)
    assert "consumer_loses_records" in open_risks(state)


def test_a_partition_that_a_rebalance_assigns_is_in_use_at_once():
    assert is_in_use(read({"assigned": 0}, {"assigned": 1, "state": GroupState.RECONCILING}))


@pytest.mark.parametrize(
    "unknown", [{"state": GroupState.PREPARING_REBALANCE, "assigned": 0}, {"assigned": UNKNOWN}]
)
def test_where_no_assignment_is_known_an_offset_that_does_not_move_is_not_in_use(unknown):
    assert not is_in_use(read(unknown, unknown))
    assert is_in_use(read(unknown, unknown | {"offset": 6}))
    moved = read(unknown, unknown | {"offset": 6})
    later_ms = moved.observed_at_ms + IN_USE_MS + 1
    assert not is_in_use(step(moved, [brokers_frame((1, 2, 3), later_ms)], later_ms)[0])


def test_a_coordinator_that_describes_no_members_leaves_the_last_assignment():
    not_described = {"members": UNKNOWN, "assigned": UNKNOWN}
    assert is_in_use(read({"assigned": 1}, not_described))
    assert not is_in_use(read({"assigned": 0}, not_described))


def test_what_a_group_was_assigned_before_it_had_no_members_does_not_count():
    """Its members may come back for other topics."""
    nobody = {"members": 0, "assigned": 0, "state": GroupState.EMPTY}
    again = {"assigned": 0, "state": GroupState.PREPARING_REBALANCE}
    assert not is_in_use(read({"assigned": 1}, nobody))
    assert not is_in_use(read({"assigned": 1}, nobody, again))


def harmed(state: ShardState) -> list[tuple[str, int]]:
    """Groups that the loss of the leader hurts; of how many partitions nobody leads then."""
    harms = together([hurt_by_loss(state, [1], whatif.lose(state, [1]))])
    return [(each.group, each.offline) for each in harms]


@pytest.mark.parametrize("assigned", [0, 1])
def test_a_loss_hurts_no_group_that_left_the_topic(assigned):
    alone = Partition(replicas=(1,))
    group = Group(offsets=[(alone, 50)], assigned=assigned)
    assert harmed(cycle(group, parts=(alone,))) == [("g", 1)] * assigned


def test_a_loss_hurts_a_group_whose_consumers_are_away_for_a_moment():
    alone = Partition(replicas=(1,))
    nobody = Group(offsets=[(alone, 50)], members=0, assigned=0, state=GroupState.EMPTY)
    assert harmed(cycle(nobody, parts=(alone,))) == [("g", 1)]


def test_where_a_group_reads_is_counted_without_topics_that_it_left():
    state = read({"assigned": 0})
    assert state[GroupReads].reads_from.tolist() == [ReadsFrom.NOWHERE]
    [group] = a_client(a_store(state)).get("/api/v1/groups").json()["groups"]
    assert set(group["reads_from"].values()) == {0}
    [group] = a_client(a_store(read({"assigned": 1}))).get("/api/v1/groups").json()["groups"]
    assert group["reads_from"]["nowhere"] == 1
