"""The web server, and its socket. Nothing here knows where the answers come from."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from streaming.runtime.errors import UserError
from streaming.runtime.ports.sockets import listening_at, why_not
from streaming.runtime.stop import on_stop_signal
from streaming.serving.certificate import Certificate

STALLED_AFTER_MS: Final = 60_000
SEND_ON_FOR_S: Final = 2
TICK_S: Final = 1.0


class ListenError(UserError):
    """The port is not available; one line says why."""


class Server(uvicorn.Server):  # type: ignore[misc]
    """Ends on SIGTERM and SIGINT, without raising the signal again after that."""

    def __init__(
        self,
        app: ASGIApp,
        certificate: Certificate | None = None,
        before_end: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            app: the application to serve.
            certificate: with one, the server speaks TLS.
            before_end: ends answers that have no end by themselves.
        """
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="on",
                timeout_graceful_shutdown=2 * SEND_ON_FOR_S,
                proxy_headers=False,  # the address of whoever connects is the one to believe
                ssl_context_factory=certificate and (lambda *_: certificate.context),
            )
        )
        self._before_end, self._certificate = before_end, certificate
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish sending answers for a while, then disconnect clients that do not read them.

        Uvicorn would cancel them itself after ``timeout_graceful_shutdown``, and log a failure.
        """
        asyncio.get_running_loop().call_later(SEND_ON_FOR_S, self._cut_off)
        await super().shutdown(sockets)

    def _cut_off(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def main_loop(self) -> None:
        """Wait for the end; the header Date is made once a second.

        Uvicorn looks ten times a second, which costs as much as all else that an idle server does.
        """
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        while not await self.on_tick(0):
            if self._certificate is not None:
                self._certificate.look()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), TICK_S)

    def end(self) -> None:
        """Stop serving."""
        self._before_end()
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._over.set)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with on_stop_signal(self.end):
            yield


def listen(
    host: str, port: int, stalled_after_ms: int = STALLED_AFTER_MS, setting: str = "exporter.port"
) -> socket.socket:
    """A listening socket, opened first, so that a used port is reported before anything starts.

    A client that reads nothing for ``stalled_after_ms`` is disconnected.

    Raises:
        ListenError: the port, which that setting gives, is not available.
    """
    try:
        listening = listening_at(host, port)
    except OSError as error:
        raise ListenError(f"{setting}: cannot listen on {host}:{port}: {why_not(error)}") from None
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, stalled_after_ms)
    return listening
