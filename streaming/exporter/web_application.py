"""The web application: /metrics, /healthz, /api/v1, and the console.

Every answer is made from the newest view, or from that of the moment that is asked about; nothing
here sends requests to Kafka. ``routes`` declares the paths and their answers.
"""

from __future__ import annotations

from functools import cache

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from streaming.exporter.agents.door import PATH, Door
from streaming.exporter.agents.tools import tools_of
from streaming.exporter.answers import error_answer
from streaming.exporter.console_files import console_route
from streaming.exporter.endpoint import JSON, Endpoint, endpoint, endpoints_of
from streaming.exporter.moments import Moments
from streaming.exporter.openapi import description
from streaming.exporter.routes import (
    cluster,
    events,
    groups,
    history,
    log_dirs,
    matrix,
    plans,
    questions,
    report,
    site,
)
from streaming.exporter.routing import routes
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web.access import Access, GuardedApp
from streaming.exporter.web.headers import SecurityHeaders
from streaming.questions import QUESTIONS
from streaming.runtime.config import AccessConfig, ExporterConfig
from twin.engine.catalog import Catalog


def application(
    source: ViewSource,
    config: ExporterConfig = ExporterConfig(),
    access: AccessConfig = AccessConfig(),
) -> ASGIApp:
    """The application that serves the newest exposition of a source.

    /mcp is served once the server has begun the application's life.
    """
    declared = endpoints(source.catalog)
    door = Door(tools_of(declared), config, source.calls)
    guarded_by_itself = frozenset([PATH]) if config.mcp_token else frozenset()
    app = Starlette(
        routes=[
            *routes(declared, Moments(source)),
            console_route(),
            Route(PATH, door),
        ],
        exception_handlers={HTTPException: _refused, Exception: _failed},
        lifespan=door.open,
    )
    return SecurityHeaders(GuardedApp(app, Access(access), guarded_by_itself))


def endpoints(catalog: Catalog) -> list[Endpoint]:
    """All endpoints."""
    asked = map(questions.asked, QUESTIONS.values())
    return [
        *endpoints_of((site, cluster, log_dirs, groups, matrix), catalog),
        *asked,
        *endpoints_of((questions, plans, history, report, events), catalog),
        openapi,
    ]


@endpoint(
    "/api/v1/openapi.json",
    "this API in OpenAPI 3.1",
    schema={"type": "object"},
    of_state=False,
)
def openapi(source: ViewSource) -> Response:
    """The description of all endpoints, this one too."""
    return Response(_described(source.catalog), media_type=JSON)


@cache
def _described(catalog: Catalog) -> bytes:
    return msgspec.json.encode(description(catalog, endpoints(catalog)))


async def _refused(request: Request, error: Exception) -> Response:
    """The answer to an unknown path, or to another method than GET."""
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code == 404:
        detail = f"there is nothing at {request.url.path}"
    answer = error_answer(detail, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def _failed(_: Request, __: Exception) -> Response:
    """The answer to a request that hits a bug; the traceback is in the log."""
    return error_answer("the exporter failed to answer; its log says why", 500)
