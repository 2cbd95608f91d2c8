"""Groups on the bus: each shard has what concerns its topics, and the twin takes it in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from streaming.bus.bus_topics import shard_of
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import ObservationEncoder
from streaming.collector.sources.groups import GroupSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import BusConfig, ClusterConfig, CollectorConfig, Config
from tests.collector.fake_broker import FakeCluster, Partition, Topic, World, fake_cluster
from tests.collector.fake_groups import GROUP_AUTHORIZATION_FAILED, Group, Member
from tests.waiting import AMPLE_MS
from twin.builtin import CATALOG
from twin.engine import frames
from twin.engine.frames import Frame
from twin.engine.merge import merge
from twin.engine.shard_state import ShardState
from twin.tables.enums import GroupState, GroupType
from twin.tables.state import GroupOffsets, Groups, PartitionIndex

SHARDS = 2
HERE, THERE = "orders", "mails"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    topics = {name: Topic({n: Partition([1, 2]) for n in range(3)}) for name in (HERE, THERE)}
    with fake_cluster(World(topics=topics)) as three:
        yield three


@dataclass
class Asker:
    """Cycles that take in a round of groups each, and the states that they lead to."""

    cluster: FakeCluster
    collector: Collector
    groups: GroupSource
    messages: ObservationEncoder = field(default_factory=ObservationEncoder)
    states: dict[int, ShardState] = field(
        default_factory=lambda: {s: ShardState.empty(CATALOG, "kafka", s, SHARDS) for s in (0, 1)}
    )

    def __call__(self, *, read: bool = True) -> list[Frame]:
        """The frames about groups of one cycle."""
        if read:
            self.groups.read_now()
        observation = self.collector.observe()
        assert observation is not None
        sent = [
            frame
            for _, message in self.messages.encode(observation)
            for frame in frames.decode(message).frames
        ]
        for frame in sent:
            shard = frame.header.shard
            self.states[shard] = merge(self.states[shard], frame)
        return [frame for frame in sent if frame.header.kind in ("groups", "group_offsets")]

    def committed(self) -> dict[tuple[str, str, int], tuple[int, int]]:
        """Offset and whether a member is assigned it, as the twin has it."""
        rows = {}
        for state in self.states.values():
            offsets, index = state[GroupOffsets], state[PartitionIndex]
            topics = state.topic_names()
            for i, row in enumerate(offsets.row.tolist()):
                group = state[Groups].group[offsets.group_index[i]]
                key = (group, topics[row], int(index.partition[row]))
                rows[key] = (int(offsets.committed_offset[i]), int(offsets.assigned[i]))
        return rows


@pytest.fixture
def ask(cluster: FakeCluster) -> Iterator[Asker]:
    config = Config(
        cluster=ClusterConfig(bootstrap=cluster.bootstrap),
        bus=BusConfig(shards=SHARDS),
        collector=CollectorConfig(deadline_ms=AMPLE_MS, max_group_offsets=5),
    )
    with (
        BrokerConnections(cluster.bootstrap, {}, AMPLE_MS) as brokers,
        GroupSource(config, brokers.client_id, background=False) as groups,
    ):
        collector = Collector(config, brokers, groups)
        collector.observe()  # so that the brokers are known
        yield Asker(cluster, collector, groups)


def described(sent: list[Frame], shard: int) -> dict[str, dict[str, Any]]:
    """The rows of a shard's frame of groups."""
    [frame] = [f for f in sent if f.header.kind == "groups" and f.header.shard == shard]
    return {row.pop("group"): row for row in frame.rows.to_pylist()}


def test_the_topics_of_these_tests_are_in_different_shards() -> None:
    assert {shard_of(HERE, SHARDS), shard_of(THERE, SHARDS)} == {0, 1}


