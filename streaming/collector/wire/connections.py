"""Connections to all brokers: sends any request to one or many brokers, with a deadline.

A broker that does not answer is a value, not an exception.

This file and ``streaming/runtime/kafka/bootstrapping.py`` know kafka-python's connection manager,
which its documentation does not cover (hence the pin ``<3.1``). It uses the client's own
connections, so TLS and SASL work as in any client, and adds what the client does not offer:
requests to a chosen broker, and requests that are encoded once and sent repeatedly. Encoding is 40
% of a naive cycle (measured); only the correlation id changes in the kept bytes. Responses are
returned as raw bytes, since numpy reads most of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka.errors import KafkaError, NodeNotReadyError, UnknownBrokerIdError
from kafka.net import NetworkSelector
from kafka.protocol.api_header import ResponseHeader
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from kafka.protocol.metadata import MetadataResponse

from streaming.collector.about import BROKER
from streaming.collector.problem import Problem, from_exception
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from streaming.runtime.kafka import clients
from streaming.runtime.kafka.bootstrapping import RacingManager
from streaming.runtime.kafka.dialing import UnresolvedError
from twin.declarations.table import UNKNOWN

CLIENT_ID: Final = "kafka-twin-collector"

_CORRELATION_ID = slice(8, 12)
"""Position of the correlation id in a framed request: after size, API key and API version."""

_API_VERSIONS: Final = 18

_NOT_LISTED: Final = "the cluster does not list it, so its address is not known"

_NOT_TRIED: Final = (NodeNotReadyError, UnknownBrokerIdError)
"""Errors raised without an attempt to connect: the client waits before it tries again, or its own
list lacks the broker. They hide the cause, so the earlier reason is kept."""

_DEFAULTS: Final[dict[str, Any]] = {
    "client_id": CLIENT_ID,
    # A cycle sends a broker one request for each kind of offset; the client would refuse the sixth.
    "max_in_flight_requests_per_connection": 1_000,
    "receive_message_max_bytes": 512 << 20,
    # The next cycle must reach a broker that came back, not a cycle 30 s later.
    "reconnect_backoff_max_ms": 1_000,
}

_NEWEST: Final = max(BROKER_API_VERSIONS)
"""The newest Kafka that the client tells from others; a later one offers all that this does."""

Versions = Mapping[int, tuple[int, int]]
"""The lowest and the highest version of each API key that a broker supports."""


class CollectorError(UserError, RuntimeError):
    """No broker of the cluster can be reached: one line with the address and the cause."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a broker."""

    broker: int
    host: str
    port: int
    rack: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.host else ""


@dataclass(frozen=True, slots=True)
class BrokerResponse:
    """The responses of one broker, in the order of the requests; None for a missing one."""

    bodies: Sequence[bytes | None]
    problem: Problem | None  # why a response is missing
    after_ms: int  # time until its last response, UNKNOWN (-1) if there was none

    @property
    def answered(self) -> bool:
        """Whether the broker answered a request, or is connected and got none."""
        return any(body is not None for body in self.bodies) or not (self.bodies or self.problem)

    @property
    def first(self) -> bytes | None:
        """The response to the first request."""
        return self.bodies[0] if self.bodies else None


class EncodedRequest:
    """A request of one version, encoded once.

    ``flexible`` says which header its response has, ``throttled`` that it begins with
    ``throttle_time_ms``.
    """

    __slots__ = ("_after", "_before", "api_key", "api_version", "flexible", "throttled")

    def __init__(
        self, api_key: int, api_version: int, encoded: bytes, *, flexible: bool, throttled: bool
    ) -> None:
        self._before = encoded[: _CORRELATION_ID.start]
        self._after = encoded[_CORRELATION_ID.stop :]
        self.api_key = api_key
        self.api_version = api_version
        self.flexible = flexible
        self.throttled = throttled

    @staticmethod
    def encode(request: Any, version: int, client_id: str = CLIENT_ID) -> EncodedRequest:
        """Encode a request class of kafka-python."""
        request.API_VERSION = version
        request.with_header(correlation_id=0, client_id=client_id)
        encoded = bytes(request.encode(framed=True, header=True))
        # ApiVersions keeps the old response header, so that any client can read it (KIP-511).
        flexible = request.flexible_version_q(version) and request.API_KEY != _API_VERSIONS
        response = request.header.get_response_class()
        first = next(each for each in response.fields.values() if each.for_version_q(version))
        throttled = first.name == "throttle_time_ms"
        return EncodedRequest(
            request.API_KEY, version, encoded, flexible=flexible, throttled=throttled
        )

    def replaced(self, old: bytes, new: bytes, times: int) -> EncodedRequest:
        """The same request with other bytes of the same length, which occur that many times."""
        count = self._after.count(old)
        if count != times or len(old) != len(new):
            raise ValueError(f"the bytes occur {count} times, not {times}")
        other = copy(self)
        other._after = self._after.replace(old, new)
        return other

    def encoded(self, correlation_id: int) -> bytes:
        """The bytes on the wire."""
        return b"".join((self._before, correlation_id.to_bytes(4, "big"), self._after))


