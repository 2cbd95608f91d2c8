"""Groups: what coordinators say arrives as it is, and what they do not say is unknown."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest

from streaming.collector.groups.committed import NO_ANSWER
from streaming.collector.groups.coordinators import RequestLimits
from streaming.collector.groups.requests import CONSUMER_GROUP_DESCRIBE
from streaming.collector.groups.round import LEFT_OUT, NO_OFFSETS, NOT_LISTED, GroupRound
from streaming.collector.sources.groups import GroupSource
from streaming.collector.wire.connections import Address
from streaming.runtime.config import ClusterConfig, CollectorConfig, Config
from tests.collector.fake_broker import FakeCluster, Partition, Topic, World, fake_cluster
from tests.collector.fake_groups import (
    COORDINATOR_LOAD_IN_PROGRESS,
    GROUP_AUTHORIZATION_FAILED,
    NOT_COORDINATOR,
    ConsumerGroupDescribeRequest,
    Group,
    Member,
)
from tests.collector.older import all_be_kafka
from tests.waiting import patient_ms, until

OFFSETS_TOPIC = "__consumer_offsets"
DEADLINE_MS = 4_000


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Three brokers that each lead a partition of the topic of groups."""
    led = {number: Partition([1 + number, 1 + (number + 1) % 3]) for number in range(3)}
    with fake_cluster(World(topics={OFFSETS_TOPIC: Topic(led), "orders": Topic({})})) as three:
        yield three


def groups_of(cluster: FakeCluster, **groups: Group) -> None:
    cluster.world.groups |= groups


@pytest.fixture
def source(cluster: FakeCluster) -> Iterator[GroupSource]:
    with a_source(cluster) as made:
        yield made


def a_source(
    cluster: FakeCluster,
    limits: RequestLimits | None = None,
    background: bool = False,
    **section: Any,
) -> GroupSource:
    config = Config(
        cluster=ClusterConfig(bootstrap=cluster.bootstrap),
        collector=CollectorConfig(**{"deadline_ms": patient_ms(DEADLINE_MS)} | section),
    )
    made = GroupSource(config, "test", background=background, limits=limits)
    made.update_metadata(
        [Address(b.node, "127.0.0.1", b.port, "") for b in cluster.brokers.values()]
    )
    return made


def read(source: GroupSource) -> GroupRound:
    source.read_now()
    round_ = source.take()
    assert round_ is not None, source.problems
    return round_


def rows(round_: GroupRound) -> dict[tuple[str, str, int], int]:
    """The committed offset of each group, topic and partition."""
    offsets = round_.offsets
    return {
        (round_.group[g], offsets.topic[t], p): o
        for g, t, p, o in zip(
            offsets.group_of.tolist(), offsets.topic_of.tolist(), offsets.partition.tolist(),
            offsets.committed.tolist(), strict=True,
        )
    }  # fmt: skip


def column(round_: GroupRound, name: str) -> dict[str, Any]:
    """A value of each group."""
    values = getattr(round_, name)
    values = values if isinstance(values, tuple) else values.tolist()
    return dict(zip(round_.group, values, strict=True))


# ---------------------------------------------------------------- problems


def test_offsets_of_all_coordinators_arrive(cluster, source) -> None:
    groups_of(
        cluster,
        a=Group(1, {("orders", 0): 5, ("orders", 1): 7}),
        b=Group(2, {("orders", 0): 9, ("other", 3): 1}),
        c=Group(3),
    )
    round_ = read(source)
    assert round_.group == ("a", "b", "c")
    assert round_.complete
    assert column(round_, "coordinator") == {"a": 1, "b": 2, "c": 3}
    assert column(round_, "error") == {"a": 0, "b": 0, "c": 0}
    assert rows(round_) == {
        ("a", "orders", 0): 5, ("a", "orders", 1): 7, ("b", "orders", 0): 9, ("b", "other", 3): 1,
    }  # fmt: skip
    assert source.problems == ()


def test_a_cluster_without_groups_is_a_complete_listing_of_none(cluster, source) -> None:
    round_ = read(source)
    assert (round_.group, round_.complete, len(round_.offsets)) == ((), True, 0)
    del cluster.world.topics[OFFSETS_TOPIC]  # it is created with the first group
    assert read(source).complete


