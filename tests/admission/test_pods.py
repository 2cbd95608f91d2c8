"""Which broker a pod is."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.admission.going import SEEN_AFTER_S, GoingBrokers
from streaming.admission.pods import Pod, broker_of
from tests.admission.api_server import a_pod

STRIMZI = {"strimzi.io/kind": "Kafka", "strimzi.io/cluster": "c", "strimzi.io/broker-role": "true"}
KAFKA = {"app": "kafka", "tier": "data"}


@pytest.mark.parametrize(
    ("name", "meta", "expected"),
    [
        ("c-brokers-12", {"labels": STRIMZI}, 12),
        ("c-controllers-3", {"labels": STRIMZI | {"strimzi.io/broker-role": "false"}}, None),
        ("c-brokers-12", {"labels": {"strimzi.io/cluster": "c"}}, None),
        ("kafka-0", {"labels": {"app": "kafka"}}, 100),
        ("kafka-7", {"labels": KAFKA}, 107),
        ("kafka-7", {"labels": {"app": "other"}}, None),
        ("kafka-7", {}, None),
        ("kafka", {"labels": KAFKA}, None),
        ("any", {"annotations": {"kafka-twin.io/broker": "5"}}, 5),
        ("kafka-7", {"labels": KAFKA, "annotations": {"kafka-twin.io/broker": "5"}}, 5),
        ("kafka-7", {"labels": KAFKA, "annotations": {"kafka-twin.io/broker": "five"}}, 107),
        ("kafka-7", {"labels": None, "annotations": None}, None),
    ],
)
def test_the_broker_of_a_pod(name: str, meta: dict[str, Any], expected: int | None):
    assert broker_of(Pod.of(a_pod(name, **meta)), {"app": "kafka"}, 100) == expected


def test_without_a_selector_only_strimzis_pods_and_annotated_ones_are_brokers():
    assert broker_of(Pod.of(a_pod("kafka-7", labels=KAFKA)), {}, 0) is None
    assert broker_of(Pod.of(a_pod("c-1", labels=STRIMZI)), {}, 0) == 1


def test_what_matters_of_a_pod_is_read():
    pod = Pod.of(a_pod("p", grace_s=0, deletionTimestamp="2026-11-26T00:00:00Z"))
    assert (pod.is_ending, pod.grace_s, pod.may_go) == (True, 0, False)
    assert Pod.of(a_pod("p")).grace_s == 30
    assert Pod.of({}) == Pod("", "")
    allowed = {"kafka-twin.io/allow-eviction": "true"}
    assert Pod.of(a_pod("p", annotations=allowed)).may_go


def test_a_broker_that_was_let_go_counts_until_the_twin_has_certainly_seen_it():
    going = GoingBrokers()
    going.add(1, 60, 100)
    going.add(2, 30, 110)
    assert going.others(3, 111) == [1, 2]
    assert going.others(2, 111) == [1]
    assert going.others(3, 110 + 30 + SEEN_AFTER_S) == [1]
    assert going.others(3, 100 + 60 + SEEN_AFTER_S) == []
