"""kafka-python's transports, which read all that a broker has sent before its end.

A broker that refuses a login answers with an error code and closes. kafka-python reads both at once
and drops the answer, so why it was refused was known by chance.
"""

from __future__ import annotations

from typing import Any

from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport


class _ReadsToTheEnd:
    """Delivers received bytes first; the next read reports the end again."""

    def _sock_recv(self) -> tuple[bytes, Any]:
        received, error = super()._sock_recv()  # type: ignore[misc]
        return received, None if received else error


class PlainTransport(_ReadsToTheEnd, KafkaTCPTransport):  # type: ignore[misc]
    """Over TCP."""


class TLSTransport(_ReadsToTheEnd, KafkaSSLTransport):  # type: ignore[misc]
    """Over TLS."""
