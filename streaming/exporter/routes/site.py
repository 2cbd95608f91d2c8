"""For Prometheus, for probes and for people: metrics, health, and the console."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.answers import accepts_gzip
from streaming.exporter.console_files import index_of
from streaming.exporter.endpoint import Runs, plain_answer, text_endpoint
from streaming.exporter.metrics.exposition import Exposition, at_scrape
from streaming.exporter.metrics.formats import Format, accepted
from streaming.exporter.view_source import ViewSource
from streaming.history.moment import AT_NAME
from streaming.runtime.ports import probes
from streaming.runtime.quantities import utc_text


@text_endpoint(
    "/metrics",
    "metrics for Prometheus",
    refusals={404: "the exporter shows the past, or `?cluster=` names another cluster"},
)
def metrics(source: ViewSource, request: Request) -> Response:
    """The exposition; values of the past Prometheus would keep as values of now."""
    asked = request.query_params.get("cluster", source.cluster)
    if asked != source.cluster:
        return plain_answer(404, f"there is no cluster {asked}; there is {source.cluster}\n")
    if source.not_live:
        return plain_answer(404, f"{source.not_live}: no metrics\n")
    exposition, text = source.current(), accepted(request.headers.get("accept", ""))
    now = b"".join(scraped_now(source, exposition, text, is_up=not source.why_not_up))
    headers = {"Content-Type": text.content_type, "Vary": "Accept, Accept-Encoding"}
    if accepts_gzip(request):
        body = exposition.gzipped_after(now, text)
        return Response(body, headers=headers | {"Content-Encoding": "gzip"})
    return Response(b"".join((now, *exposition.blocks_in(text))), headers=headers)


def scraped_now(
    source: ViewSource, exposition: Exposition, text: Format, is_up: bool
) -> list[bytes]:
    """What a scrape has that depends on the clock and on clients, in blocks."""
    return at_scrape(
        source.cluster, exposition, source.now_ms(), source.streams, source.calls, text, is_up
    )


@text_endpoint(
    probes.ALIVE,
    "`alive`, while the exporter gets on: for a liveness probe; open without a token",
    refusals={503: "reading has stood still, and the exporter has to be started again"},
    runs=Runs.IN_LOOP,
)
def alive(source: ViewSource) -> Response:
    """Whether the exporter gets on."""
    return plain_answer(*probes.alive(source.stuck()))


@text_endpoint(
    probes.READY,
    "`ready` and one sentence that says whether the state is fresh: for a readiness probe, "
    "also while the state is stale; open without a token",
    runs=Runs.IN_LOOP,
)
def ready(source: ViewSource) -> Response:
    """Whether the exporter answers."""
    return plain_answer(*probes.ready(source.why_not_fresh))


@text_endpoint(
    probes.FRESH,
    "`ok`, or one sentence that says why the state is incomplete, stale or past; "
    "where there is an archive, a second line says how far that reaches; open without a "
    "token",
    refusals={503: "the state is incomplete, stale or past"},
    runs=Runs.IN_LOOP,
)
def fresh(source: ViewSource) -> Response:
    """Whether the state is fresh."""
    status, text = probes.fresh(source.why_not_fresh)
    span = None if source.not_live else source.span
    past = f"archived: {utc_text(span.begin_ms)} to {utc_text(span.end_ms)}\n" if span else ""
    return plain_answer(status, text + past)


@text_endpoint("/", "the console, for people", media_type="text/html", runs=Runs.IN_LOOP)
def console(request: Request) -> Response:
    """The console's page, for now or for a moment."""
    return index_of(request.query_params.get(AT_NAME, "")).answer(request)
