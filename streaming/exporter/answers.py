"""JSON answers of the web application."""

from __future__ import annotations

import zlib
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

ZIPPED_FROM_BYTES: Final = 2_000
"""Smaller answers fit into two packets as they are."""

_FAST: Final = 1  # a level of zlib: 1 ms for 100 kB, a tenth of the bytes
_GZIP: Final = 31  # the window of zlib that means the format of gzip


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


def accepts_gzip(request: Request) -> bool:
    """The client takes answers that are zipped."""
    return "gzip" in request.headers.get("accept-encoding", "")


def zipped(answer: Response, request: Request) -> Response:
    """The same answer, smaller, if its client takes it so and it is worth while."""
    is_json = answer.headers.get("content-type") == "application/json"
    if not is_json or len(answer.body) < ZIPPED_FROM_BYTES:
        return answer
    answer.headers["Vary"] = "Accept-Encoding"
    if accepts_gzip(request):
        packer = zlib.compressobj(_FAST, wbits=_GZIP)
        answer.body = packer.compress(answer.body) + packer.flush()
        answer.headers["Content-Encoding"] = "gzip"
        answer.headers["Content-Length"] = str(len(answer.body))
    return answer
