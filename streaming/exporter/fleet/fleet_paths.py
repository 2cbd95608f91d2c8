"""The paths of an exporter of several clusters that are about all of them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.console_files import console_files
from streaming.exporter.endpoint import Runs, endpoint
from streaming.exporter.fleet.fleet_rows import Fleet
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


@endpoint("/api/v1/fleet", "all clusters, worst first", tool="fleet", of_state=False)
def fleet(clusters: ServedClusters) -> Fleet:
    """A row a cluster."""
    return clusters.fleet()
