"""What the webhook asks of an API server, answered over TLS: pods, and a list of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streaming.serving.certificate import Certificate
from tests.exporter.serving import served
from tests.exporter.web.test_certificate import written

TOKEN = "of-the-account"


@dataclass
class ApiServer:
    """Pods by namespace and name; ``status`` is that of every answer, if it is not 0."""

    pods: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    status: int = 0

    def app(self) -> Starlette:
        async def pod(request: Request) -> Response:
            found = self.pods.get((request.path_params["namespace"], request.path_params["name"]))
            return self._answer(request, found)

        async def event(request: Request) -> Response:
            self.events.append(json.loads(await request.body()))
            return self._answer(request, self.events[-1])

        below = "/api/v1/namespaces/{namespace}"
        return Starlette(
            routes=[
                Route(f"{below}/pods/{{name}}", pod),
                Route(f"{below}/events", event, methods=["POST"]),
            ]
        )

    def _answer(self, request: Request, found: dict[str, Any] | None) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"kind": "Status", "message": "Unauthorized"}, 401)
        if self.status:
            return JSONResponse({"kind": "Status", "message": "it is forbidden"}, self.status)
        if found is None:
            return JSONResponse({"kind": "Status", "message": "not found"}, 404)
        return JSONResponse(found)


@contextmanager
def serving(server: ApiServer, folder: Path) -> Iterator[str]:
    """The URL of the server; ``folder`` is that of a service account."""
    chain, key = written(folder, "kubernetes")
    (folder / "ca.crt").write_bytes(chain.read_bytes())
    (folder / "token").write_text(f"{TOKEN}\n")
    with served(server.app(), certificate=Certificate(chain, key)) as url:
        yield url


def a_pod(name: str, grace_s: int | None = None, **meta: Any) -> dict[str, Any]:
    """The manifest of a pod."""
    spec = {} if grace_s is None else {"terminationGracePeriodSeconds": grace_s}
    return {
        "kind": "Pod",
        "spec": spec,
        "metadata": {"name": name, "namespace": "kafka", "uid": f"uid-{name}", **meta},
    }
