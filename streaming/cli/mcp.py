"""``kafka-twin mcp``: an exporter's API as tools for an agent that starts this process."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from streaming.cli.exporter_client import Url, asking
from streaming.exporter.agents.door import NOT_INSTALLED, is_installed
from streaming.exporter.agents.tools import Ask, tools_of, tools_of_fleet
from streaming.exporter.fleet.fleet_paths import fleet_endpoints
from streaming.exporter.web_application import endpoints
from streaming.runtime.configuration.chosen import Chosen
from streaming.runtime.errors import UserError
from streaming.runtime.plugins import catalog_of


class NotInstalledError(UserError):
    """The packages that the command needs are not installed."""


class _Fleet(msgspec.Struct):
    """The answer of ``/api/v1/fleet``, which only an exporter of several clusters gives."""

    clusters: list[Any]


@click.command()
@click.option(
    "--url",
    type=Url(),
    required=True,
    help="The exporter that is asked, e.g. http://127.0.0.1:9410.",
)
@click.pass_obj
def mcp(chosen: Chosen, url: str) -> None:
    """Answer agents over stdin and stdout (MCP).

    For clients that start their servers, like Claude Desktop. It asks the exporter, and only reads.
    If the exporter has several clusters, each tool has the parameter cluster, unless --cluster
    names one.
    """
    followed = chosen.followed()
    if not is_installed():
        raise NotInstalledError(NOT_INSTALLED)
    from streaming.exporter.agents import stdio

    # Only the declarations are needed: the state is the exporter's.
    of_each = endpoints(catalog_of(followed.common))

    async def answer() -> None:
        async with asking(url) as ask:
            of_several = not chosen.cluster and await has_fleet(ask, followed.is_fleet)
            of_fleet = tools_of_fleet(fleet_endpoints(), of_each)
            await stdio.serve(of_fleet if of_several else tools_of(of_each), ask)

    asyncio.run(answer())


async def has_fleet(ask: Ask, configured: bool) -> bool:
    """Whether an exporter has several clusters; what is ``configured`` while it does not answer."""
    try:
        _, body = await ask("/api/v1/fleet", [])
        msgspec.json.decode(body, type=_Fleet)
    except UserError:
        return configured
    except msgspec.MsgspecError:
        return False
    return True
