"""The application of each cluster below ``/clusters/NAME/``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.exporter.answers import RefusedError, error_answer
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web.access import is_open

BELOW: Final = "/clusters"


def path_of(cluster: str) -> str:
    """The path below which the cluster of that name is served, without a slash at its end."""
    return f"{BELOW}/{quote(cluster, safe='')}"


class Below:
    """Passes a request on to the application of the cluster that its path names.

    An application is made at the first request to its cluster, and kept while its source stays.
    """

    def __init__(self, clusters: ServedClusters, made: Callable[[ViewSource], ASGIApp]) -> None:
        self._clusters, self._made = clusters, made
        self._applications: dict[str, tuple[ViewSource, ASGIApp]] = {}

    @property
    def route(self) -> BaseRoute:
        """Where it is mounted."""
        return Mount(BELOW, self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope["path"].removeprefix(scope["root_path"])
        name, slash, _ = path.removeprefix("/").partition("/")
        if not name:
            await RedirectResponse("../")(scope, receive, send)
            return
        try:
            application = self._application(name)
        except RefusedError as refused:
            # Who need not show a token does not learn the others' names.
            why = "no cluster has that name" if is_open(scope["path"]) else str(refused)
            await error_answer(why, refused.status)(scope, receive, send)
            return
        if not slash:  # relative, since a proxy may have put all below a path of its own
            await RedirectResponse(f"{quote(name, safe='')}/")(scope, receive, send)
            return
        inner = {**scope, "path_params": {}, "root_path": f"{scope['root_path']}/{name}"}
        await application(inner, receive, send)

    def _application(self, name: str) -> ASGIApp:
        source = self._clusters.source(name)
        kept, application = self._applications.get(name, (None, None))
        if kept is not source or application is None:
            application = self._made(source)
            there = {each.cluster for each in self._clusters.sources}
            self._applications = {n: a for n, a in self._applications.items() if n in there}
            self._applications[name] = source, application
        return application
