"""The paths of an exporter of several clusters that are about all of them."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.console_files import console_files
from streaming.exporter.endpoint import Runs, endpoint
from streaming.exporter.fleet import fleet_rows
from streaming.exporter.fleet.served_clusters import ServedClusters


@endpoint(
    "/",
    "the fleet, for people",
    schema={"type": "string"},
    of_state=False,
    media_type="text/html",
    parameters=None,
    runs=Runs.IN_LOOP,
)
def page(request: Request) -> Response:
    """The fleet's page."""
    return console_files()["fleet.html"].answer(request)


@endpoint("/api/v1/fleet", "all clusters, worst first", tool="fleet", of_state=False, schema={})
def fleet(clusters: ServedClusters) -> Any:
    """A row a cluster."""
    return fleet_rows.fleet(clusters.sources)