def test_the_twin_has_what_the_coordinators_said(cluster: FakeCluster, ask: Asker) -> None:
    member = Member({HERE: [0, 2]}, rack="az-a")
    cluster.world.groups |= {
        "a": Group(1, {(HERE, 0): 5, (HERE, 1): 6, (THERE, 0): 7}, [member]),
        "b": Group(2, {(THERE, 2): 8}, type="streams"),
        "c": Group(3, state="Empty", type="consumer"),
    }
    sent = ask()
    assert ask.committed() == {
        ("a", HERE, 0): (5, 1), ("a", HERE, 1): (6, 0), ("a", HERE, 2): (-1, 1),
        ("a", THERE, 0): (7, 0), ("b", THERE, 2): (8, -1),
    }  # fmt: skip
    all_groups = described(sent, 0)
    assert {
        n: (r["group_type"], r["group_state"], r["coordinator"], r["members"])
        for n, r in all_groups.items()
    } == {
        "a": (GroupType.CLASSIC, GroupState.STABLE, 1, 1),
        "b": (GroupType.STREAMS, GroupState.STABLE, 2, -1),
        "c": (GroupType.CONSUMER, GroupState.EMPTY, 3, 0),
    }
    assert set(described(sent, 1)) == ({"a"} if shard_of(HERE, SHARDS) else {"a", "b"})


def test_a_round_is_sent_once(cluster: FakeCluster, ask: Asker) -> None:
    cluster.world.groups["a"] = Group(1, {(HERE, 0): 5})
    assert ask()
    assert ask(read=False) == []


def test_a_group_that_may_not_be_read_keeps_what_is_known(cluster: FakeCluster, ask: Asker) -> None:
    cluster.world.groups["a"] = group = Group(1, {(HERE, 0): 5})
    ask()
    group.error, group.offsets = GROUP_AUTHORIZATION_FAILED, {}
    sent = ask()
    assert {described(sent, shard)["a"]["read_at_ms"] for shard in range(SHARDS)} == {-1}
    assert ask.committed() == {("a", HERE, 0): (5, 0)}
    group.error = 0
    ask()
    assert ask.committed() == {}


def test_offsets_of_topics_that_are_gone_or_not_watched_are_left_out(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.groups["a"] = Group(1, {(HERE, 0): 5, ("gone", 0): 6})
    ask()
    assert ask.committed() == {("a", HERE, 0): (5, 0)}
    assert ask.groups.problems == ()
    del cluster.world.topics[HERE]
    ask()
    assert ask.committed() == {}


def test_a_listing_that_lacks_topics_does_not_end_offsets_on_them(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.groups["a"] = Group(1, {(HERE, 0): 5})
    ask()
    cluster.world.topics[HERE].error = 5  # no leader
    assert ask() == []
    assert ask.committed() == {("a", HERE, 0): (5, 0)}
    cluster.world.topics[HERE].error = 0
    assert ask(read=False)


def test_a_group_that_is_gone_leaves_the_twin_after_the_second_listing(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.groups["a"] = Group(1, {(HERE, 0): 5})
    ask()
    cluster.world.groups.clear()
    ask()
    assert ask.committed() == {("a", HERE, 0): (5, 0)}
    ask()
    assert ask.committed() == {}
    assert all(not len(state[Groups].group) for state in ask.states.values())


def test_offsets_that_become_too_many_are_over_and_counted(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.groups["b"] = Group(1, {(at, n): 5 for at in (HERE, THERE) for n in (0, 1)})
    ask()
    assert len(ask.committed()) == 4
    cluster.world.groups["a"] = Group(2, {(THERE, n): 1 for n in range(3)})  # it comes first
    sent = ask()
    assert set(ask.committed()) == {("a", THERE, n) for n in range(3)}
    assert {n: r["offsets_left_out"] for n, r in described(sent, 0).items()} == {"a": 0, "b": 4}
    assert set(described(sent, 1)) == {"a"}


def test_share_groups_are_listed_in_one_shard(cluster: FakeCluster, ask: Asker) -> None:
    cluster.world.groups["share"] = Group(1, type="share")
    sent = ask()
    assert described(sent, 0)["share"]["read_at_ms"] == -1
    assert described(sent, 0)["share"]["group_type"] == GroupType.SHARE
    assert described(sent, 1) == {}


def test_a_cluster_without_groups_is_listed(cluster: FakeCluster, ask: Asker) -> None:
    sent = ask()
    assert [(f.header.shard, f.header.complete, f.rows.num_rows) for f in sent] == [
        (0, True, 0),
        (1, True, 0),
    ]