def test_states_types_and_members_are_those_of_the_coordinators(cluster, source) -> None:
    groups_of(
        cluster,
        classic=Group(1, members=[Member(), Member()], state="PreparingRebalance"),
        empty=Group(1, state="Empty"),
        dead=Group(2, state="Dead"),
        modern=Group(2, type="consumer", members=[Member()], state="Assigning"),
        streams=Group(3, {("orders", 0): 4}, type="streams", state="Stable"),
        connect=Group(3, members=[Member()], protocol_type="connect"),
    )
    round_ = read(source)
    assert column(round_, "state") == {
        "classic": "PreparingRebalance", "empty": "Empty", "dead": "Dead", "modern": "Assigning",
        "streams": "Stable", "connect": "Stable",
    }  # fmt: skip
    assert column(round_, "type") == {
        "classic": "classic", "empty": "classic", "dead": "classic", "modern": "consumer",
        "streams": "streams", "connect": "classic",
    }  # fmt: skip
    assert column(round_, "members") == {
        "classic": 2, "empty": 0, "dead": 0, "modern": 1, "streams": -1, "connect": 1,
    }  # fmt: skip
    assert rows(round_) == {("streams", "orders", 0): 4}


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_partitions_are_assigned_to_members_with_their_racks(cluster, source, kind: str) -> None:
    members = [
        Member({"orders": [0, 1]}, rack="az-a", target={"orders": [0]}),
        Member({"orders": [2], "other": [0]}),
    ]
    offsets = {("orders", 0): 5, ("orders", 3): 8}
    groups_of(cluster, a=Group(1, offsets, members, type=kind))
    round_ = read(source)
    assert rows(round_) == {
        ("a", "orders", 0): 5, ("a", "orders", 1): -1, ("a", "orders", 2): -1,
        ("a", "orders", 3): 8, ("a", "other", 0): -1,
    }  # fmt: skip
    offsets_of = round_.offsets
    racks = [offsets_of.rack[k] for k in offsets_of.rack_of]
    values = zip(offsets_of.is_assigned.tolist(), racks, strict=True)
    assigned = dict(zip(rows(round_), values, strict=True))
    assert assigned == {
        ("a", "orders", 0): (True, "az-a"),
        ("a", "orders", 1): (True, "az-a"),
        ("a", "orders", 2): (True, ""),
        ("a", "orders", 3): (False, ""),
        ("a", "other", 0): (True, ""),
    }


def test_a_member_that_writes_nonsense_has_no_rack(cluster, source) -> None:
    member = Member({"orders": [0]}, subscription=b"\0\7nonsense")
    groups_of(cluster, a=Group(1, members=[member]))
    round_ = read(source)
    assert rows(round_) == {("a", "orders", 0): -1}
    assert column(round_, "members") == {"a": 1}


def test_share_groups_have_no_offsets_and_are_not_asked(cluster, source) -> None:
    groups_of(cluster, share=Group(1, {("orders", 0): 5}, type="share"))
    round_ = read(source)
    assert column(round_, "error") == {"share": NO_OFFSETS}
    assert column(round_, "members") == {"share": -1}
    assert rows(round_) == {}
    assert cluster[1].asked_of(OffsetFetchRequest) == []
    assert source.problems == ()


def test_groups_are_chosen_by_their_whole_names(cluster) -> None:
    groups_of(cluster, **{name: Group(1) for name in ("pay", "pay-test", "audit", "repay")})
    with a_source(cluster, include_groups="pay.*|audit", exclude_groups=".*-test") as source:
        assert read(source).group == ("audit", "pay")
    assert [r.groups for r in cluster[1].asked_of(DescribeGroupsRequest)] == [["audit", "pay"]]


def test_nothing_is_asked_if_the_interval_is_0(cluster) -> None:
    with a_source(cluster, background=True, groups_interval_ms=0) as source:
        source.read_now()
        assert source.take() is None
    assert cluster[1].asked == []


def test_a_round_that_is_given_back_gives_way_to_a_newer_one(cluster, source) -> None:
    first = read(source)
    source.give_back(first)
    assert source.take() is first
    assert source.take() is None
    source.give_back(first)
    assert read(source).read_at_ms > first.read_at_ms
    assert source.take() is None


