"""Asks every broker at once, each with a deadline; what does not answer is a value.

The only file that knows kafka-python's connection manager, which its documentation does not cover
(hence the pin ``<3.1``). It uses the client's own connections, so TLS and SASL work as in any
client, and two things the client does not offer: any request to a chosen broker, and requests that
are encoded once and sent again and again. Encoding is 40 % of a naive cycle (measured); of the kept
bytes only the correlation id changes. Answers are handed out as raw bytes, since numpy reads most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import KafkaError, NodeNotReadyError
from kafka.net import KafkaConnectionManager, NetworkSelector
from kafka.protocol.api_header import ResponseHeader
from kafka.protocol.metadata import MetadataResponse

from streaming.runtime import clients
from streaming.runtime.errors import UserError

CLIENT_ID: Final = "kafka-twin-collector"

_CORRELATION_ID = slice(8, 12)
"""Its place in a framed request: after the size, the API key and the API version."""

_API_VERSIONS: Final = 18

_THROTTLED_SINCE: Final = {1: 1, 2: 2, 3: 3, 32: 0, 35: 0, 46: 0, 60: 0, 75: 0}
"""Of each API we ask, the first version whose answer begins with the time we are throttled for."""

_DEFAULTS: Final[dict[str, Any]] = {
    "client_id": CLIENT_ID,
    # A cycle asks a broker for all kinds of offsets at once; the client would refuse the sixth.
    "max_in_flight_requests_per_connection": 1_000,
    "receive_message_max_bytes": 512 << 20,
    # A broker that comes back is asked again by the next cycle, not after 30 s.
    "reconnect_backoff_max_ms": 1_000,
}

Versions = Mapping[int, tuple[int, int]]
"""Of each API key a broker serves, the lowest and the highest version."""


class CollectorError(UserError, RuntimeError):
    """No broker of the cluster can be asked: one line with the address and the cause."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens."""

    broker: int
    host: str
    port: int
    rack: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.host else ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What one broker answered: the body of each answer in order, None for what is missing."""

    bodies: Sequence[bytes | None]
    problem: str  # why something is missing, in one line; empty if nothing is
    after_ms: int  # time until its last answer, UNKNOWN (-1) if there was none

    @property
    def answered(self) -> bool:
        """It answered at least one question, or is connected and was asked none."""
        return any(body is not None for body in self.bodies) or not (self.bodies or self.problem)


class Question:
    """A request of one version, encoded once. ``flexible`` is the header of its answer."""

    __slots__ = ("_after", "_before", "api_key", "api_version", "flexible")

    def __init__(self, api_key: int, api_version: int, flexible: bool, encoded: bytes) -> None:
        self._before = encoded[: _CORRELATION_ID.start]
        self._after = encoded[_CORRELATION_ID.stop :]
        self.api_key = api_key
        self.api_version = api_version
        self.flexible = flexible

    @staticmethod
    def of(request: Any, version: int, client_id: str = CLIENT_ID) -> Question:
        """A request class of kafka-python, encoded."""
        request.API_VERSION = version
        request.with_header(correlation_id=0, client_id=client_id)
        encoded = bytes(request.encode(framed=True, header=True))
        # ApiVersions answers with the old header, so that any client can read it (KIP-511).
        flexible = request.flexible_version_q(version) and request.API_KEY != _API_VERSIONS
        return Question(request.API_KEY, version, flexible, encoded)

    def replaced(self, old: bytes, new: bytes, times: int) -> Question:
        """The same request with other bytes of the same length, found that many times."""
        count = self._after.count(old)
        if count != times or len(old) != len(new):
            raise ValueError(f"{count} of {times} places found")
        encoded = self.encoded(0).replace(old, new)
        return Question(self.api_key, self.api_version, self.flexible, encoded)

    def encoded(self, correlation_id: int) -> bytes:
        """The bytes on the wire."""
        return b"".join((self._before, correlation_id.to_bytes(4, "big"), self._after))


class _Sent:
    """A question under way, as kafka-python's connection expects a request, and its header."""

    __slots__ = ("_question", "correlation_id")

    def __init__(self, question: Question) -> None:
        self._question = question
        self.correlation_id = 0

    @property
    def API_VERSION(self) -> int:  # noqa: N802 - the client's name
        return self._question.api_version

    @property
    def header(self) -> _Sent:
        return self

    @property
    def api_key(self) -> int:
        return self._question.api_key

    @property
    def api_version(self) -> int:
        return self._question.api_version

    def with_header(self, correlation_id: int, client_id: str) -> None:
        del client_id  # it is in the kept bytes
        self.correlation_id = correlation_id

    def encode(self, framed: bool, header: bool) -> bytes:
        del framed, header  # always both
        return self._question.encoded(self.correlation_id)

    def expect_response(self) -> bool:
        return True

    def get_response_class(self) -> _Sent:
        return self

    def parse_header(self, buffer: Any) -> Any:
        return ResponseHeader.decode(buffer, flexible=self._question.flexible)

    def decode(self, buffer: Any) -> _Raw:
        return _Raw(buffer.read(), self.api_version >= _THROTTLED_SINCE.get(self.api_key, 1 << 15))


