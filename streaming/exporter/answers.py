"""JSON answers of the web application."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response


def json_answer(value: Any, status: int = 200) -> Response:
    """The value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def error_answer(why: str, status: int) -> Response:
    """An error in one line."""
    return json_answer({"error": why}, status)
