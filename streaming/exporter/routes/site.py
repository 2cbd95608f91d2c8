"""For Prometheus, for probes and for people: metrics, health, and the console."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.answers import accepts_gzip
from streaming.exporter.console_files import console_files, index_of
from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.metrics.exposition import at_scrape
from streaming.exporter.metrics.formats import accepted
from streaming.exporter.source import ViewSource
from streaming.history.moments import AT_NAME
from streaming.runtime.clock import utc_text


def endpoints(source: ViewSource) -> list[Endpoint]:
    """The endpoints of this file."""

    def metrics(request: Request, _: Values) -> Response:
        if source.not_live:  # Prometheus would keep them as values of now
            return Response(f"{source.not_live}: no metrics\n", 404, media_type="text/plain")
        exposition = source.current()
        now_ms, text = source.now_ms(), accepted(request.headers.get("accept", ""))
        now = at_scrape(source.cluster, exposition, now_ms, source.streams, source.calls, text)
        headers = {"Content-Type": text.content_type, "Vary": "Accept, Accept-Encoding"}
        if accepts_gzip(request):
            body = exposition.gzipped_after(now, text)
            return Response(body, headers=headers | {"Content-Encoding": "gzip"})
        return Response(b"".join((now, *exposition.blocks_in(text))), headers=headers)

    def health(_: Request, __: Values) -> Response:
        why = source.why_not_up
        span = None if source.not_live else source.span
        past = f"archived: {utc_text(span.begin_ms)} to {utc_text(span.end_ms)}\n" if span else ""
        return Response(f"{why or 'ok'}\n{past}", 503 if why else 200, media_type="text/plain")

    page = console_files()["index.html"]

    def console(request: Request, _: Values) -> Response:
        at = request.query_params.get(AT_NAME)
        return (page if not at else index_of(at)).answer(request)

    return [
        Endpoint(
            path="/metrics",
            summary="metrics for Prometheus",
            answer=metrics,
            schema={"type": "string"},
            of_state=False,
            media_type="text/plain",
            parameters=None,
            refusals={404: "the exporter shows the past"},
            refusal_media_type="text/plain",
        ),
        Endpoint(
            path="/healthz",
            summary="`ok`, or one sentence that says why the state is incomplete, stale or past; "
            "where there is an archive, a second line says how far that reaches",
            answer=health,
            schema={"type": "string"},
            of_state=False,
            media_type="text/plain",
            parameters=None,
            refusals={503: "the state is incomplete, stale or past"},
            refusal_media_type="text/plain",
            runs=Runs.IN_LOOP,
        ),
        Endpoint(
            path="/",
            summary="the console, for people",
            answer=console,
            schema={"type": "string"},
            of_state=False,
            media_type="text/html",
            parameters=None,
            runs=Runs.IN_LOOP,
        ),
    ]
