"""The web application of several clusters: the fleet at the root, each cluster below its path."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from streaming.exporter.agents.door import PATH, Door
from streaming.exporter.agents.tools import CLUSTER, tools_of_fleet
from streaming.exporter.answers import RefusedError
from streaming.exporter.console_files import console_route, index_in_fleet
from streaming.exporter.endpoint import Endpoint, Values
from streaming.exporter.fleet.below import Below
from streaming.exporter.fleet.fleet_paths import fleet_endpoints
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.routing import routes
from streaming.exporter.turns import Turns
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import endpoints, guarded, routes_of, with_refusals
from streaming.runtime.config import AccessConfig, ExporterConfig
from twin.engine.catalog import Catalog


def fleet_application(
    clusters: ServedClusters,
    catalog: Catalog,
    config: ExporterConfig = ExporterConfig(),
    access: AccessConfig = AccessConfig(),
) -> ASGIApp:
    """The application that serves the clusters that there are when it is asked.

    Args:
        clusters: which they are.
        catalog: the rules, of which agents' tools are made; the same for all clusters.
        config: of the exporter.
        access: who may ask.
    """
    turns = Turns()

    def ask(endpoint: Endpoint, request: Request, values: Values) -> Any:
        return endpoint.answer(clusters, request, values)

    def of_cluster(source: ViewSource) -> ASGIApp:
        return with_refusals([index_in_fleet(), *routes_of(source, turns, of_several=True)])

    def count(tool: str, outcome: str, arguments: Mapping[str, Any]) -> None:
        with suppress(RefusedError):  # a call about no cluster that there is
            clusters.source(str(arguments.get(CLUSTER))).calls.add(tool, outcome)

    declared = fleet_endpoints()
    tools = tools_of_fleet(declared, endpoints(catalog))
    door = Door(tools, config, count)
    at_root = [
        *routes(declared, ask, turns, cluster=""),
        console_route(),
        Route(PATH, door),
        Below(clusters, of_cluster).route,
    ]
    return guarded(with_refusals(at_root, door.open), config, access)
