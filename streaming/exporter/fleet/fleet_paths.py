"""The paths of an exporter of several clusters that are about all of them."""

from __future__ import annotations

from functools import cache

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.console_files import console_files
from streaming.exporter.endpoint import JSON, Endpoint, Runs, endpoint, text_endpoint
from streaming.exporter.fleet import fleet_report, fleet_site
from streaming.exporter.fleet.fleet_rows import Fleet
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.openapi import document, forms_of
from streaming.exporter.schemas import ERROR, typed_components


@text_endpoint("/", "the fleet, for people", media_type="text/html", runs=Runs.IN_LOOP)
def page(request: Request) -> Response:
    """The fleet's page."""
    return console_files()["fleet.html"].answer(request)


@endpoint("/api/v1/fleet", "all clusters, worst first", tool="fleet", of_state=False)
def fleet(clusters: ServedClusters) -> Fleet:
    """A row a cluster."""
    return clusters.fleet()


@endpoint(
    "/api/v1/openapi.json",
    "the paths about all clusters in OpenAPI 3.1; those of a cluster are described below it",
    schema={"type": "object"},
    of_state=False,
)
def openapi(_: ServedClusters) -> Response:
    """The description of these paths."""
    return Response(_described(), media_type=JSON)


@cache
def _described() -> bytes:
    declared = fleet_endpoints()
    schemas = typed_components(forms_of(declared))
    return msgspec.json.encode(document(declared, {**schemas, "Error": ERROR}))


def fleet_endpoints() -> list[Endpoint]:
    """All endpoints about all clusters."""
    return [page, fleet_site.metrics, fleet_site.alive, fleet_site.ready, fleet_site.fresh, fleet,
            fleet_report.report, fleet_site.http_sd, openapi]  # fmt: skip
