"""The description of all other endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.endpoint import JSON, Endpoint, Values
from streaming.exporter.openapi import description
from streaming.exporter.source import ViewSource


def endpoints(source: ViewSource, described: Sequence[Endpoint]) -> list[Endpoint]:
    """The endpoint of this file, which describes itself too."""

    @cache
    def content() -> bytes:
        return msgspec.json.encode(description(source.catalog, [*described, itself]))

    def answer(_: Request, __: Values) -> Response:
        return Response(content(), media_type=JSON)

    itself = Endpoint(
        path="/api/v1/openapi.json",
        summary="this API in OpenAPI 3.1",
        answer=answer,
        schema={"type": "object"},
        of_state=False,
    )
    return [itself]