def test_it_reads_in_the_background_and_a_slow_coordinator_holds_up_nobody(cluster) -> None:
    groups_of(cluster, a=Group(1, {("orders", 0): 5}))
    asked, release = threading.Event(), threading.Event()

    def late(request: Any, version: int) -> Any:
        asked.set()
        release.wait(60)
        return cluster[1]._OffsetFetchRequest(request, version)

    cluster[1].answers[OffsetFetchRequest.API_KEY] = late
    with a_source(
        cluster, background=True, groups_interval_ms=200, deadline_ms=patient_ms(60_000)
    ) as source:
        assert asked.wait(60)
        assert source.take() is None  # and the cycle goes on
        release.set()
        assert rows(until(source.take)) == {("a", "orders", 0): 5}


# ---------------------------------------------------------------- older brokers


@pytest.mark.parametrize("version", ["2.3", "2.8", "3.3", "3.7"])
def test_older_brokers_say_less(cluster, source, version: str) -> None:
    all_be_kafka(version, cluster)
    groups_of(
        cluster,
        a=Group(1, {("orders", 0): 5}, [Member({"orders": [0]})]),
        b=Group(1, {("orders", 1): 6}, state="Empty"),
    )
    for _ in range(2):
        round_ = read(source)
        assert rows(round_) == {("a", "orders", 0): 5, ("b", "orders", 1): 6}
        assert column(round_, "type") == {"a": "", "b": ""}
        assert column(round_, "state") == {"a": "Stable", "b": "Empty"}
        assert column(round_, "members") == {"a": 1, "b": 0}
    assert source.problems == ()


def test_a_broker_that_cannot_answer_for_all_topics_leaves_its_groups_unknown(
    cluster, source
) -> None:
    cluster[1].highest = {9: 1}
    groups_of(cluster, a=Group(1, {("orders", 0): 5}), b=Group(2, {("orders", 0): 6}))
    round_ = read(source)
    assert column(round_, "error") == {"a": NO_ANSWER, "b": 0}
    assert [str(p) for p in source.problems] == [
        "groups: NoAnswer: their offsets stay as they were (a)"
    ]


# ---------------------------------------------------------------- what changes


def test_groups_that_come_are_there_and_those_that_go_are_unknown_for_one_round(
    cluster, source
) -> None:
    groups_of(cluster, a=Group(1, {("orders", 0): 5}), b=Group(2, {("orders", 0): 6}))
    read(source)
    del cluster.world.groups["b"]
    groups_of(cluster, c=Group(2, {("orders", 0): 7}))
    round_ = read(source)
    assert column(round_, "error") == {"a": 0, "b": NOT_LISTED, "c": 0}
    assert rows(round_) == {("a", "orders", 0): 5, ("c", "orders", 0): 7}
    assert round_.complete
    assert source.problems == ()  # a group may go
    assert read(source).group == ("a", "c")


def test_offsets_that_go_backwards_or_are_deleted_are_taken_as_they_are(cluster, source) -> None:
    groups_of(cluster, a=Group(1, {("orders", 0): 5, ("orders", 1): 7}))
    read(source)
    cluster.world.groups["a"].offsets = {("orders", 0): 2, ("orders", 1): -1}
    assert rows(read(source)) == {("a", "orders", 0): 2}
    cluster.world.groups["a"].offsets = {}
    round_ = read(source)
    assert (rows(round_), column(round_, "error")) == ({}, {"a": 0})


def test_each_round_is_later_than_the_one_before(cluster, source, monkeypatch) -> None:
    first = read(source).read_at_ms
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert read(source).read_at_ms == first + 1


def test_requests_are_kept_while_the_groups_stay(cluster, source) -> None:
    groups_of(cluster, a=Group(1, {("orders", 0): 5}))
    read(source)
    kept = source._coordinators._kept[1]
    cluster.world.groups["a"].offsets[("orders", 0)] = 1 << 40
    assert rows(read(source)) == {("a", "orders", 0): 1 << 40}
    assert source._coordinators._kept[1] is kept
    groups_of(cluster, b=Group(1, {("orders", 0): 6}))
    assert len(rows(read(source))) == 2
    assert source._coordinators._kept[1] is not kept


# ---------------------------------------------------------------- failures


def test_a_coordinator_that_does_not_answer_leaves_its_groups_unknown(cluster, source) -> None:
    groups_of(cluster, a=Group(1, {("orders", 0): 5}), b=Group(2, {("orders", 0): 6}))
    cluster[1].silent = {OffsetFetchRequest.API_KEY}
    round_ = read(source)
    assert column(round_, "error") == {"a": NO_ANSWER, "b": 0}
    assert rows(round_) == {("b", "orders", 0): 6}
    assert [str(p) for p in source.problems] == [
        "groups of broker 1: did not answer within the deadline"
    ]


