"""Writes to the bus, and survives its outages."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

from kafka import KafkaProducer
from kafka.errors import KafkaError

from streaming.bus.connection import BusError, failed, settings
from streaming.runtime.config import MAX_MESSAGE_BYTES, Config
from streaming.runtime.kafka.clients import one_line
from twin.arrays.plain import counted

_BUFFER_BYTES: Final = 64 << 20
_GIVE_UP_MS: Final = 30_000


class Sender:
    """Writes to the bus. Messages with the same key arrive in order; after a retry, perhaps twice.

    A message that is not written within ``give_up_ms`` is dropped: a newer one replaces it.
    """

    def __init__(
        self,
        config: Config,
        *,
        buffer_bytes: int = _BUFFER_BYTES,
        give_up_ms: int = _GIVE_UP_MS,
    ) -> None:
        """Connect.

        Raises:
            BusError: the bus cannot be reached.
        """
        self.failures = 0
        self._config = config
        self._buffer_bytes = buffer_bytes
        self._give_up_ms = give_up_ms
        self._lock = threading.Lock()
        self._pending_bytes = 0
        self._failed: tuple[int, str] = (0, "")
        self._producer = self._connected()

    def _connected(self) -> KafkaProducer:
        arguments = {
            "acks": -1,
            # kafka-python's idempotent producer never sends again once a message has expired
            # (measured: a bus away for 40 s). One request at a time keeps the order instead.
            "enable_idempotence": False,
            "max_in_flight_requests_per_connection": 1,
            # Frames are compressed already, and the other messages are small.
            "compression_type": None,
            "linger_ms": 5,
            # A cycle's messages go to a partition as one batch: a quarter of the CPU (measured).
            "batch_size": 512 << 10,
            "max_request_size": MAX_MESSAGE_BYTES,
            "max_block_ms": 5_000,
            "request_timeout_ms": self._give_up_ms // 3,
            "delivery_timeout_ms": self._give_up_ms,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            **settings(self._config),
        }
        try:
            return KafkaProducer(**arguments)
        except (KafkaError, OSError, ValueError) as error:
            raise failed(self._config, error) from None

    def send(self, topic: str, message_key: bytes | None, value: bytes | None) -> None:
        """Buffer a message; ``flush`` reports whether it arrived. None as value is a tombstone.

        Raises:
            BusError: the buffer is full, or the topic cannot be written to.
        """
        size = len(value or b"") + len(message_key or b"")
        with self._lock:
            if self._pending_bytes + size > self._buffer_bytes:
                self.failures += 1
                raise BusError(
                    f"bus topic {topic}: {self._pending_bytes >> 20} MiB wait in the send buffer, "
                    "which is full; is the bus slow or gone?"
                )
            self._pending_bytes += size
        try:
            future = self._producer.send(topic, key=message_key, value=value)
        except (KafkaError, ValueError) as error:
            self._on_delivery(size, topic, error)
            raise BusError(self._why(topic, error)) from None
        future.add_callback(lambda _: self._on_delivery(size, topic, None))
        future.add_errback(lambda error: self._on_delivery(size, topic, error))

    def _on_delivery(self, size: int, topic: str, error: BaseException | None) -> None:
        with self._lock:
            self._pending_bytes -= size
            if error is not None:
                self.failures += 1
                self._failed = (self._failed[0] + 1, self._why(topic, error))

    def _why(self, topic: str, error: BaseException) -> str:
        return f"bus topic {topic}: {one_line(error, bootstrap=self._config.bus_bootstrap)}"

    def flush(self, deadline_ms: int) -> None:
        """Wait until all buffered messages have arrived.

        Raises:
            BusError: messages have not arrived by the deadline (they still may), or were refused
            since the last flush.
        """
        late = False
        try:
            self._producer.flush(deadline_ms / 1000)
        except KafkaError:
            late = True
        with self._lock:
            (count, reason), self._failed = self._failed, (0, "")
            pending = self._pending_bytes
        if count:
            raise BusError(f"{counted(count, 'message was', 'messages were')} not sent: {reason}")
        if late:
            raise BusError(
                f"bus {self._config.bus_bootstrap}: {pending} bytes wait after {deadline_ms} ms"
            )

    def close(self, deadline_ms: int = 5_000) -> None:
        """Send what is buffered, until the deadline, and disconnect."""
        with suppress(KafkaError):
            self._producer.close(timeout=deadline_ms / 1000)

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
