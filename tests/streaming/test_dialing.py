"""Names with several addresses, names that are looked up slowly, and brokers behind a tunnel."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from streaming.collector.wire.connections import Address, BrokerConnections
from streaming.runtime.config import ConfigError
from streaming.runtime.deadline import Deadline
from streaming.runtime.kafka import clients
from streaming.runtime.kafka.dialing import SETTING, addresses_of
from tests.collector.fake_broker import FakeCluster, Partition, Topic, World, fake_cluster
from tests.waiting import AMPLE_MS, patient_ms

INSIDE = {n: (f"broker-{n}.inside.invalid", 9092) for n in (1, 2, 3)}
"""What brokers advertise to whoever is in their own network."""


@pytest.fixture
def inside() -> Iterator[FakeCluster]:
    with fake_cluster(World(advertised=dict(INSIDE))) as cluster:
        yield cluster


def tunnels(cluster: FakeCluster) -> dict[str, Any]:
    return {SETTING: ", ".join(f"{n}=localhost:{cluster[n].port}" for n in cluster.brokers)}


def test_brokers_are_reached_where_the_section_says(inside: FakeCluster) -> None:
    client = tunnels(inside)
    with BrokerConnections(inside.bootstrap, client, AMPLE_MS) as brokers:
        answers = brokers.ask([1, 2, 3], lambda *_: (), Deadline.after_ms(AMPLE_MS))
        assert all(answer.answered for answer in answers.values())
    arguments = clients.arguments(inside.bootstrap, client, "cluster")
    with closing(KafkaAdminClient(bootstrap_timeout_ms=AMPLE_MS, **arguments)) as admin:
        listed = {
            b["broker_id"]: (b["host"], b["port"]) for b in admin.describe_cluster()["brokers"]
        }
    assert listed == INSIDE


def test_a_name_that_nobody_knows_is_named_with_its_broker(inside: FakeCluster) -> None:
    with BrokerConnections(inside.bootstrap, {}, AMPLE_MS) as brokers:
        problem = brokers.ask([2], lambda *_: (), Deadline.after_ms(AMPLE_MS))[2].problem
    assert str(problem).startswith("broker 2: advertises broker-2.inside.invalid:9092, a name that")
    there = {SETTING: "2=tunnel.invalid:9"}
    with BrokerConnections(inside.bootstrap, there, AMPLE_MS) as brokers:
        problem = brokers.ask([2], lambda *_: (), Deadline.after_ms(AMPLE_MS))[2].problem
    assert f"{SETTING}: tunnel.invalid: DNS Resolution failure" in str(problem)


def test_a_client_that_waits_in_vain_names_the_name_that_nobody_knows(inside: FakeCluster) -> None:
    inside.world.topics["bus"] = Topic({0: Partition([1])})
    arguments = clients.arguments(inside.bootstrap, {}, "cluster")
    with (
        closing(KafkaConsumer(bootstrap_timeout_ms=AMPLE_MS, **arguments)) as consumer,
        pytest.raises(KafkaTimeoutError) as error,
    ):
        consumer.beginning_offsets([TopicPartition("bus", 0)], timeout_ms=patient_ms(1_000))
    named = "broker 1 advertises broker-1.inside.invalid:9092"
    assert named in clients.one_line(error.value, bootstrap=inside.bootstrap)
    assert named not in clients.one_line(error.value, bootstrap="another-cluster:9092")


@contextmanager
def full() -> Iterator[int]:
    """A port at which no connection is refused, and none is taken, as behind a firewall."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        first = socket.create_connection(server.getsockname()[:2])
        try:
            yield server.getsockname()[1]
        finally:
            first.close()


def test_an_address_that_takes_no_connection_leaves_time_for_the_next_one_of_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_up = socket.getaddrinfo
    with fake_cluster(World(), [1]) as cluster, full() as port:

        def two(host: str, *more: Any, **named: Any) -> Any:
            if host != "two.invalid":
                return look_up(host, *more, **named)
            kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            return [(*kind, ("127.0.0.1", port)), (*kind, ("127.0.0.1", cluster[1].port))]

        monkeypatch.setattr(socket, "getaddrinfo", two)
        with BrokerConnections("two.invalid:9092", {}, patient_ms(2_000)) as brokers:
            assert brokers.broker_ids() == [1]


def test_a_name_that_the_dns_looks_for_long_holds_up_no_other_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_up, over = socket.getaddrinfo, threading.Event()

    def slow(host: str, *more: Any, **named: Any) -> Any:
        if host == "slow.invalid":
            over.wait(60)
        return look_up(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with fake_cluster(World()) as cluster:
        try:
            with BrokerConnections(cluster.bootstrap, {}, AMPLE_MS) as brokers:
                places = [Address(n, "127.0.0.1", cluster[n].port, "") for n in (1, 2)]
                brokers.update_metadata([*places, Address(3, "slow.invalid", 9092, "")])
                began_s = time.monotonic()
                answers = brokers.ask(
                    [1, 2, 3], lambda *_: (), Deadline.after_ms(patient_ms(1_000))
                )
                took_ms = (time.monotonic() - began_s) * 1_000
        finally:
            over.set()
    assert [answers[n].answered for n in (1, 2, 3)] == [True, True, False]
    assert took_ms < patient_ms(3_000)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("1=a:9092, 2=[::1]:19092,", {1: ("a", 9092), 2: ("::1", 19_092)}),
    ],
)
def test_addresses_are_given_by_broker(text: str, found: dict[int, tuple[str, int]]) -> None:
    assert addresses_of(text) == found


@pytest.mark.parametrize("text", ["a:9092", "1=a", "one=a:9092", "1=a:0", "1=a:65536", "1=::1:9"])
def test_an_address_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^bus\.client\.{SETTING}: '.+' is not like 1=127"):
        clients.arguments("a:1", {SETTING: text}, "bus")
