"""All bootstrap addresses are tried at once, and the first that lists the brokers is enough.

kafka-python tries one address at a time, chosen by chance, and gives it all the time that there is.
A host that accepts connections and never answers, as a frozen one does, then makes a client of two
addresses fail every second time. Nor does its error name an address.

Overrides private methods of kafka-python's connection manager, hence the pin ``<3.1``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from kafka.errors import (
    AuthorizationError,
    BrokerResponseError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
)
from kafka.future import Future
from kafka.net import KafkaConnectionManager, NetworkSelector
from kafka.net.compat import KafkaNetClient

from streaming.runtime.kafka.dialing import Dialer, Place
from streaming.runtime.kafka.transports import PlainTransport, TLSTransport

_FINAL: Final = (AuthorizationError, IncompatibleBrokerVersion, SaslAuthenticationFailedError)
"""Errors that another attempt at the same address would repeat."""

_NOT_IN_TIME: Final = "does not answer"


class UnreachableError(KafkaTimeoutError):  # type: ignore[misc]
    """No bootstrap address has listed the brokers by the deadline.

    Attributes:
        causes: the last failure of each address ``host:port``, or that it did not answer.
        is_late: an address may only have been too slow.
    """

    def __init__(self, causes: Mapping[str, str]) -> None:
        super().__init__("Unable to bootstrap")
        self.causes = causes
        self.is_late = any(cause.startswith(_NOT_IN_TIME) for cause in causes.values())


class RacingManager(KafkaConnectionManager):  # type: ignore[misc]
    """A connection manager that tries all bootstrap addresses at once."""

    _lister: Any = None
    """The bootstrap node that has listed the brokers; its connection is closed by then."""

    elsewhere: Mapping[int, Place] = {}
    """Where to reach brokers that advertise another place, by broker id."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """The transport to a node. Its certificate is that of the host that it advertises, also
        if it is reached elsewhere.
        """
        dialer = Dialer(self._net, self.config, self.elsewhere)
        connected = await dialer.connect(node, timeout_at, self.wait_for)
        if self.ssl_enabled:
            tls = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
            transport = TLSTransport(self._net, connected, host=node.host, **tls)
        else:
            transport = PlainTransport(self._net, connected, host=node.host)
        try:
            await transport.handshake()
        except Exception as error:  # of the sockets, of TLS, of the client
            raise KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport

    def least_loaded_node(self) -> Any:
        """The node for a request that any broker can answer.

        As long as no broker is connected, kafka-python takes any, and waits for its answer although
        it may be frozen. The one that listed them has just answered, so it is asked first, by the
        address that it advertises or, where that is another, by the one that was used.
        """
        chosen = super().least_loaded_node()
        connection = self._conns.get(chosen)
        if self._lister is None or (connection is not None and connection.connected):
            return chosen
        place = (self._lister.host, self._lister.port)
        advertised = (b.node_id for b in self.cluster.brokers() if (b.host, b.port) == place)
        preferred = next(advertised, self._lister.node_id)
        busy = self._conns.get(preferred)
        is_free = self.connection_delay(preferred) == 0 and not (busy is not None and busy.paused)
        return preferred if is_free else chosen

    async def _do_bootstrap(self, deadline: float | None) -> bool:
        """Read the list of brokers from whichever address answers first.

        Args:
            deadline: as ``time.monotonic`` counts; None to go on until the client is closed.

        Raises:
            UnreachableError: none of them has answered by the deadline.
            KafkaError: another attempt does not help, such as a refused password.
        """
        nodes = self.cluster.bootstrap_brokers()
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        late = _NOT_IN_TIME if left_s is None else f"{_NOT_IN_TIME} within {left_s:.1f} s"
        causes = {node.node_id: late for node in nodes}
        race = _Race(len(nodes))
        for node in nodes:
            self.call_soon(self._try_until, node, deadline, race, causes)
        try:
            await self.wait_for(race.end, None if left_s is None else left_s * 1_000)
        except KafkaTimeoutError:
            if race.final is not None:
                raise race.final from None
            raise UnreachableError(self._by_address(causes)) from None
        finally:
            race.is_over = True
            for node in nodes:
                connection = self._conns.pop(node.node_id, None)
                if connection is not None:
                    connection.close()
        self.cluster.start_refresh_loop()
        return True

    def _by_address(self, causes: Mapping[str, str]) -> dict[str, str]:
        """Causes by address, in the order of the configuration."""
        given = list(self.config["bootstrap_servers"])
        named = {
            f"{node.host}:{node.port}": causes[node.node_id]
            for node in self.cluster.bootstrap_brokers()
        }
        first = [place for place in given if place in named]
        return {place: named[place] for place in dict.fromkeys((*first, *named))}

    async def _try_until(
        self, node: Any, deadline: float | None, race: _Race, causes: dict[str, str]
    ) -> None:
        """Try one address until one of them has listed the brokers, or time is over."""
        node_id: str = node.node_id
        weight = 0
        while not (race.is_over or self.closed):
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            try:
                if await self._lists_brokers(node_id, left_s, race):
                    return
            except NodeNotReadyError:  # it waits before the next attempt
                pause_s = self.connection_delay(node_id)
                await self._net.sleep(pause_s if left_s is None else min(pause_s, left_s))
            except _FINAL as error:
                causes[node_id] = _said(error)
                race.lose(error)
                return
            except Exception as error:  # whatever it is, the others may answer
                if not race.is_over:
                    if (says := _weight(error)) and says >= weight:
                        weight, causes[node_id] = says, _said(error)
                    self.update_backoff(node_id)

    async def _lists_brokers(self, node_id: str, left_s: float | None, race: _Race) -> bool:
        """Connect, and use the list of brokers unless another address was faster."""
        connection = self.get_connection(
            node_id, timeout_ms=None if left_s is None else left_s * 1_000, pop_on_close=False,
            refresh_metadata_on_err=False, reset_backoff_on_connect=False,
        )  # fmt: skip
        try:
            await connection
            # Not by the cluster's own refresh: addresses that are tried at once would share one.
            response = await self.send(self.cluster.metadata_request(), node_id)
        except BaseException as error:
            if self._conns.get(node_id) is connection:
                del self._conns[node_id]
                connection.close(error)
            raise
        if race.is_over:
            return True
        if not response.brokers:  # it has just started
            self._conns.pop(node_id, connection).close()
            self.update_backoff(node_id)
            return False
        self.cluster.update_metadata(response)
        self._lister = self.cluster.broker_metadata(node_id)
        self.reset_backoff(node_id)
        race.win()
        return True


class _Race:
    """Which address lists the brokers first.

    Attributes:
        end: done once one has, or all have failed for good.
        is_over: nobody needs another answer.
        final: a failure that another attempt does not mend.
    """

    def __init__(self, runners: int) -> None:
        self.end = Future()
        self.is_over = False
        self.final: Exception | None = None
        self._runners = runners

    def win(self) -> None:
        """One has listed the brokers."""
        self.is_over = True
        self.end.success(None)

    def lose(self, error: Exception) -> None:
        """One has failed for good; the last of all ends the race."""
        self.final = error
        self._runners -= 1
        if not self._runners and not self.is_over:
            self.end.failure(error)


def _weight(error: Exception) -> int:
    """How much a failed attempt says: nothing if the deadline cut it off, and an error code of the
    broker more than the end of the connection.
    """
    if isinstance(error, KafkaTimeoutError | RequestTimedOutError):
        return 0
    return 2 if isinstance(error, BrokerResponseError) else 1


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def racing_client(elsewhere: Mapping[int, Place], **configs: Any) -> Any:
    """A network client as kafka-python's clients make one (``kafka_client``), which races.

    Args:
        elsewhere: where to reach brokers that advertise another place, by broker id.
        configs: of kafka-python.
    """
    net = NetworkSelector(**configs)
    manager = RacingManager(net, **configs)
    manager.elsewhere = elsewhere
    return KafkaNetClient(net, manager)
