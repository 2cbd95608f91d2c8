"""The web application: /metrics, /healthz, /api/v1, and the console.

Every answer is made from the newest view, or from that of the moment that is asked about; nothing
here sends requests to Kafka. ``routes`` declares the paths and their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from streaming.exporter.agents.counts import counted_in
from streaming.exporter.agents.door import PATH, Door
from streaming.exporter.agents.tools import tools_of
from streaming.exporter.answers import error_answer
from streaming.exporter.console_files import console_route
from streaming.exporter.endpoint import JSON, Endpoint, endpoint, endpoints_of
from streaming.exporter.fleet.below import Below
from streaming.exporter.fleet.served_clusters import ServedClusters
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
from streaming.exporter.turns import Turns
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
    """The application that serves the newest exposition of one cluster, at / and below its path.

    /mcp is served once the server has begun the application's life.
    """
    declared = endpoints(source.catalog)
    door = Door(tools_of(declared), config, counted_in(source.calls))
    of_cluster = [*routes_of(source, Turns()), Route(PATH, door)]
    below = Below(ServedClusters([source]), lambda _: with_refusals(of_cluster))
    return guarded(with_refusals([*of_cluster, below.route], door.open), config, access)


def routes_of(source: ViewSource, turns: Turns, *, of_several: bool = False) -> list[BaseRoute]:
    """The API and the console of one cluster."""
    declared, ask = endpoints(source.catalog), Moments(source).ask
    of_api = routes(declared, ask, turns, source.cluster, of_several=of_several)
    return [*of_api, console_route()]


def with_refusals(
    routes: Sequence[BaseRoute], lifespan: Callable[[Starlette], Any] | None = None
) -> Starlette:
    """An application of those routes, which refuses everything else in one line."""
    handlers = {HTTPException: _refused, Exception: _failed}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


def guarded(app: ASGIApp, config: ExporterConfig, access: AccessConfig) -> ASGIApp:
    """The application for those who may ask, with headers for browsers."""
    guarded_by_itself = frozenset([PATH]) if config.mcp_token else frozenset()
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
