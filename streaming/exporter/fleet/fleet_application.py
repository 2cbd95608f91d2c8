"""The web application of several clusters: the fleet at the root, each cluster below its path."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp

from streaming.exporter.console_files import console_route, index_in_fleet
from streaming.exporter.endpoint import Endpoint, Values
from streaming.exporter.fleet import fleet_paths
from streaming.exporter.fleet.below import Below
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.routing import routes
from streaming.exporter.turns import Turns
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import guarded, routes_of, with_refusals
from streaming.runtime.config import AccessConfig, ExporterConfig


def fleet_application(
    clusters: ServedClusters,
    config: ExporterConfig = ExporterConfig(),
    access: AccessConfig = AccessConfig(),
) -> ASGIApp:
    """The application that serves the clusters that there are when it is asked."""
    turns = Turns()

    def ask(endpoint: Endpoint, request: Request, values: Values) -> Any:
        return endpoint.answer(clusters, request, values)

    def of_cluster(source: ViewSource) -> ASGIApp:
        return with_refusals([index_in_fleet(), *routes_of(source, turns)])

    below = Below(clusters, of_cluster)
    declared = [each for each in vars(fleet_paths).values() if isinstance(each, Endpoint)]
    at_root = routes(declared, ask, turns, cluster="")
    return guarded(with_refusals([*at_root, console_route(), below.route]), config, access)
