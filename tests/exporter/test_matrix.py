"""The matrix: what each replica is, counted by topic and broker, now and after a loss."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from streaming.bus.view import SnapshotStore
from tests.builders import NOW_MS, Log, Partition, a_state, empty, replicas_frame
from tests.exporter.test_exporter import MIB, a_client, a_store
from tests.simulator.shard import Shape, SimulatedShard
from twin.engine.shard_state import ShardState
from twin.step import step


def ask(client: TestClient, **parameters: Any) -> dict[str, Any]:
    answer = client.get("/api/v1/matrix", params=parameters)
    assert answer.status_code == 200, answer.text
    matrix: dict[str, Any] = answer.json()
    return matrix


def squares(partition: Partition, **config: Any) -> dict[str, str]:
    client = a_client(a_store(a_state(partition, **config)))
    [topic] = ask(client, partitions=1)["topics"]
    [listed] = topic["listed"]
    replicas: dict[str, str] = listed["replicas"]
    assert topic["brokers"] == {broker: {name: 1} for broker, name in replicas.items()}
    return replicas


JUDGED = {"eligible_local_log_bytes": MIB}
LARGE, SMALL, NOT_KNOWN = (
    Log(size_bytes=MIB),
    Log(local_start=1, size_bytes=10),
    Log(local_start=1, size_bytes=-1),
)


@pytest.mark.parametrize(
    ("partition", "config", "expected"),
    [
        (Partition(), {}, ("leads", "not_judged", "not_judged")),
        (Partition(log=LARGE), JUDGED, ("leads", "warm", "warm")),
        (Partition(log=LARGE, logs={2: SMALL}), JUDGED, ("leads", "cold", "warm")),
        (Partition(log=LARGE, logs={1: SMALL}), JUDGED, ("leads_cold", "warm", "warm")),
        (Partition(log=LARGE, logs={3: NOT_KNOWN}), JUDGED, ("leads", "warm", "assumed")),
        (Partition(isr=(1, 3)), {}, ("leads", "out_of_sync", "not_judged")),
        (Partition(isr=(1, 3), adding=(2,)), {}, ("leads", "joining", "not_judged")),
        (Partition(isr=(1,), elr=(2,)), {}, ("leads", "elr", "out_of_sync")),
        (Partition(isr=(1,), elr=(2,), offline=(2, 3)), {}, ("leads", "offline", "offline")),
        (Partition(isr=(1,), leader=-1, offline=(1,)), {}, ("offline", *["out_of_sync"] * 2)),
    ],
)
def test_a_square_is_the_worst_that_holds(partition, config, expected):
    assert squares(partition, **config) == dict(zip("123", expected, strict=True))


def test_a_partition_that_nobody_described_yet_is_unknown():
    state, _ = step(empty(), [replicas_frame([Partition()])], NOW_MS)
    for topic in ask(a_client(a_store(state)), partitions=9)["topics"]:
        assert [set(each["replicas"].values()) for each in topic["listed"]] <= [{"unknown"}, set()]
        assert topic["offline"] == 0


def two_shards() -> SnapshotStore:
    """A topic that is in both, one that is offline, and one in order."""
    halves = [
        (Partition("both", 0), Partition("lost", replicas=(1,), leader=-1, isr=(1,), offline=(1,))),
        (Partition("both", 1, replicas=(2, 3, 1)), Partition("a-fine", 7)),
    ]
    states = (replace(a_state(*parts), shard=i, shards=2) for i, parts in enumerate(halves))
    return a_store(*states)


def test_the_worst_topics_come_first_and_then_by_name_over_all_shards():
    matrix = ask(a_client(two_shards()))
    assert [topic["topic"] for topic in matrix["topics"]] == ["lost", "a-fine", "both"]
    lost, _, both = matrix["topics"]
    assert (lost["risk"], lost["offline"], lost["at_risk"]) == ("partition_offline", 1, 1)
    assert both["brokers"]["1"] == {"leads": 1, "not_judged": 1}
    assert both["partitions"] == 2
    assert both["listed"] is None


def test_topics_are_chosen_by_name_by_a_part_of_it_and_by_page():
    client = a_client(two_shards())
    assert [t["topic"] for t in ask(client, topic="both")["topics"]] == ["both"]
    answer = ask(client, search="B", limit=1)
    assert (answer["total"], [t["topic"] for t in answer["topics"]]) == (1, ["both"])
    page = ask(client, limit=1, offset=1)
    assert (page["total"], [t["topic"] for t in page["topics"]]) == (3, ["a-fine"])
    assert ask(client, search="(")["topics"] == []


def test_few_partitions_are_listed_in_the_order_of_their_numbers():
    topics = {t["topic"]: t["listed"] for t in ask(a_client(two_shards()), partitions=1)["topics"]}
    assert topics["both"] is None
    assert [each["partition"] for each in topics["a-fine"]] == [7]
    [both] = ask(a_client(two_shards()), partitions=2, topic="both")["topics"]
    assert [each["partition"] for each in both["listed"]] == [0, 1]


def test_a_loss_says_who_would_lead_by_each_rule():
    state = a_state(
        Partition("t", 0, log=LARGE, logs={2: SMALL}),
        Partition("t", 1, replicas=(1,)),
        Partition("t", 2, replicas=(3, 1)),
        **JUDGED,
    )
    client = a_client(a_store(state))
    matrix = ask(client, broker=1, partitions=9)
    [topic] = matrix["topics"]
    assert matrix["lost"] == [1]
    assert topic["would_lead"] == {"kafka": {"2": 1}, "kip1303": {"3": 1}, "kip501": {"2": 1}}
    assert topic["nobody_leads"] == {"kafka": 1, "kip1303": 1, "kip501": 1}
    assert [each["then"] for each in topic["listed"]] == [
        {"kafka": 2, "kip1303": 3, "kip501": 2},
        {"kafka": -1, "kip1303": -1, "kip501": -1},
        None,
    ]
    assert ask(client, rack="az-a")["lost"] == [1, 4]
    lost = client.get("/api/v1/whatif/lose", params={"broker": 1}).json()
    assert lost["outcomes"]["kafka"] == {"clean": {"cold": 1}, "none": {"none": 1}}
    assert lost["outcomes"]["kip1303"] == {"clean": {"warm": 1}, "none": {"none": 1}}


def test_what_does_not_exist_cannot_be_lost():
    client = a_client(two_shards())
    assert client.get("/api/v1/matrix?broker=99").status_code == 404
    assert client.get("/api/v1/matrix?rack=nowhere").status_code == 404


def test_every_replica_of_a_large_cluster_is_counted_once():
    shape = Shape(topics=7, partitions=13, brokers=6)
    states: list[ShardState] = []
    for number in range(3):
        shard = SimulatedShard(shape, 1, "c", number, 3)
        states.append(step(empty(shard=number, shards=3), shard.observe(NOW_MS), NOW_MS)[0])
    client = a_client(a_store(*states))
    matrix = ask(client, limit=1_000, partitions=1_000, broker=2)
    assert matrix["total"] == 21
    counted: Counter[str] = Counter()
    listed: Counter[str] = Counter()
    for topic in matrix["topics"]:
        assert topic["partitions"] == 13 == len(topic["listed"])
        for cell in topic["brokers"].values():
            counted.update(cell)
        for partition in topic["listed"]:
            listed.update(partition["replicas"].values())
    assert sum(counted.values()) == 3 * 7 * 13 * 3
    assert counted == listed
    lost = client.get("/api/v1/whatif/lose?broker=2").json()
    for rule, outcomes in lost["outcomes"].items():
        led = sum(sum(t["would_lead"].get(rule, {}).values()) for t in matrix["topics"])
        nobody = sum(t["nobody_leads"].get(rule, 0) for t in matrix["topics"])
        assert sum(sum(held.values()) for held in outcomes.values()) == led + nobody > 0


def names(client: TestClient, **parameters: Any) -> list[str]:
    answer = client.get("/api/v1/partitions", params=parameters).json()
    assert answer["total"] == len(answer["partitions"])
    return [f"{each['topic']}-{each['partition']}" for each in answer["partitions"]]


def test_partitions_are_found_by_parts_of_their_names_and_by_racks():
    client = a_client(a_store(a_state(
        *(Partition("orders", i, (2, 3)) for i in (0, 1, 10)), Partition("re-orders", 1, (1, 4)),
        Partition("clicks", 1, (4, 2)),
    )))  # fmt: skip
    assert names(client, search="ORDERS") == ["orders-0", "orders-1", "orders-10", "re-orders-1"]
    assert names(client, search="s-1") == ["clicks-1", "orders-1", "orders-10", "re-orders-1"]
    assert names(client, search="orders-10") == ["orders-10"]
    assert names(client, search="e-o") == ["re-orders-1"]
    assert names(client, search="-") == ["re-orders-1"]
    assert names(client, search="[") == []
    # 1 and 4 are in az-a.
    assert names(client, rack="az-a") == ["clicks-1", "re-orders-1"]
    assert names(client, rack="nowhere") == []
    assert names(client, rack="az-b", search="clicks") == ["clicks-1"]


def test_partitions_come_worst_first_on_request_and_those_without_a_risk_last():
    client = a_client(two_shards())
    everything = ["lost-0", "both-0", "a-fine-7", "both-1"]
    assert names(client, sort="worst") == everything
    assert names(client, sort="worst", limit=1_000) == everything
    assert client.get("/api/v1/partitions?sort=best").status_code == 400
