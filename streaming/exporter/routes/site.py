"""For Prometheus, for probes and for people: metrics, health, and the console."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.answers import accepts_gzip
from streaming.exporter.console_files import console_files, index_of
from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.metrics.exposition import at_scrape
from streaming.exporter.metrics.formats import accepted
from streaming.exporter.source import ViewSource
from streaming.history.moments import AT_NAME
from streaming.runtime.ports import probes
from streaming.runtime.quantities import utc_text


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

    def alive(_: Request, __: Values) -> Response:
        return _plain(*probes.alive(source.stuck()))

    def ready(_: Request, __: Values) -> Response:
        return _plain(*probes.ready(source.why_not_up))

    def fresh(_: Request, __: Values) -> Response:
        status, text = probes.fresh(source.why_not_up)
        span = None if source.not_live else source.span
        past = f"archived: {utc_text(span.begin_ms)} to {utc_text(span.end_ms)}\n" if span else ""
        return _plain(status, text + past)

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
        _probe(
            probes.ALIVE,
            "`alive`, while the exporter gets on: for a liveness probe; open without a token",
            alive,
            {503: "reading has stood still, and the exporter has to be started again"},
        ),
        _probe(
            probes.READY,
            "`ready` and one sentence that says whether the state is fresh: for a readiness probe, "
            "also while the state is stale; open without a token",
            ready,
        ),
        _probe(
            probes.FRESH,
            "`ok`, or one sentence that says why the state is incomplete, stale or past; "
            "where there is an archive, a second line says how far that reaches; open without a "
            "token",
            fresh,
            {503: "the state is incomplete, stale or past"},
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


def _probe(
    path: str,
    summary: str,
    answer: Callable[[Request, Values], Response],
    refusals: Mapping[int, str] = MappingProxyType({}),
) -> Endpoint:
    """An endpoint of plain text that takes no time."""
    return Endpoint(
        path=path,
        summary=summary,
        answer=answer,
        schema={"type": "string"},
        of_state=False,
        media_type="text/plain",
        parameters=None,
        refusals=refusals,
        refusal_media_type="text/plain",
        runs=Runs.IN_LOOP,
    )


def _plain(status: int, text: str) -> Response:
    return Response(text, status, media_type="text/plain")
