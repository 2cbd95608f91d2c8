"""``kafka-twin mcp``: an exporter's API as tools for an agent that starts this process."""

from __future__ import annotations

import asyncio

import click

from streaming.cli.exporter_client import Url, asking
from streaming.exporter.agents.door import NOT_INSTALLED, is_installed
from streaming.exporter.agents.tools import tools_of
from streaming.exporter.web_application import endpoints
from streaming.runtime.configuration.chosen import Chosen
from streaming.runtime.errors import UserError
from streaming.runtime.plugins import catalog_of


class NotInstalledError(UserError):
    """The packages that the command needs are not installed."""


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
    """
    config = chosen.common()
    if not is_installed():
        raise NotInstalledError(NOT_INSTALLED)
    from streaming.exporter.agents import stdio

    # Only the declarations are needed: the state is the exporter's.
    tools = tools_of(endpoints(catalog_of(config)))

    async def answer() -> None:
        async with asking(url) as ask:
            await stdio.serve(tools, ask)

    asyncio.run(answer())