def test_groups_of_a_killed_coordinator_stay_listed_until_another_lists_them(
    cluster, source
) -> None:
    groups_of(cluster, a=Group(3, {("orders", 0): 5}), b=Group(2, {("orders", 0): 6}))
    read(source)
    cluster[3].stop()
    for _ in range(3):
        round_ = read(source)
        assert not round_.complete
        assert column(round_, "error") == {"a": NOT_LISTED, "b": 0}
        assert column(round_, "coordinator")["a"] == -1
    assert {p.broker for p in source.problems} == {3}
    cluster.world.groups["a"].coordinator = 1
    cluster.world.topics[OFFSETS_TOPIC].partitions[2].leader = 1
    round_ = read(source)
    assert round_.complete  # the leader of each partition has answered
    assert column(round_, "coordinator") == {"a": 1, "b": 2}
    assert rows(round_) == {("a", "orders", 0): 5, ("b", "orders", 0): 6}


def test_a_partition_of_groups_without_a_leader_makes_the_listing_incomplete(
    cluster, source
) -> None:
    groups_of(cluster, a=Group(1))
    cluster.world.topics[OFFSETS_TOPIC].partitions[2].leader = -1
    assert not read(source).complete


def test_without_rights_on_the_topic_of_groups_every_broker_has_to_answer(cluster, source) -> None:
    cluster.world.hidden.add(OFFSETS_TOPIC)
    assert read(source).complete
    cluster[2].silent = {ListGroupsRequest.API_KEY}
    assert not read(source).complete


def test_a_coordinator_that_is_loading_is_not_taken_for_one_without_groups(cluster, source) -> None:
    groups_of(cluster, a=Group(1, {("orders", 0): 5}))
    read(source)
    cluster.world.list_errors[1] = COORDINATOR_LOAD_IN_PROGRESS
    for _ in range(2):
        round_ = read(source)
        assert not round_.complete
        assert column(round_, "error") == {"a": NOT_LISTED}
    assert [str(p) for p in source.problems] == [
        "groups of broker 1: CoordinatorLoadInProgress: its groups stay as they were"
    ]


def test_a_group_whose_coordinator_moved_is_listed_anew_and_asked_there(cluster, source) -> None:
    moving = Group(2, {("orders", 0): 5}, [Member({"orders": [0]})], listed_by=1)
    groups_of(cluster, a=moving, b=Group(1, {("orders", 0): 6}))
    answer = cluster[1]._DescribeGroupsRequest

    def moved(request: Any, version: int) -> Any:
        moving.listed_by = 2  # from now on, the second listing included
        return answer(request, version)

    cluster[1].answers[DescribeGroupsRequest.API_KEY] = moved
    round_ = read(source)
    assert rows(round_) == {("a", "orders", 0): 5, ("b", "orders", 0): 6}
    assert column(round_, "coordinator") == {"a": 2, "b": 1}
    assert column(round_, "members") == {"a": 1, "b": 0}
    assert source.problems == ()


def test_a_group_that_no_broker_coordinates_is_unknown(cluster, source) -> None:
    groups_of(cluster, a=Group(2, {("orders", 0): 5}, listed_by=1))
    round_ = read(source)
    assert column(round_, "error") == {"a": NOT_COORDINATOR}
    assert [str(p) for p in source.problems] == [
        "groups: NotCoordinator: their offsets stay as they were (a)"
    ]


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_groups_that_may_not_be_described_are_unknown_and_said_once(
    cluster, source, kind: str
) -> None:
    refused = {
        f"g{i}": Group(1, {("orders", 0): 5}, type=kind, error=GROUP_AUTHORIZATION_FAILED)
        for i in range(5)
    }
    groups_of(cluster, **refused, open=Group(1, {("orders", 0): 6}))
    round_ = read(source)
    assert rows(round_) == {("open", "orders", 0): 6}
    [problem] = source.problems
    assert str(problem) == (
        "groups: GroupAuthorizationFailed: their offsets stay as they were (g0, g1, g2 and 2 more)"
    )
    assert problem.is_denied