class _Raw:
    """The body of an answer, with the pause the broker asks for."""

    __slots__ = ("body", "throttle_time_ms")

    def __init__(self, body: bytes, throttled: bool) -> None:
        self.body = body
        self.throttle_time_ms = int.from_bytes(body[:4], "big", signed=True) if throttled else 0


Ask = Callable[[int, Versions], Sequence[Question]]
"""The questions for one broker, made when it is known what the broker understands."""


class Brokers:
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
        self._unreached: dict[int, str] = {}
        self._net = NetworkSelector(client_id=self.client_id)
        self._manager = KafkaConnectionManager(self._net, **arguments)
        self._net.start()
        try:
            self.reconnect(deadline_ms)
        except CollectorError:
            self.close()
            raise

    def reconnect(self, deadline_ms: int) -> None:
        """Learn the cluster's brokers from the bootstrap addresses.

        Raises:
            CollectorError: none of them can be reached by the deadline.
        """
        try:
            self._manager.bootstrap(deadline_ms)
        except (KafkaError, OSError) as error:
            raise CollectorError(
                f"cluster.bootstrap {self.bootstrap}: {clients.one_line(error)}"
            ) from None

    def known(self) -> list[int]:
        """The brokers whose address is known, by id."""
        return sorted(b.node_id for b in self._manager.cluster.brokers())

    def learn(self, addresses: Iterable[Address]) -> None:
        """Take over the cluster's own list of brokers; the client refreshes its own too rarely."""
        if sorted(a.broker for a in addresses) == self.known():
            return
        version = MetadataResponse.max_version
        kind = MetadataResponse.MetadataResponseBroker
        answer = MetadataResponse(
            version=version,
            brokers=[
                kind(a.broker, a.host, a.port, a.rack or None, version=version) for a in addresses
            ],
            cluster_id=None,
            controller_id=-1,
            topics=[],
        )
        self._net.run(lambda: self._manager.cluster.update_metadata(answer))

    def question(self, request: Any, version: int) -> Question:
        """The request, encoded for these connections."""
        return Question.of(request, version, self.client_id)

    def ask(self, brokers: Iterable[int], make: Ask, deadline_ms: int) -> dict[int, Reply]:
        """Ask these brokers at once; returns when all have answered, at the latest at the deadline.

        A broker that is late loses its connection: a new one is quicker than waiting behind the
        requests that it has not answered.
        """
        return self._net.run(self._ask_all, list(brokers), make, deadline_ms)  # type: ignore[no-any-return]

    async def _ask_all(self, brokers: list[int], make: Ask, deadline_ms: int) -> dict[int, Reply]:
        began = time.monotonic()
        asked = [self._manager.call_soon(self._ask, b, make, began, deadline_ms) for b in brokers]
        return {broker: await reply for broker, reply in zip(brokers, asked, strict=True)}

    async def _ask(self, broker: int, make: Ask, began: float, deadline_ms: int) -> Reply:
        def left_ms() -> float:
            return max(0.0, deadline_ms - (time.monotonic() - began) * 1_000)

        try:
            connection = self._manager.get_connection(broker)
            await self._manager.wait_for(connection.init_future, left_ms())
            versions: Versions = connection.broker_version_data.api_versions
        except (KafkaError, OSError) as error:
            # The client would never try again after a refused password.
            self._manager._auth_failures.pop(broker, None)
            if not isinstance(error, NodeNotReadyError):  # that only says: not tried again yet
                self._unreached[broker] = _problem(error)
            return Reply((), self._unreached.get(broker, _problem(error)), -1)
        self._unreached.pop(broker, None)
        questions = make(broker, versions)
        pending = [
            self._manager.send(_Sent(q), node_id=broker, request_timeout_ms=left_ms())
            for q in questions
        ]
        bodies: list[bytes | None] = []
        problem, after_ms = "", -1
        for answer in pending:
            try:
                bodies.append((await self._manager.wait_for(answer, left_ms())).body)
                after_ms = int((time.monotonic() - began) * 1_000)
            except (KafkaError, OSError) as error:
                bodies.append(None)
                problem = problem or _problem(error)
        return Reply(bodies, problem, after_ms)

    def close(self) -> None:
        """Disconnect from all brokers."""
        self._net.run(lambda: self._manager.close())
        self._net.close()

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def best(versions: Versions, message: Any, highest: int | None = None) -> int | None:
    """The highest version of a request class that we and the broker know, None if there is none.

    ``highest`` is the last version whose answer the caller understands.
    """
    if message.API_KEY not in versions:
        return None
    low, high = versions[message.API_KEY]
    mine = message.max_version if highest is None else highest
    version = min(high, mine)
    return version if version >= max(low, message.min_version) else None


def _problem(error: BaseException) -> str:
    """A cause that stays the same from cycle to cycle, so that it is told once."""
    text = clients.one_line(error)
    if "imed out" in text or "Timeout" in text:
        return "did not answer within the deadline"
    return text
