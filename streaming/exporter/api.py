"""The web application: /metrics, /healthz, /api/v1, and the console.

Every answer is made from the newest view, or from that of the moment that is asked about; nothing
here sends requests to Kafka. ``routes`` declares the paths and their answers.
"""

from __future__ import annotations

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
from streaming.exporter.endpoint import Endpoint, routes
from streaming.exporter.moments import Moments
from streaming.exporter.routes import cluster as cluster_routes
from streaming.exporter.routes import (
    description,
    events,
    history,
    log_dirs,
    matrix,
    plans,
    questions,
    report,
    site,
)
from streaming.exporter.routes import groups as group_routes
from streaming.exporter.source import ViewSource
from streaming.exporter.web.access import Access, GuardedApp
from streaming.exporter.web.headers import SecurityHeaders
from streaming.runtime.config import AccessConfig, ExporterConfig


def application(
    source: ViewSource,
    config: ExporterConfig = ExporterConfig(),
    access: AccessConfig = AccessConfig(),
) -> ASGIApp:
    """The application that serves the newest exposition of a source.

    /mcp is served once the server has begun the application's life.
    """
    declared = endpoints(source)
    door = Door(tools_of(declared), config, source.calls)
    guarded_by_itself = frozenset([PATH]) if config.mcp_token else frozenset()
    app = Starlette(
        routes=[
            *routes(declared, Moments(source, endpoints).ask),
            console_route(),
            Route(PATH, door),
        ],
        exception_handlers={HTTPException: _refused, Exception: _failed},
        lifespan=door.open,
    )
    return SecurityHeaders(GuardedApp(app, Access(access), guarded_by_itself))


def endpoints(source: ViewSource) -> list[Endpoint]:
    """All endpoints."""
    groups = (
        site, cluster_routes, log_dirs, group_routes, matrix, questions, plans, history, report,
        events,
    )  # fmt: skip
    declared = [endpoint for group in groups for endpoint in group.endpoints(source)]
    return [*declared, *description.endpoints(source, declared)]


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
