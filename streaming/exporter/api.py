"""The web application: /metrics, /healthz, /api/v1, and a page.

Every answer is made from the newest view; nothing here asks Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from streaming.bus.view import ClusterView
from streaming.exporter import api_views, groups_views, prediction_views, segment_views, whatif
from streaming.exporter.answers import error_answer, json_answer
from streaming.exporter.exposition import CONTENT_TYPE, Exposition, at_scrape, gzipped
from streaming.exporter.parameters import restart_terms
from streaming.exporter.prediction_views import PredictionFilter
from streaming.questions.restart import NoSuchBrokerError, judge
from twin.catalog import Catalog

_PAGE = Path(__file__).with_name("page.html").read_text(encoding="utf-8")

_PARTITION: Final = "/api/v1/partitions/{topic}/{partition:int}"


def application(
    catalog: Catalog,
    cluster: str,
    current: Callable[[], Exposition],
    now_ms: Callable[[], int] | None = None,
) -> Starlette:
    """The application over the newest exposition, which ``current`` returns."""
    clock = now_ms or (lambda: time.time_ns() // 1_000_000)

    # Plain functions run in a thread each: a large answer holds up neither health nor others.
    def metrics(request: Request) -> Response:
        exposition = current()
        parts = (at_scrape(cluster, exposition.view, clock()), *exposition.blocks)
        headers = {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(gzipped(parts), headers=headers | {"Content-Encoding": "gzip"})
        return Response(b"".join(parts), headers=headers)

    async def health(_: Request) -> Response:
        why = current().view.why_not_up(clock())
        return Response(f"{why or 'ok'}\n", 503 if why else 200, media_type="text/plain")

    def partitions(request: Request) -> Response:
        try:
            asked = api_views.PartitionFilter.from_parameters(
                catalog, request.query_params.multi_items()
            )
        except ValueError as error:
            return error_answer(str(error), 400)
        return json_answer(api_views.partitions(current().view, asked, clock()))

    def partition(view: ClusterView, topic: str, number: int) -> Any:
        asked = api_views.PartitionFilter(topic=topic, partition=number, limit=1)
        return next(iter(api_views.partitions(view, asked, clock())["partitions"]), None)

    def of_partition(answer: Callable[..., Any]) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            topic, number = request.path_params["topic"], request.path_params["partition"]
            content = answer(current().view, topic, number)
            if content is None:
                return error_answer(f"{topic}-{number} is not known", 404)
            return json_answer(content)

        return respond

    def brokers(_: Request) -> Response:
        return json_answer(api_views.brokers(current().view, clock()))

    def predictions(request: Request) -> Response:
        try:
            asked = PredictionFilter.from_parameters(request.query_params.multi_items())
        except ValueError as error:
            return error_answer(str(error), 400)
        return json_answer(prediction_views.predictions(current().view, asked))

    def restart(request: Request) -> Response:
        broker = request.path_params["broker"]
        try:
            terms, since_ms = restart_terms(request.query_params.multi_items())
        except ValueError as error:
            return error_answer(str(error), 400)
        try:
            answer = judge(current().view, [broker], terms, clock(), since_ms)
            return json_answer(answer.data())
        except NoSuchBrokerError as error:
            return error_answer(str(error), 404)

    def summary(_: Request) -> Response:
        return json_answer(api_views.summary(catalog, cluster, current().view, clock()))

    async def page(_: Request) -> Response:
        return HTMLResponse(_PAGE)

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", health),
            Route("/api/v1/summary", summary),
            Route("/api/v1/partitions", partitions),
            Route(_PARTITION, of_partition(partition)),
            Route(f"{_PARTITION}/segments", of_partition(segment_views.segments)),
            Route(f"{_PARTITION}/epochs", of_partition(segment_views.epochs)),
            Route("/api/v1/brokers", brokers),
            Route("/api/v1/brokers/{broker:int}/restart", restart),
            Route("/api/v1/predictions", predictions),
            *groups_views.routes(lambda: current().view, clock),
            *whatif.routes(lambda: current().view, clock),
            Route("/", page),
        ]
    )
