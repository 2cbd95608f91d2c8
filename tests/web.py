"""HTTP requests of tests."""

from __future__ import annotations

import httpx2


def get(url: str, *, timeout_s: float = 30) -> tuple[int, str]:
    """Status and body; status 0 while nothing answers."""
    try:
        response = httpx2.get(url, timeout=timeout_s)
    except httpx2.TransportError:
        return 0, ""
    return response.status_code, response.text
