"""Every number of a group is what kafka-consumer-groups.sh says, whatever becomes of the group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from streaming.lab.cluster import LocalCluster
from tests.cluster.broker_client import await_in_sync
from tests.cluster.groups import commit, consuming, offsets_of, states_of, watching_groups
from tests.cluster.topics import produce
from tests.cluster.watching import Watch
from tests.versions.releases import OWN, Release
from tests.versions.tools import Tools
from tests.waiting import until
from twin.tables.enums import GroupType
from twin.tables.state import GroupOffsets, Groups, ReaderRacks

pytestmark = pytest.mark.cluster

TOPIC, GONE = "groups-data", "groups-gone"
RECORDS = 40


@pytest.fixture(scope="module")
def classpath(cluster: LocalCluster) -> list[Path]:
    return Release(OWN).tools(cluster.jars())


@pytest.fixture(scope="module")
def tools(cluster: LocalCluster, classpath: list[Path]) -> Iterator[Tools]:
    """Kafka's tools, once the topics have records."""
    three = {"num_partitions": 3, "replication_factor": 3}
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics({TOPIC: three, GONE: three}, timeout_ms=20_000, wait_for_metadata=True)
    await_in_sync(cluster)
    for partition in range(3):
        produce(cluster, TOPIC, RECORDS + partition, partition=partition)
    with Tools(classpath, cluster.bootstrap) as made:
        yield made


@pytest.fixture(scope="module")
def watch(cluster: LocalCluster, tools: Tools) -> Iterator[Watch]:
    with watching_groups(cluster.bootstrap) as twin:
        yield twin


def agree(watch: Watch, tools: Tools) -> bool:
    """All numbers are those of Kafka's tool, which is asked before and after."""
    before = tools.group_offsets(), tools.group_states()
    state = watch.look_at_groups()
    ours = offsets_of(state), states_of(state)
    after = tools.group_offsets(), tools.group_states()
    return before == ours == after


def assert_agree(watch: Watch, tools: Tools) -> None:
    """They agree soon: a group that is gone stays for one more listing."""
    said: list[object] = []

    def settled() -> bool:
        said[:] = [tools.group_offsets(), offsets_of(watch.state), states_of(watch.state)]
        return agree(watch, tools)

    until(settled, 40, f"the twin and the tool do not agree: {said}")


def test_a_cluster_without_groups_has_none(watch: Watch, tools: Tools) -> None:
    """Unless other tests of this cluster have left some: then the twin has those."""
    assert_agree(watch, tools)
    assert len(states_of(watch.state)) == len(tools.group_states())


def test_groups_without_members_are_those_of_the_tool(
    cluster: LocalCluster, watch: Watch, tools: Tools
) -> None:
    commit(cluster.bootstrap, "alone", {(TOPIC, 0): 7, (TOPIC, 2): 11})
    commit(cluster.bootstrap, "with-metadata", {(TOPIC, 1): 5}, metadata="since yesterday")
    commit(cluster.bootstrap, "at-the-end", {(TOPIC, n): RECORDS + n for n in range(3)})
    assert_agree(watch, tools)
    ours = offsets_of(watch.state)
    assert ours["alone", TOPIC, 2].lag == RECORDS + 2 - 11
    assert ours["at-the-end", TOPIC, 1].lag == 0
    assert states_of(watch.state)["alone"].state == "Empty"


def test_offsets_that_go_backwards_are_taken(
    cluster: LocalCluster, watch: Watch, tools: Tools
) -> None:
    commit(cluster.bootstrap, "back", {(TOPIC, 0): 30})
    assert_agree(watch, tools)
    commit(cluster.bootstrap, "back", {(TOPIC, 0): 3})
    assert_agree(watch, tools)
    assert offsets_of(watch.state)["back", TOPIC, 0].committed == 3


@pytest.mark.parametrize(
    ("protocol", "kind"), [("consumer", GroupType.CONSUMER), ("classic", GroupType.CLASSIC)]
)
def test_a_group_with_a_member_comes_and_goes(
    cluster: LocalCluster,
    classpath: list[Path],
    watch: Watch,
    tools: Tools,
    protocol: str,
    kind: GroupType,
) -> None:
    group, rack = f"live-{protocol}", f"az-of-{protocol}"
    member = consuming(
        classpath, cluster.bootstrap, TOPIC, group, group_protocol=protocol, client_rack=rack
    )
    with member:

        def has_read_all() -> bool:
            offsets = [tools.group_offsets().get((group, TOPIC, n)) for n in range(3)]
            return all(each is not None and each.lag == 0 for each in offsets)

        until(has_read_all, 60, pause_s=0.5)
        assert_agree(watch, tools)
        state = watch.state
        groups, offsets, racks = state[Groups], state[GroupOffsets], state[ReaderRacks].rack
        index = groups.group.tolist().index(group)
        mine = offsets.group_index == index
        assert groups.group_type[index] == kind
        assert groups.members[index] == 1
        assert {str(racks[i]) for i in offsets.rack_index[mine]} == {rack}
        assert offsets.assigned[mine].tolist() == [1, 1, 1]
    until(lambda: tools.group_states()[group].state == "Empty", 90, pause_s=0.5)
    assert_agree(watch, tools)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_groups([group])
    assert_agree(watch, tools)
    assert group not in states_of(watch.state)


def test_offsets_end_with_their_topic(cluster: LocalCluster, watch: Watch, tools: Tools) -> None:
    commit(cluster.bootstrap, "orphan", {(GONE, 0): 0, (TOPIC, 0): 1})
    assert_agree(watch, tools)
    assert ("orphan", GONE, 0) in offsets_of(watch.state)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_topics([GONE])
    until(lambda: ("orphan", GONE, 0) not in tools.group_offsets(), 30, pause_s=0.5)
    assert_agree(watch, tools)
    assert [key for key in offsets_of(watch.state) if key[0] == "orphan"] == [("orphan", TOPIC, 0)]


def test_a_coordinator_that_is_killed_leaves_what_was_known_until_another_answers(
    cluster: LocalCluster, watch: Watch, tools: Tools
) -> None:
    commit(cluster.bootstrap, "survivor", {(TOPIC, 0): 9})
    assert_agree(watch, tools)
    before = offsets_of(watch.state)
    lost = states_of(watch.state)["survivor"].coordinator
    cluster.kill(lost)
    try:
        for _ in range(3):  # the controller has not noticed yet, or a successor is loading
            now = offsets_of(watch.look_at_groups())
            assert {k: v.committed for k, v in now.items()} == {
                k: v.committed for k, v in before.items()
            }
        until(lambda: states_of(watch.look_at_groups())["survivor"].coordinator != lost, 60)
        assert_agree(watch, tools)
        assert offsets_of(watch.state)["survivor", TOPIC, 0].committed == 9
    finally:
        cluster.start([lost])
        await_in_sync(cluster)
    assert_agree(watch, tools)
