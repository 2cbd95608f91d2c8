"""A web application on a socket of its own, served as the exporter does it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from streaming.exporter.events.log import EventLog
from streaming.serving.certificate import Certificate
from streaming.serving.http_server import STALLED_AFTER_MS, Server, listen


@contextmanager
def served(
    app: ASGIApp,
    events: EventLog | None = None,
    stalled_after_ms: int = STALLED_AFTER_MS,
    certificate: Certificate | None = None,
) -> Iterator[str]:
    """The URL of a server that runs in a thread until the block ends."""
    socket = listen("127.0.0.1", 0, stalled_after_ms)
    close = (EventLog() if events is None else events).close
    server = Server(app, certificate, before_end=close)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    try:
        scheme = "http" if certificate is None else "https"
        yield f"{scheme}://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.end()
        thread.join()