def test_members_that_may_not_be_described_are_unknown(cluster, source) -> None:
    groups_of(cluster, a=Group(1, {("orders", 0): 5}, type="consumer", members=[Member()]))
    cluster[1].answers[CONSUMER_GROUP_DESCRIBE] = lambda request, version: FakeRefusal.answer(
        cluster, request, version
    )
    round_ = read(source)
    assert column(round_, "members") == {"a": -1}
    assert rows(round_) == {("a", "orders", 0): 5}
    assert [str(p) for p in source.problems] == [
        "groups: GroupAuthorizationFailed: their members are unknown (a)"
    ]


class FakeRefusal:
    """A coordinator that tells offsets, and no members."""

    @staticmethod
    def answer(cluster: FakeCluster, request: Any, version: int) -> Any:
        group = cluster.world.groups["a"]
        cluster.world.groups["a"] = replace(group, error=GROUP_AUTHORIZATION_FAILED)
        try:
            return cluster[1]._ConsumerGroupDescribeRequest(request, version)
        finally:
            cluster.world.groups["a"] = group


def test_an_offset_that_is_refused_makes_its_group_unknown(cluster, source) -> None:
    offsets = {("orders", 0): 5, ("orders", 1): 6}
    groups_of(cluster, a=Group(1, offsets, partition_errors={("orders", 1): 3}))
    round_ = read(source)
    assert column(round_, "error") == {"a": 3}
    assert rows(round_) == {}


def test_a_cluster_that_cannot_be_reached_is_a_problem_and_no_empty_listing(cluster) -> None:
    with a_source(cluster) as source:
        cluster.stop()
        source.read_now()
        assert source.take() is None
        assert [p.error for p in source.problems] == ["Unreachable"]


# ---------------------------------------------------------------- too much


def test_groups_of_the_last_names_are_left_out_as_a_whole(cluster) -> None:
    three = {("orders", n): n for n in range(3)}
    groups_of(cluster, a=Group(1, three), b=Group(2, three), c=Group(3), d=Group(1, three))
    with a_source(cluster, max_group_offsets=6) as source:
        round_ = read(source)
        assert column(round_, "error") == {"a": 0, "b": 0, "c": 0, "d": LEFT_OUT}
        assert column(round_, "left_out") == {"a": 0, "b": 0, "c": 0, "d": 3}
        assert {name for name, *_ in rows(round_)} == {"a", "b"}
        assert [str(p) for p in source.problems] == [
            "groups: there are more offsets than collector.max_group_offsets; left out: "
            "3 offsets of 1 group"
        ]
    with a_source(cluster, max_group_offsets=9) as source:
        assert len(read(source).offsets) == 9
        assert source.problems == ()


def test_many_groups_are_asked_for_in_several_requests(cluster) -> None:
    many = {f"g{i:02}": Group(1 + i % 2, {("orders", 0): i}) for i in range(40)}
    groups_of(cluster, **many)
    with a_source(cluster, RequestLimits(groups=3, requests=2)) as source:
        round_ = read(source)
        assert rows(round_) == {(f"g{i:02}", "orders", 0): i for i in range(40)}
        assert not np.any(round_.error)
        asked = [len(r.groups) for r in cluster[1].asked_of(OffsetFetchRequest)]
        assert asked == [3] * 6 + [2]


def test_a_coordinator_that_fails_is_not_asked_on(cluster) -> None:
    def fails(*_: Any) -> Any:
        raise ConnectionResetError  # the connection is closed

    cluster[1].answers[OffsetFetchRequest.API_KEY] = fails
    groups_of(cluster, **{f"g{i}": Group(1) for i in range(9)}, other=Group(2))
    with a_source(cluster, RequestLimits(groups=1, requests=2)) as source:
        round_ = read(source)
    assert column(round_, "error") == {**{f"g{i}": NO_ANSWER for i in range(9)}, "other": 0}
    assert len(cluster[1].asked_of(OffsetFetchRequest)) == 1


def test_consumer_groups_are_described_by_their_own_request(cluster, source) -> None:
    groups_of(cluster, a=Group(1, type="consumer"), b=Group(1))
    read(source)
    assert [r.group_ids for r in cluster[1].asked_of(ConsumerGroupDescribeRequest)] == [["a"]]
    assert [r.groups for r in cluster[1].asked_of(DescribeGroupsRequest)] == [["b"]]