class _SentRequest:
    """A request in flight, as kafka-python's connection expects a request and its header."""

    __slots__ = ("_request", "correlation_id")

    def __init__(self, request: EncodedRequest) -> None:
        self._request = request
        self.correlation_id = 0

    @property
    def API_VERSION(self) -> int:  # noqa: N802 - the client's name
        return self._request.api_version

    @property
    def header(self) -> _SentRequest:
        return self

    @property
    def api_key(self) -> int:
        return self._request.api_key

    @property
    def api_version(self) -> int:
        return self._request.api_version

    def with_header(self, correlation_id: int, client_id: str) -> None:
        del client_id  # the encoded bytes contain it
        self.correlation_id = correlation_id

    def encode(self, framed: bool, header: bool) -> bytes:
        del framed, header  # the caller needs both
        return self._request.encoded(self.correlation_id)

    def expect_response(self) -> bool:
        return True

    def get_response_class(self) -> _SentRequest:
        return self

    def parse_header(self, buffer: Any) -> Any:
        return ResponseHeader.decode(buffer, flexible=self._request.flexible)

    def decode(self, buffer: Any) -> _RawResponse:
        return _RawResponse(buffer.read(), self._request.throttled)


class _RawResponse:
    """The body of a response, and the broker's throttle time."""

    __slots__ = ("body", "throttle_time_ms")

    def __init__(self, body: bytes, throttled: bool) -> None:
        self.body = body
        self.throttle_time_ms = int.from_bytes(body[:4], "big", signed=True) if throttled else 0


class _Manager(RacingManager):
    """Connections that each negotiate their API versions.

    kafka-python keeps those of the bootstrap broker and limits every later connection to them, so
    upgraded brokers would get old request versions until the collector is restarted.
    """

    @property
    def broker_version_data(self) -> Any:
        """The API versions that a new connection starts with: none, unless the user set one."""
        return self._version_of_user

    @broker_version_data.setter
    def broker_version_data(self, versions: Any) -> None:
        is_of_user = versions is not None and self.config["api_version"] is not None
        self._version_of_user = versions if is_of_user else None


RequestFactory = Callable[[int, Versions], Sequence[EncodedRequest]]
"""Makes the requests to one broker, once its supported versions are known."""


