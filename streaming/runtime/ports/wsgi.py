"""Serves a WSGI application in threads, at a socket that listens already."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each request; a slow client holds up neither others nor the end."""

    daemon_threads = True

    def __init__(self, listening: socket.socket) -> None:
        address = listening.getsockname()[:2]
        super().__init__(address, _Handler, bind_and_activate=False)
        self.socket.close()  # the one of the base class, which knows one family alone
        self.socket, self.server_address = listening, address
        self.server_name, self.server_port = str(address[0]), int(address[1])
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    """It logs no requests."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def serving(application: WSGIApplication, listening: socket.socket) -> Iterator[None]:
    """Serve until the block ends, which closes the socket."""
    server = _Server(listening)
    server.set_app(application)
    thread = threading.Thread(target=server.serve_forever, name="serving", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
