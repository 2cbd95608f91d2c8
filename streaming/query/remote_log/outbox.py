"""One sender for all readers of remote segments of a bus: a client for each would only wait."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

from streaming.bus.sender import Sender
from streaming.query.remote_log.metadata_topic import Message
from streaming.runtime.config import Config

_ARRIVED_WITHIN_MS: Final = 35_000
"""A little longer than the sender tries."""


class Outbox:
    """Sends messages, and says that they have arrived. Readers take turns."""

    def __init__(self, config: Config) -> None:
        """Connect at the first message: most clusters have no remote storage."""
        self._config = config
        self._lock = threading.Lock()
        self._sender: Sender | None = None

    def send(self, messages: Iterable[Message]) -> None:
        """Send the messages, and return once they have arrived.

        Raises:
            BusError: some have not: send all again.
        """
        with self._lock:
            if self._sender is None:
                self._sender = Sender(self._config)
            for each in messages:
                self._sender.send(*each)
            self._sender.flush(_ARRIVED_WITHIN_MS)

    def close(self) -> None:
        """Disconnect."""
        if self._sender is not None:
            self._sender.close()
