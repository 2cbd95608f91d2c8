"""For Prometheus, for probes and for people: metrics, health, and the page with its files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.exposition import CONTENT_TYPE, at_scrape, gzipped
from streaming.exporter.source import Source

_STATIC: Final = Path(__file__).parents[1] / "static"

_FILES: Final = {
    "/": ("page.html", "text/html", "a page for people"),
    "/static/page.css": ("page.css", "text/css", "the style of the page"),
    "/static/page.js": ("page.js", "text/javascript", "the script of the page"),
}
"""Apart from the page, so that no policy has to allow what stands inside it."""


def endpoints(source: Source) -> list[Endpoint]:
    """The endpoints of this file."""

    def metrics(request: Request, _: Values) -> Response:
        exposition = source.current()
        now_ms = source.now_ms()
        parts = (
            at_scrape(source.cluster, exposition.view, now_ms, source.streams),
            *exposition.blocks,
        )
        headers = {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(gzipped(parts), headers=headers | {"Content-Encoding": "gzip"})
        return Response(b"".join(parts), headers=headers)

    def health(_: Request, __: Values) -> Response:
        why = source.view.why_not_up(source.now_ms())
        return Response(f"{why or 'ok'}\n", 503 if why else 200, media_type="text/plain")

    return [
        Endpoint(
            path="/metrics",
            summary="metrics for Prometheus",
            answer=metrics,
            schema={"type": "string"},
            media_type="text/plain",
            parameters=None,
        ),
        Endpoint(
            path="/healthz",
            summary="`ok`, or one sentence that says why the state is incomplete or stale",
            answer=health,
            schema={"type": "string"},
            media_type="text/plain",
            parameters=None,
            refusals={503: "the state is incomplete or stale"},
            refusal_media_type="text/plain",
            runs=Runs.IN_LOOP,
        ),
        *(_file(path, *about) for path, about in _FILES.items()),
    ]


def _file(path: str, name: str, media_type: str, summary: str) -> Endpoint:
    content = (_STATIC / name).read_bytes()

    def answer(_: Request, __: Values) -> Response:
        # Small enough to be sent again: after an upgrade nobody has an old script.
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return Endpoint(
        path=path,
        summary=summary,
        answer=answer,
        schema={"type": "string"},
        media_type=media_type,
        parameters=None,
        runs=Runs.IN_LOOP,
    )
