"""JSON answers of the web application."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response


class RefusedError(Exception):
    """A request that gets another status than 200, and why."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


def json_answer(value: Any, status: int = 200) -> Response:
    """The value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def error_answer(why: str, status: int) -> Response:
    """An error in one line."""
    return json_answer({"error": why}, status)
