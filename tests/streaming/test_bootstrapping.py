"""Clients start although some of their bootstrap addresses hang, refuse or are no brokers."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.protocol.metadata import MetadataRequest

from streaming.collector.wire.connections import BrokerConnections, CollectorError
from streaming.runtime.kafka import clients
from streaming.runtime.kafka.bootstrapping import UnreachableError, racing_client
from tests.collector.fake_broker import FakeCluster, World, fake_cluster
from tests.waiting import patient_ms

TRIES = 5
"""Of three addresses that are tried by chance, one is the first in five tries with 87 %."""

DEAD = "127.0.0.1:1"
NO_NAME = "no-such-host.invalid:9092"


@contextmanager
def hanging() -> Iterator[str]:
    """An address that accepts connections and never answers, as a frozen broker does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def closing_at_once() -> Iterator[str]:
    """An address where something closes each connection, as a broker does with another protocol."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                connection, _ = server.accept()
                connection.close()
                if over.is_set():
                    return

        over = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            socket.create_connection(server.getsockname()[:2]).close()
            thread.join()


OTHERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "hangs": hanging,
    "is dead": lambda: nullcontext(DEAD),
    "has no name": lambda: nullcontext(NO_NAME),
    "closes": closing_at_once,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[FakeCluster]:
    with fake_cluster(World(), [1]) as cluster:
        yield cluster


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("other", OTHERS)
def test_one_address_that_answers_is_enough_wherever_it_stands(
    broker: FakeCluster, other: str, place: int
) -> None:
    with OTHERS[other]() as first, OTHERS[other]() as second:
        places = [first, second]
        places.insert(place, broker.bootstrap)
        for _ in range(TRIES):
            began_s = time.monotonic()
            with BrokerConnections(",".join(places), {}, patient_ms(5_000)) as brokers:
                assert brokers.broker_ids() == [1]
            assert (time.monotonic() - began_s) * 1_000 < patient_ms(2_500)


def test_clients_of_kafka_python_race_as_well(broker: FakeCluster) -> None:
    with hanging() as frozen:
        arguments = clients.arguments(f"{frozen},{broker.bootstrap}", {}, "cluster")
        for _ in range(TRIES):
            began_s = time.monotonic()
            with closing(KafkaAdminClient(bootstrap_timeout_ms=60_000, **arguments)) as admin:
                assert [b["broker_id"] for b in admin.describe_cluster()["brokers"]] == [1]
            assert (time.monotonic() - began_s) * 1_000 < patient_ms(5_000)


def test_the_broker_that_listed_the_others_is_asked_first() -> None:
    """Any other may be frozen: after a bootstrap nobody knows."""
    with fake_cluster(World()) as cluster:
        for node in cluster.brokers:
            for _ in range(TRIES):
                client = racing_client({}, bootstrap_servers=[f"127.0.0.1:{cluster[node].port}"])
                client._manager.bootstrap(60_000)
                assert client._manager.least_loaded_node() == node
                client.close()


def test_a_broker_that_advertises_another_address_is_asked_at_the_one_that_answered() -> None:
    with fake_cluster(World()) as cluster:
        client = racing_client({}, bootstrap_servers=[f"localhost:{cluster[2].port}"])
        client._manager.bootstrap(60_000)
        manager = client._manager
        node = manager.cluster.broker_metadata(manager.least_loaded_node())
        assert (node.host, node.port) == ("localhost", cluster[2].port)
        manager.update_backoff(node.node_id)  # it does not answer any more: another one is asked
        assert manager.least_loaded_node() in {1, 2, 3}
        client.close()


def test_a_name_that_the_dns_looks_for_long_holds_up_no_other_address(
    broker: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up, over = socket.getaddrinfo, threading.Event()

    def slow(host: str, *more: Any, **named: Any) -> Any:
        if host in NO_NAME:
            over.wait(60)
        return look_up(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    try:
        for places in (f"{NO_NAME},{broker.bootstrap}", f"{broker.bootstrap},{NO_NAME}"):
            with BrokerConnections(places, {}, patient_ms(5_000)) as brokers:
                assert brokers.broker_ids() == [1]
    finally:
        over.set()


def test_a_broker_that_lists_none_at_first_is_asked_again_while_another_hangs() -> None:
    with hanging() as frozen, fake_cluster(World(), [1]) as starting:
        lists = starting[1]._MetadataRequest
        requests = []

        def nobody_at_first(request: Any, version: int) -> Any:
            requests.append(request)
            listed = lists(request, version)
            if len(requests) < 3:
                listed.brokers = []
            return listed

        starting[1].answers[MetadataRequest.API_KEY] = nobody_at_first
        places = f"{frozen},{starting.bootstrap}"
        with BrokerConnections(places, {}, patient_ms(5_000)) as brokers:
            assert brokers.broker_ids() == [1]


def test_each_address_is_named_with_its_cause_if_none_answers() -> None:
    with hanging() as frozen, closing_at_once() as other:
        places = f"{frozen},{DEAD},{NO_NAME},{other}"
        with pytest.raises(CollectorError) as error:
            BrokerConnections(places, {}, patient_ms(1_000))
    text = str(error.value)
    assert text.startswith(f"cluster.bootstrap {places}: cannot be reached: ")
    assert "\n" not in text
    assert f"{frozen} does not answer within " in text
    assert f"{DEAD} KafkaConnectionError: 111 ECONNREFUSED; " in text
    assert f"{NO_NAME} " in text
    assert f"{other} " in text


def test_a_single_address_that_hangs_is_named() -> None:
    with hanging() as frozen, pytest.raises(CollectorError) as error:
        BrokerConnections(frozen, {}, patient_ms(500))
    assert re.fullmatch(
        rf"cluster.bootstrap {frozen}: cannot be reached: does not answer within [\d.]+ s "
        r"\(a slow network needs a longer collector.deadline_ms\)",
        str(error.value),
    )


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        (
            "[Error 33] UnsupportedSaslMechanismError",
            "this listener of the broker does not offer sasl_mechanism: ",
        ),
        (
            "[Error 58] SaslAuthenticationFailedError: SaslAuthenticationFailedError: no such user",
            "the broker refused the login: SaslAuthenticationFailedError: no such user",
        ),
        (
            '[Error 58] SaslAuthenticationFailedError: {"status":"invalid_token"}',
            "SaslAuthenticationFailedError: the broker refuses the token: ",
        ),
    ],
)
def test_an_error_code_of_a_login_is_put_in_words(cause: str, line: str) -> None:
    said = clients.one_line(UnreachableError({"a:9092": cause}))
    assert said.startswith(f"cannot be reached: {line}")
