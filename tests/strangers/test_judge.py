"""What the judge of a real cluster calls different, and which risks it calls true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from streaming.runtime.kafka.uuids import uuid_text
from tests.cluster.broker_client import PartitionState
from tests.strangers.day_one import explains
from tests.strangers.judge import differences, false_risks, risks_of
from tests.strangers.kafka_view import GAUGES, KafkaView, Offsets
from tests.strangers.kinds import INTERNAL, KINDS, LONGEST_NAME, assignment, kind_of

KEY = ("t", 0)
ID = bytes(range(16))
AT = Offsets(0, 10, 100)
WHOLE = PartitionState(ID, 1, 3, (1, 2, 3), frozenset({1, 2, 3}), frozenset(), frozenset())


def seen(state: PartitionState = WHOLE, **gauges: int) -> KafkaView:
    settings = {"min.insync.replicas": "2", "remote.storage.enable": "false"}
    counts = dict.fromkeys(GAUGES, 0) | gauges
    return KafkaView({KEY: state}, {"t": settings}, frozenset({1, 2, 3}), counts)


def served(end: int | None = 100, risks: Iterable[str] = (), **values: Any) -> dict[str, Any]:
    replicas = [
        {"broker": b, "log_start_offset": 0, "local_log_start_offset": 10, "log_end_offset": end}
        for b in (1, 2, 3)
    ]
    return {
        "topic_id": uuid_text(ID), "leader": 1, "leader_epoch": 3, "replicas": replicas,
        "isr": [1, 2, 3], "min_isr": 2, "risks": list(risks),
    } | values  # fmt: skip


def compare(view: KafkaView, mine: dict[str, Any], end: int = 100, **summary: int) -> list[str]:
    totals = dict.fromkeys(GAUGES.values(), 0) | summary
    return differences(
        (view, {KEY: AT}), {KEY: mine}, totals, {KEY: replace(AT, log_end_offset=end)}
    )


def test_what_kafka_says_too_is_no_difference() -> None:
    assert compare(seen(), served()) == []


@pytest.mark.parametrize(
    "values",
    [
        {"topic_id": uuid_text(bytes(16))}, {"leader": 2}, {"leader_epoch": 2}, {"isr": [1, 2]},
        {"min_isr": 1}, {"replicas": served()["replicas"][::-1]}, {"end": 99}, {"end": None},
    ],
)  # fmt: skip
def test_each_value_of_a_partition_is_compared(values: dict[str, Any]) -> None:
    [line] = compare(seen(), served(**values))
    assert line.startswith("t-0: ")


def test_an_end_may_lie_between_two_readings() -> None:
    assert compare(seen(), served(end=150), end=200) == []
    assert len(compare(seen(), served(end=201), end=200)) == 1


def test_a_partition_of_one_side_alone_is_a_difference() -> None:
    assert differences((seen(), {}), {}, dict.fromkeys(GAUGES.values(), 0), {}) == [
        "t-0: not in the API"
    ]
    more = {KEY: served(), ("u", 0): served()}
    [line] = differences((seen(), {}), more, dict.fromkeys(GAUGES.values(), 0), {})
    assert line == "u-0: not in Kafka"


@pytest.mark.parametrize("gauge", sorted(GAUGES))
def test_each_gauge_of_kafka_is_compared(gauge: str) -> None:
    assert len(compare(seen(**{gauge: 1}), served())) == 1
    assert compare(seen(**{gauge: 1}), served(), **{GAUGES[gauge]: 1}) == []


def true_risks(state: PartitionState, view: KafkaView | None = None) -> set[str]:
    return set(risks_of(view or seen(state), AT, KEY).must)


def test_risks_follow_from_metadata_and_settings() -> None:
    one, two = replace(WHOLE, isr=frozenset({1})), replace(WHOLE, isr=frozenset({1, 2}))
    assert true_risks(WHOLE) == set()
    assert true_risks(two) == {"at_min_isr"}
    assert true_risks(one) == {"under_min_isr", "no_clean_successor"}
    assert true_risks(replace(one, elr=frozenset({2}))) == {"under_min_isr"}
    assert true_risks(replace(WHOLE, leader=-1)) == {"partition_offline"}
    assert true_risks(replace(WHOLE, replicas=(1,), isr=frozenset({1}))) == set()


def test_a_successor_in_a_failed_log_directory_is_none() -> None:
    eligible = replace(WHOLE, isr=frozenset({1}), elr=frozenset({2}))
    assert "no_clean_successor" not in true_risks(eligible)
    assert "no_clean_successor" in true_risks(replace(eligible, offline=frozenset({2})))


def test_a_successor_must_be_alive() -> None:
    two = replace(WHOLE, isr=frozenset({1, 2}))
    fenced = replace(seen(two), alive=frozenset({1, 3}))
    assert "no_clean_successor" in true_risks(two, fenced)


def test_false_and_missing_risks_are_named() -> None:
    view = seen(replace(WHOLE, isr=frozenset({1, 2})))
    lines = false_risks(view, {KEY: AT}, {KEY: served(risks=["isr_thrash"])})
    assert [line.split(" (")[0] for line in lines] == [
        "t-0: isr_thrash is false",
        "t-0: at_min_isr is missing",
    ]
    assert false_risks(view, {KEY: AT}, {KEY: served(risks=["at_min_isr"])}) == []


def test_records_that_were_lost_must_be_a_risk_and_others_must_not() -> None:
    lost = {(WHOLE.topic_id, KEY[1])}
    for risks, truth, expected in (
        (["records_lost"], lost, []),
        ([], lost, ["t-0: records_lost is missing"]),
        (["records_lost"], set(), ["t-0: records_lost is false"]),
    ):
        lines = false_risks(seen(), {KEY: AT}, {KEY: served(risks=risks)}, truth)
        assert [line.split(" (")[0] for line in lines] == expected


def test_cold_may_only_be_who_lacks_what_is_in_remote_storage() -> None:
    settings = {"t": {"min.insync.replicas": "2", "remote.storage.enable": "true"}}
    tiered = replace(seen(), settings=settings)
    assert "leader_cold" in risks_of(tiered, AT, KEY).may
    assert "leader_cold" not in risks_of(tiered, replace(AT, log_start_offset=10), KEY).may
    assert "leader_cold" not in risks_of(seen(), AT, KEY).may


def test_there_are_120_topics_of_kinds_that_their_names_tell() -> None:
    named = [(topic, kind.name) for kind in KINDS for topic in kind.names()]
    assert len({topic for topic, _ in named}) == len(named) == 120
    assert [kind_of(topic) for topic, _ in named] == [kind for _, kind in named]
    assert max(len(topic) for topic, _ in named) == LONGEST_NAME
    assert kind_of("__consumer_offsets") == INTERNAL


def test_topics_have_one_to_twelve_partitions_whose_replicas_are_on_different_brokers() -> None:
    placed = [assignment(kind, n) for kind in KINDS for n in range(kind.topics)]
    assert {1, 12} <= {len(each) for each in placed} <= set(range(1, 13))
    assert all(len(set(each)) == len(each) for topic in placed for each in topic)


@pytest.mark.parametrize(
    ("late", "is_explained"), [([2], True), ([], True), ([3], False), ([2, 3], False)]
)
def test_only_the_replica_of_the_broker_that_restarts_may_be_late(
    late: list[int], is_explained: bool
) -> None:
    assert explains([1, 2], "written", [2, 3, 4], "isr_shrink_near", late) is is_explained


def test_nothing_explains_a_risk_of_a_partition_on_other_brokers() -> None:
    for risk in ("isr_shrink_near", "at_min_isr", "no_clean_successor"):
        assert not explains([1, 2], "written", [3, 4, 5], risk)
    assert not explains([1, 2], "written", [1, 3, 4], "isr_shrink_near", [1])
