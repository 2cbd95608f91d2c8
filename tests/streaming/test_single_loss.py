"""Which broker can be lost: the sentence that console, CLI, API and Grafana show."""

from __future__ import annotations

import pytest

from streaming.bus.view import ClusterView, SnapshotStore
from streaming.questions.single_loss import lose_each, single_loss
from tests.builders import NOW_MS, Partition, a_state, brokers_frame
from tests.exporter.test_exporter import a_client, with_events
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.shard_state import ShardState
from twin.step import step

HEALTHY = Partition("orders")
ONE = Partition("scratch", replicas=(3,))
PAIR = Partition("pair", replicas=(1, 2))
SHRUNK = Partition("shrunk", replicas=(3, 1, 2), isr=(3,))
OWN = Partition("kafka-twin.events", replicas=(2,))


def view_of(state: ShardState) -> ClusterView:
    store = SnapshotStore(CATALOG, "c", 1)
    store.take_snapshot(b"c/0", codec.encode(state))
    return store.publish()


def sentence(*parts: Partition, own: tuple[str, ...] = (), **configs) -> str:
    view = view_of(a_state(*parts, brokers=(1, 2, 3), **configs))
    return single_loss(view, own)["sentence"]


@pytest.mark.parametrize(
    ("silent", "expected"),
    [
        ((), "You can lose any one broker."),
        ((3,), "Broker 3 has not answered since 2027-01-15 08:00:00 UTC. You can lose any one "
               "broker."),
        ((2, 3), "Brokers 2 and 3 have not answered since 2027-01-15 08:00:00 UTC. You can lose "
                 "any broker but 1."),
        ((1, 2, 3), "No broker has answered since 2027-01-15 08:00:00 UTC: what is shown is how "
                    "the cluster was then."),
    ],
)  # fmt: skip
def test_brokers_that_do_not_answer_are_said_after_two_cycles(silent, expected):
    state = a_state(HEALTHY, brokers=(1, 2, 3))
    for at_ms in (NOW_MS + 5_000, NOW_MS + 10_000):
        state, _ = step(state, [brokers_frame(at_ms=at_ms, silent=silent)], at_ms)
        assert single_loss(view_of(state), ())["silent"] == []
    state, _ = step(state, [brokers_frame(at_ms=NOW_MS + 15_000, silent=silent)], NOW_MS + 15_000)
    answer = single_loss(view_of(state), ())
    assert answer["sentence"] == expected
    assert answer["silent"] == list(silent)


@pytest.mark.parametrize(
    ("parts", "configs", "expected"),
    [
        ((HEALTHY,), {}, "You can lose any one broker."),
        ((SHRUNK,), {}, "You can lose any broker but 3."),
        (
            (SHRUNK, ONE),
            {},
            "You can lose any broker but 3; 1 partition has one replica and goes with its broker.",
        ),
        (
            (ONE, Partition("scratch", 1, replicas=(2,))),
            {},
            "You can lose any one broker; 2 partitions have one replica and go with their broker.",
        ),
        ((ONE,), {"topics": {"scratch": {"one_replica_accepted": 1}}},
         "You can lose any one broker."),
        (
            (PAIR,),
            {"min_insync_replicas": 2},
            "You can lose any one broker; 1 partition has no spare replica and refuses acks=all "
            "without any of its brokers.",
        ),
        (
            tuple(Partition(f"t{b}", replicas=(b, b % 3 + 1), isr=(b,)) for b in (1, 2, 3)),
            {},
            "You cannot lose any broker.",
        ),
        (
            tuple(Partition(f"t{b}", replicas=(b, b % 3 + 1), isr=(b,)) for b in (1, 2)),
            {},
            "The only broker you can lose is 3.",
        ),
    ],
)  # fmt: skip
def test_the_sentence_judges_what_can_be_helped_and_counts_the_rest(parts, configs, expected):
    assert sentence(*parts, **configs) == expected


def test_the_twins_own_topics_of_one_replica_are_named():
    assert sentence(ONE, OWN, own=(OWN.topic, "kafka-twin.snapshots")) == (
        "You can lose any one broker; 2 partitions have one replica and go with their broker "
        "(1 of kafka-twin's own topics)."
    )


def test_a_broker_that_is_down_is_in_no_list():
    view = view_of(a_state(SHRUNK, brokers=(1, 2, 3), fenced=(2,)))
    answer = single_loss(view, ())
    assert (answer["can_be_lost"], answer["cannot_be_lost"]) == ([1], [3])
    rows = lose_each.text(lose_each.data(view, {})).rows
    assert [row[:2] for row in rows] == [(1, "yes"), (2, "down"), (3, "no")]


def test_before_anything_was_observed_nothing_is_called_safe():
    answer = single_loss(ClusterView(), ())
    assert answer["sentence"] == "Nothing is known of any broker yet."
    assert answer["can_be_lost"] == []


def test_api_and_metrics_have_the_same_sentence():
    state = a_state(SHRUNK, ONE, brokers=(1, 2, 3))
    expected = sentence(SHRUNK, ONE)
    client = a_client(with_events(state))
    assert client.get("/api/v1/summary").json()["loss"]["sentence"] == expected
    assert client.get("/api/v1/whatif/lose-each").json()["sentence"] == expected
    assert f'kafka_twin_loss_info{{cluster="c",sentence="{expected}"}} 1\n' in (
        client.get("/metrics").text
    )


def test_partitions_are_listed_by_their_redundancy():
    client = a_client(with_events(a_state(HEALTHY, ONE, PAIR, min_insync_replicas=2)))
    for name, topic in (("one_replica", "scratch"), ("no_spare", "pair"), ("spare", "orders")):
        page = client.get("/api/v1/partitions", params={"redundancy": name}).json()
        assert [each["topic"] for each in page["partitions"]] == [topic]
        assert page["partitions"][0]["redundancy"] == name
