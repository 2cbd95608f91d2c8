"""Opens the socket to a broker for kafka-python.

kafka-python looks names up in its I/O loop, where a slow DNS holds up all other brokers, and gives
the first address of a name all the time that there is. Nor can it reach a broker elsewhere than the
broker advertises, as through a tunnel or a port-forward.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.future import Future
from kafka.net.inet import KafkaNetSocket, create_connection

SETTING: Final = "broker_addresses"

_UNKNOWN_NAME: Final = "DNS Resolution failure"  # as kafka-python says it
_PLACE: Final = re.compile(r"(\d+)=(\[[0-9A-Fa-f:.]+\]|[^\s:=,\[\]]+):(\d{1,5})")
Place = tuple[str, int]
"""Host and port."""

_A_MOMENT_S: Final = 60.0
_unresolved: Final[dict[frozenset[str], tuple[str, float]]] = {}
"""The newest broker of which a name was not known, and when, by bootstrap addresses."""


def unresolved(bootstrap: Collection[str]) -> str:
    """The broker whose advertised name was not known a moment ago; empty if there was none.

    Args:
        bootstrap: addresses of the cluster, as its clients were given them.
    """
    text, at_s = _unresolved.get(frozenset(bootstrap), ("", 0.0))
    return text if text and time.monotonic() - at_s < _A_MOMENT_S else ""


class UnresolvedError(KafkaConnectionError):  # type: ignore[misc]
    """The name that a broker advertises is not known here.

    Attributes:
        why: what it advertises, and what to do.
    """

    def __init__(self, broker: int, host: str, port: int) -> None:
        self.why = (
            f"advertises {host}:{port}, a name that this machine cannot resolve: see "
            f"advertised.listeners of the broker, the DNS here, or set client.{SETTING}"
        )
        super().__init__(f"broker {broker} {self.why}")


def addresses_of(text: str) -> dict[int, Place]:
    """Where to reach brokers that cannot be reached where they advertise, by broker id.

    Args:
        text: ``ID=HOST:PORT``, several with commas; an IPv6 address in brackets.

    Raises:
        ValueError: it is not like that; says which part.
    """
    places = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        place = _PLACE.fullmatch(part)
        if not place or not 0 < int(place[3]) < 1 << 16:
            raise ValueError(f"{part!r} is not like 1=127.0.0.1:19092")
        places[int(place[1])] = (place[2].strip("[]"), int(place[3]))
    return places


class Dialer:
    """Opens sockets to the nodes of one connection manager."""

    def __init__(self, net: Any, config: Mapping[str, Any], elsewhere: Mapping[int, Place]) -> None:
        """Open none yet.

        Args:
            net: kafka-python's I/O loop.
            config: of the connection manager.
            elsewhere: where to reach brokers that advertise another place, by broker id.
        """
        self._net = net
        self._config = config
        self._elsewhere = elsewhere

    async def connect(
        self, node: Any, timeout_at: float | None, wait_for: Callable[..., Awaitable[Any]]
    ) -> Any:
        """A socket that is connected to the node.

        Args:
            node: broker or bootstrap address, as kafka-python's metadata has it.
            timeout_at: as ``time.monotonic`` counts; None: no limit.
            wait_for: of the connection manager.

        Raises:
            KafkaConnectionError: none of its addresses takes the connection in time.
        """
        host, port = self._elsewhere.get(node.node_id, (node.host, node.port))
        options, proxy = self._config["socket_options"], self._config["proxy_url"]
        if proxy:  # it looks the name up itself
            return await create_connection(self._net, host, port, options, proxy, timeout_at)
        left_s = None if timeout_at is None else max(0.0, timeout_at - time.monotonic())
        try:
            found = await wait_for(self._look_up(host, port), left_s and left_s * 1_000)
        except KafkaTimeoutError:
            raise KafkaConnectionError(f"the DNS says nothing of {host} in time") from None
        except KafkaConnectionError:
            if node.node_id in self._elsewhere:
                raise KafkaConnectionError(f"{SETTING}: {host}: {_UNKNOWN_NAME}") from None
            if isinstance(node.node_id, int):
                error = UnresolvedError(node.node_id, host, port)
                given = frozenset(self._config["bootstrap_servers"])
                _unresolved[given] = (str(error), time.monotonic())
                raise error from None
            raise
        return await self._first_of(found, options, timeout_at)

    async def _first_of(self, found: list[Any], options: Any, timeout_at: float | None) -> Any:
        """The first address that takes the connection within its share of the time."""
        error = KafkaConnectionError("the DNS knows no address")
        for at, address in enumerate(found):
            now = time.monotonic()
            until = timeout_at and now + (timeout_at - now) / (len(found) - at)
            try:
                return await KafkaNetSocket().connect(self._net, address, options, until)
            except KafkaTimeoutError:
                error = KafkaConnectionError("Connection timed out")
            except OSError as refused:
                error = KafkaConnectionError(f"unable to connect: {refused}")
            except KafkaConnectionError as refused:
                error = refused
        raise error

    def _look_up(self, host: str, port: int) -> Future:
        """The addresses of a name, found in a thread."""
        found = Future()

        def look_up() -> None:
            error: Exception | None = None
            addresses: list[Any] = []
            try:
                addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                error = KafkaConnectionError(_UNKNOWN_NAME)

            def settle() -> None:
                if error is None:
                    found.success(addresses)
                else:
                    found.failure(error)

            with suppress(Exception):  # the client was closed meanwhile
                self._net.call_soon_threadsafe(settle)

        threading.Thread(target=look_up, daemon=True).start()
        return found
