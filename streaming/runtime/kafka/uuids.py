"""UUIDs as Kafka writes them, in its logs as well as in the output of its tools."""

from __future__ import annotations

import base64


def uuid_text(sixteen_bytes: bytes) -> str:
    """A UUID as URL-safe base64 without padding: 22 characters (Kafka's ``Uuid.toString``)."""
    return base64.urlsafe_b64encode(sixteen_bytes).decode().rstrip("=")
