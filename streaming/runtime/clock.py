"""Points in time, for people."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(at_ms: int) -> str:
    """Date and time of a Unix time, e.g. ``2026-01-15 03:33:52 UTC``."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
