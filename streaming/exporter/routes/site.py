"""For Prometheus, for probes and for people: metrics, health, and the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.answers import accepts_gzip
from streaming.exporter.console_files import index_of
from streaming.exporter.endpoint import Endpoint, Runs, endpoint
from streaming.exporter.metrics.exposition import Exposition, at_scrape
from streaming.exporter.metrics.formats import Format, accepted
from streaming.exporter.view_source import ViewSource
from streaming.history.moment import AT_NAME
from streaming.runtime.ports import probes
from streaming.runtime.quantities import utc_text

_PLAIN: Final = "text/plain"


def _page(path: str, summary: str, **more: Any) -> Callable[[Callable[..., Any]], Endpoint]:
    """Declare an endpoint of text that accepts any parameter."""
    return endpoint(
        path, summary, **{"schema": {"type": "string"}, "of_state": False, "media_type": _PLAIN,
                          "refusal_media_type": _PLAIN, "parameters": None, **more}
    )  # fmt: skip


@_page("/metrics", "metrics for Prometheus", refusals={404: "the exporter shows the past"})
def metrics(source: ViewSource, request: Request) -> Response:
    """The exposition; values of the past Prometheus would keep as values of now."""
    if source.not_live:
        return _plain(404, f"{source.not_live}: no metrics\n")
    exposition, text = source.current(), accepted(request.headers.get("accept", ""))
    now = b"".join(scraped_now(source, exposition, text))
    headers = {"Content-Type": text.content_type, "Vary": "Accept, Accept-Encoding"}
    if accepts_gzip(request):
        body = exposition.gzipped_after(now, text)
        return Response(body, headers=headers | {"Content-Encoding": "gzip"})
    return Response(b"".join((now, *exposition.blocks_in(text))), headers=headers)


def scraped_now(source: ViewSource, exposition: Exposition, text: Format) -> list[bytes]:
    """What a scrape has that depends on the clock and on clients, in blocks."""
    is_up = not source.why_not_up
    return at_scrape(
        source.cluster, exposition, source.now_ms(), source.streams, source.calls, text, is_up
    )


@_page(
    probes.ALIVE,
    "`alive`, while the exporter gets on: for a liveness probe; open without a token",
    refusals={503: "reading has stood still, and the exporter has to be started again"},
    runs=Runs.IN_LOOP,
)
def alive(source: ViewSource) -> Response:
    """Whether the exporter gets on."""
    return _plain(*probes.alive(source.stuck()))


@_page(
    probes.READY,
    "`ready` and one sentence that says whether the state is fresh: for a readiness probe, "
    "also while the state is stale; open without a token",
    runs=Runs.IN_LOOP,
)
def ready(source: ViewSource) -> Response:
    """Whether the exporter answers."""
    return _plain(*probes.ready(source.why_not_up))


@_page(
    probes.FRESH,
    "`ok`, or one sentence that says why the state is incomplete, stale or past; "
    "where there is an archive, a second line says how far that reaches; open without a "
    "token",
    refusals={503: "the state is incomplete, stale or past"},
    runs=Runs.IN_LOOP,
)
def fresh(source: ViewSource) -> Response:
    """Whether the state is fresh."""
    status, text = probes.fresh(source.why_not_up)
    span = None if source.not_live else source.span
    past = f"archived: {utc_text(span.begin_ms)} to {utc_text(span.end_ms)}\n" if span else ""
    return _plain(status, text + past)


@_page("/", "the console, for people", media_type="text/html", runs=Runs.IN_LOOP)
def console(request: Request) -> Response:
    """The console's page, for now or for a moment."""
    return index_of(request.query_params.get(AT_NAME, "")).answer(request)


def _plain(status: int, text: str) -> Response:
    return Response(text, status, media_type=_PLAIN)
