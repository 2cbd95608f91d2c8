"""Every number of a group is what kafka-consumer-groups.sh says, whatever becomes of the group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from prometheus_client.parser import text_string_to_metric_families

from streaming.bus.view import ClusterView, SnapshotStore
from streaming.collector.groups.group_listing import ListedGroups
from streaming.collector.sources.groups import GroupSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.metrics.kafka_exporter import NAMES
from streaming.exporter.views import group_page
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import ExporterConfig
from tests.cluster.broker_client import EARLIEST, LATEST, BrokerClient, await_in_sync
from tests.cluster.groups import commit, consuming, offsets_of, states_of, watching_groups
from tests.cluster.topics import produce
from tests.cluster.watching import Watch
from tests.versions.releases import OWN, Release
from tests.versions.tools import Tools
from tests.waiting import until
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.shard_state import ShardState
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
    answers: list[object] = []

    def settled() -> bool:
        answers[:] = [tools.group_offsets(), offsets_of(watch.state), states_of(watch.state)]
        return agree(watch, tools)

    until(settled, 40, f"the twin and the tool do not agree: {answers}")


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
    assert states_of(watch.state)[group].state == "Empty"
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_groups([group])
    assert_agree(watch, tools)
    assert group not in states_of(watch.state)


def test_a_group_that_is_deleted_is_gone_everywhere_after_two_rounds(
    cluster: LocalCluster, watch: Watch, tools: Tools
) -> None:
    commit(cluster.bootstrap, "deleted", {(TOPIC, 0): 7})
    assert_agree(watch, tools)
    assert places_of(watch.state, "deleted") == {"snapshot", "metrics", "API"}
    tools.delete_group("deleted")
    assert "deleted" not in tools.group_states()
    for _ in range(2):
        watch.look_at_groups()
    assert places_of(watch.state, "deleted") == set()


def test_a_group_that_is_deleted_between_listing_and_asking_is_dead(
    cluster: LocalCluster, tools: Tools
) -> None:
    chosen: list[str] = []

    class DeletingSource(GroupSource):
        """Groups may go after they were listed, and before their coordinator is asked."""

        def _list(self, connections: BrokerConnections) -> ListedGroups:
            listing = super()._list(connections)
            while chosen:
                tools.delete_group(chosen.pop())
            return listing

    commit(cluster.bootstrap, "fleeting", {(TOPIC, 0): 7})
    with watching_groups(cluster.bootstrap, DeletingSource) as watch:
        coordinator = states_of(watch.look_at_groups())["fleeting"].coordinator
        chosen.append("fleeting")
        state = watch.look_at_groups()
        request = DescribeGroupsRequest(groups=["fleeting"], include_authorized_operations=False)
        answer = BrokerClient(cluster).ask(coordinator, request, DescribeGroupsResponse, 6)
        assert states_of(state)["fleeting"].state == answer.groups[0].group_state == "Dead"
        assert ("fleeting", TOPIC, 0) not in offsets_of(state)
        assert [problem for problem in watch.problems if problem.source == "groups"] == []
        for _ in range(2):
            watch.look_at_groups()
        assert places_of(watch.state, "fleeting") == set()


def places_of(state: ShardState, group: str) -> set[str]:
    """The places at which the group is."""
    text, view = served(state)
    is_there = {
        "snapshot": group in states_of(state),
        "metrics": f'group="{group}"' in text,
        "API": group_page.group(view, group, state.observed_at_ms, 1) is not None,
    }
    return {place for place, there in is_there.items() if there}


def test_offsets_end_with_their_topic(cluster: LocalCluster, watch: Watch, tools: Tools) -> None:
    commit(cluster.bootstrap, "orphan", {(GONE, 0): 0, (TOPIC, 0): 1})
    assert_agree(watch, tools)
    assert ("orphan", GONE, 0) in offsets_of(watch.state)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_topics([GONE])
    until(lambda: ("orphan", GONE, 0) not in tools.group_offsets(), 30, pause_s=0.5)
    assert_agree(watch, tools)
    assert [key for key in offsets_of(watch.state) if key[0] == "orphan"] == [("orphan", TOPIC, 0)]


def test_the_names_of_kafka_exporter_have_the_numbers_of_kafkas_tools(
    cluster: LocalCluster, watch: Watch, tools: Tools
) -> None:
    commit(cluster.bootstrap, "partly", {(TOPIC, 0): 4, (TOPIC, 2): 6})
    assert_agree(watch, tools)
    series = as_kafka_exporter(watch.state)

    def values_of(name: str, *labels: str) -> dict[tuple[str, ...], int]:
        """The values of a name by these labels, of our topic."""
        return {
            tuple(held[label] for label in labels): int(value)
            for held, value in series[f"kafka_{name}"]
            if held.get("topic", TOPIC) == TOPIC
        }

    placed = {key: each for key, each in tools.partitions().items() if key[0] == TOPIC}
    by_number = {(str(number),): each for (_, number), each in placed.items()}
    assert values_of("topic_partitions", "topic") == {(TOPIC,): len(placed)}
    assert values_of("brokers") == {(): len(cluster.status())}
    assert values_of("broker_info", "id", "address") == {
        (str(node.id), f"127.0.0.1:{node.port}"): 1 for node in cluster.status()
    }
    expected = {
        "leader": {n: each.leader for n, each in by_number.items()},
        "replicas": {n: len(each.replicas) for n, each in by_number.items()},
        "in_sync_replica": {n: len(each.isr) for n, each in by_number.items()},
        "leader_is_preferred": {
            n: int(each.leader == each.replicas[0]) for n, each in by_number.items()
        },
        "under_replicated_partition": {
            n: int(len(each.isr) < len(each.replicas)) for n, each in by_number.items()
        },
    }
    for name, kind in {"current_offset": LATEST, "oldest_offset": EARLIEST}.items():
        offsets = tools.offsets(kind, placed)
        expected[name] = {(str(number),): offset for (_, number), offset in offsets.items()}
    for name, values in expected.items():
        assert values_of(f"topic_partition_{name}", "partition") == values, name

    answers = {key: each for key, each in tools.group_offsets().items() if key[1] == TOPIC}
    committed = {(g, str(n)): each.committed for (g, _, n), each in answers.items()}
    lag = {(g, str(n)): each.lag for (g, _, n), each in answers.items()}
    unset = {(g, n): -1 for g, _ in committed for (n,) in by_number}
    names = ("consumergroup", "partition")
    assert values_of("consumergroup_current_offset", *names) == unset | committed
    assert values_of("consumergroup_lag", *names) == unset | lag
    assert values_of("consumergroup_lag_sum", "consumergroup") == {
        (group,): sum(each for (g, _), each in lag.items() if g == group) for group, _ in lag
    }
    assert values_of("consumergroup_current_offset_sum", "consumergroup")["partly",] == 4 + 6 - 1
    assert values_of("consumergroup_members", "consumergroup") == {
        (group,): each.members for group, each in tools.group_states().items()
    }


def as_kafka_exporter(state: ShardState) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The series of each name of kafka_exporter, as they are served."""
    text, _ = served(state, compatibility="kafka_exporter")
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
        if family.name in NAMES
    }


def served(state: ShardState, **settings: Any) -> tuple[str, ClusterView]:
    """The exposition and the snapshot of an exporter."""
    store = SnapshotStore(CATALOG, state.cluster, state.shards)
    store.take_snapshot(b"real/0", codec.encode(state), state.observed_at_ms)
    store.publish()
    renderer = Renderer(CATALOG, state.cluster, ExporterConfig(**settings))
    return b"".join(renderer.render(store.view).blocks).decode(), store.view


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
