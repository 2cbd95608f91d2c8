"""Fixtures that several tests of the collector share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.collector.fake_exporter import Exporter


@pytest.fixture
def exporter() -> Iterator[Callable[..., Exporter]]:
    """Makes exporters, and ends them."""
    servers: list[ThreadingHTTPServer] = []

    def make(**behaviour: Any) -> Exporter:
        made = Exporter(**behaviour)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with suppress(OSError):  # it did not wait
                    made.serve(self)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if made.tls is not None:
            server.socket = made.tls.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        made.port = server.server_port
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return made

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()
