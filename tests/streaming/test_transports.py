"""A transport delivers the data that arrive together with the end of the connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from kafka.net import NetworkSelector

from streaming.runtime.kafka.transports import PlainTransport
from tests.waiting import until


class Received:
    """A protocol that records the calls of its transport in order; None stands for the end."""

    _sensors = None

    def __init__(self) -> None:
        self.reports: list[bytes | None] = []

    def data_received(self, data: bytes) -> None:
        self.reports.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.reports.append(None)


@pytest.fixture
def net() -> Iterator[NetworkSelector]:
    net = NetworkSelector()
    net.start()
    yield net
    net.close()


def test_an_answer_that_comes_with_the_end_is_delivered_before_it(net: NetworkSelector) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname()[:2])
        theirs, _ = server.accept()
        theirs.sendall(b"refused")
        theirs.close()
    ours.setblocking(False)
    received = Received()
    transport = PlainTransport(net, ours, host="broker")
    transport.set_protocol(received)
    net.run(transport.resume_reading)
    until(lambda: None in received.reports, 10, "the end is not reported")
    assert received.reports == [b"refused", None]
