"""For Prometheus and for probes: what an exporter of several clusters says of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, TypedDict

import structlog
from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.answers import RefusedError, accepts_gzip, gzipped
from streaming.exporter.endpoint import Runs, endpoint, plain_answer, text_endpoint
from streaming.exporter.fleet.below import path_of
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.metrics.formats import Format, accepted
from streaming.exporter.metrics.merged import merged
from streaming.exporter.routes import site
from streaming.exporter.schemas import TEXT, listed, obj
from streaming.exporter.view_source import ViewSource
from streaming.questions.parameters import text
from streaming.runtime.ports import probes

log = structlog.get_logger("exporter")

_ONE: Final = text("metrics of this cluster alone")

_NAME_SIGNS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


@text_endpoint(
    "/metrics",
    "metrics for Prometheus, of all clusters or of the one in `?cluster=`",
    parameters={"cluster": _ONE},
    refusals={404: "no cluster has that name"},
)
def metrics(
    clusters: ServedClusters,
    request: Request,
    *,
    cluster: Annotated[str, _ONE] = "",
) -> Response:
    """The expositions as one: a cluster of which none can be made is not up, and the others are."""
    if cluster:
        try:
            source = clusters.source(cluster)
        except RefusedError as refused:
            return plain_answer(refused.status, f"{refused}\n")
        answer: Response = site.metrics.answer(source, request, {})
        return answer
    as_text = accepted(request.headers.get("accept", ""))
    for source in clusters.sources:  # so that each is known to want its share of the caps
        _rendered(source)
    each = [_blocks(source, as_text) for source in clusters.sources]
    blocks = [*merged(each), as_text.end]
    headers = {"Content-Type": as_text.content_type, "Vary": "Accept, Accept-Encoding"}
    if accepts_gzip(request):
        return Response(gzipped(blocks), headers=headers | {"Content-Encoding": "gzip"})
    return Response(b"".join(blocks), headers=headers)


def _blocks(source: ViewSource, as_text: Format) -> Sequence[bytes]:
    exposition = _rendered(source)
    is_up = exposition is not None and not source.why_not_up
    exposition = exposition or Exposition(source.view)
    now = site.scraped_now(source, exposition, as_text, is_up)
    return [*now, *exposition.blocks_in(as_text)]


def _rendered(source: ViewSource) -> Exposition | None:
    try:
        return source.current()
    except Exception:
        log.exception("no metrics can be made", cluster=source.cluster)
        return None


class Target(TypedDict):
    """What Prometheus scrapes of one cluster."""

    targets: Sequence[str]
    labels: Mapping[str, str]


@endpoint(
    "/api/v1/http_sd",
    "the clusters for `http_sd_configs` of Prometheus: each a target of its own, with its labels",
    of_state=False,
    schema=listed(
        obj(
            {
                "targets": listed(TEXT),
                "labels": {"type": "object", "additionalProperties": TEXT},
            }
        )
    ),
)
def http_sd(clusters: ServedClusters, request: Request) -> Sequence[Target]:
    """A target a cluster, at the address at which Prometheus asked."""
    host = request.headers.get("host", "")
    return [_target(source, host) for source in clusters.sources]


def _target(source: ViewSource, host: str) -> Target:
    """``up`` has no label for the cluster but its instance: it has to differ."""
    own = {_label_name(name): value for name, value in source.labels.items()}
    asked = {"__param_cluster": source.cluster, "instance": f"{host}{path_of(source.cluster)}"}
    return {"targets": [host], "labels": {**own, **asked}}


def _label_name(name: str) -> str:
    """A name that Prometheus takes."""
    signs = "".join(sign if sign in _NAME_SIGNS else "_" for sign in name)
    return f"_{signs}" if signs[:1].isdigit() else signs


def _lines(clusters: ServedClusters, why: Callable[[ViewSource], str]) -> list[str]:
    """A line for each cluster of which there is something to say."""
    said = ((source.cluster, why(source)) for source in clusters.sources)
    return [f"{name}: {sentence}" for name, sentence in said if sentence]


@text_endpoint(
    probes.ALIVE,
    "`alive`, while the reading of all clusters gets on: for a liveness probe; open without a "
    "token",
    refusals={503: "reading has stood still, and the exporter has to be started again"},
    runs=Runs.IN_LOOP,
)
def alive(clusters: ServedClusters) -> Response:
    """Whether the exporter gets on."""
    return plain_answer(*probes.alive("\n".join(_lines(clusters, lambda each: each.stuck()))))


@text_endpoint(
    probes.READY,
    "`ready`, and which clusters are not fresh: for a readiness probe, also while some are not; "
    "open without a token",
    runs=Runs.IN_LOOP,
)
def ready(clusters: ServedClusters) -> Response:
    """Whether the exporter answers."""
    return plain_answer(*probes.ready("; ".join(_lines(clusters, lambda each: each.why_not_fresh))))


@text_endpoint(
    probes.FRESH,
    "`ok`, or a line for each cluster whose state is incomplete or stale; open without a token",
    refusals={503: "the state of a cluster is incomplete or stale"},
    runs=Runs.IN_LOOP,
)
def fresh(clusters: ServedClusters) -> Response:
    """Whether the state of each cluster is fresh."""
    return plain_answer(*probes.fresh("\n".join(_lines(clusters, lambda each: each.why_not_fresh))))