class BrokerConnections:
    """Connections to the brokers of one cluster."""

    def __init__(self, bootstrap: str, client: Mapping[str, Any], deadline_ms: int) -> None:
        """Connect to any broker.

        Raises:
            ConfigError: a client setting is wrong.
            CollectorError: none of the addresses can be reached by the deadline.
        """
        arguments = _DEFAULTS | {
            "socket_connection_setup_timeout_ms": deadline_ms,
            "socket_connection_setup_timeout_max_ms": deadline_ms,
            "request_timeout_ms": deadline_ms,
            **clients.arguments(bootstrap, client, "cluster"),
        }
        self.bootstrap = bootstrap
        self.client_id: str = arguments["client_id"]
        self.versions: dict[int, Versions] = {}  # of the newest connection to each broker
        self.kafka_versions: dict[int, str] = {}  # which Kafka offers these; empty if unknown
        self.answered: dict[object, set[int]] = {}  # API keys of responses, by who asked
        self.asker: object = None  # who asks now
        self._unreached: dict[int, Problem] = {}
        self._net = NetworkSelector(client_id=self.client_id)
        self._manager = _Manager(self._net, **arguments)
        self._manager.elsewhere = clients.elsewhere(client, "cluster")
        self._net.start()
        try:
            self.reconnect(deadline_ms)
        except CollectorError:
            self.close()
            raise

    def reconnect(self, deadline_ms: int) -> None:
        """Get the list of brokers from the bootstrap addresses.

        Raises:
            CollectorError: none of them can be reached by the deadline.
        """
        try:
            self._manager.bootstrap(deadline_ms)
        except (KafkaError, OSError) as error:
            why = clients.one_line(error, "collector.deadline_ms")
            raise CollectorError(f"cluster.bootstrap {self.bootstrap}: {why}") from None

    def broker_ids(self) -> list[int]:
        """Ids of the brokers whose address is known, ascending."""
        return sorted(b.node_id for b in self._manager.cluster.brokers())

    def update_metadata(self, addresses: Iterable[Address]) -> None:
        """Replace the client's list of brokers, which it refreshes too rarely by itself."""
        addresses = [a for a in addresses if a.host]
        current = {(b.node_id, b.host, b.port) for b in self._manager.cluster.brokers()}
        if current == {(a.broker, a.host, a.port) for a in addresses}:
            return
        version = MetadataResponse.max_version
        kind = MetadataResponse.MetadataResponseBroker
        response = MetadataResponse(
            version=version,
            brokers=[
                kind(a.broker, a.host, a.port, a.rack or None, version=version) for a in addresses
            ],
            cluster_id=None,
            controller_id=-1,
            topics=[],
        )
        self._net.run(lambda: self._manager.cluster.update_metadata(response))

    def ask(
        self, brokers: Iterable[int], make: RequestFactory, deadline: Deadline
    ) -> dict[int, BrokerResponse]:
        """Send requests to these brokers at once; return when all have answered or time is over.

        A broker that is late loses its connection: a new one is quicker than waiting behind the
        requests that it has not answered.
        """
        return self._net.run(self._ask_all, list(brokers), make, deadline)

    async def _ask_all(
        self, brokers: list[int], make: RequestFactory, deadline: Deadline
    ) -> dict[int, BrokerResponse]:
        began_s = time.monotonic()
        pending = [
            self._manager.call_soon(self._ask, broker, make, began_s, deadline)
            for broker in brokers
        ]
        return {broker: await p for broker, p in zip(brokers, pending, strict=True)}

    async def _ask(
        self, broker: int, make: RequestFactory, began_s: float, deadline: Deadline
    ) -> BrokerResponse:
        def left_ms() -> float:
            return deadline.left_s * 1_000

        try:
            connection = self._manager.get_connection(broker)
            await self._manager.wait_for(connection.init_future, left_ms())
            offered = connection.broker_version_data
            versions: Versions = offered.api_versions
        except (KafkaError, OSError) as error:
            # After a refused password the client would never try again.
            self._manager._auth_failures.pop(broker, None)
            problem = from_exception(BROKER.name, error, broker)
            if isinstance(error, UnknownBrokerIdError):
                problem = Problem(BROKER.name, broker, "NotListed", _NOT_LISTED)
            elif isinstance(error, UnresolvedError):
                problem = replace(problem, text=error.why)
            if isinstance(error, _NOT_TRIED):
                problem = self._unreached.get(broker, problem)
            self._unreached[broker] = problem
            return BrokerResponse((), problem, UNKNOWN)
        self._unreached.pop(broker, None)
        self.versions[broker] = versions
        is_of_user = offered is self._manager.broker_version_data
        self.kafka_versions[broker] = "" if is_of_user else version_text(offered.broker_version)
        requests = make(broker, versions)
        pending = [
            self._manager.send(_SentRequest(r), node_id=broker, request_timeout_ms=left_ms())
            for r in requests
        ]
        bodies: list[bytes | None] = []
        failure, after_ms = None, UNKNOWN
        for request, response in zip(requests, pending, strict=True):
            try:
                bodies.append((await self._manager.wait_for(response, left_ms())).body)
                self.answered.setdefault(self.asker, set()).add(request.api_key)
                after_ms = int((time.monotonic() - began_s) * 1_000)
            except (KafkaError, OSError) as error:
                bodies.append(None)
                failure = failure or from_exception(BROKER.name, error, broker)
        return BrokerResponse(bodies, failure, after_ms)

    def close(self) -> None:
        """Disconnect from all brokers."""
        self._net.run(lambda: self._manager.close())
        self._net.close()

    def __enter__(self) -> BrokerConnections:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def version_text(release: tuple[int, ...]) -> str:
    """A Kafka release as the client tells it from the versions that a broker offers, such as 3.9;
    4.3+ for the newest that it knows, or a later one."""
    return f"{'.'.join(map(str, release))}{'+' if release == _NEWEST else ''}"


def negotiate_version(versions: Versions, message: Any, highest: int | None = None) -> int | None:
    """The highest version of a request that both sides support, None if there is none.

    ``highest`` is the last version whose response the caller understands.
    """
    if message.API_KEY not in versions:
        return None
    low, high = versions[message.API_KEY]
    version = min(high, message.max_version if highest is None else highest)
    return version if version >= max(low, message.min_version) else None
