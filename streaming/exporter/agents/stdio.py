"""The MCP server over stdin and stdout, for clients that start it as a process."""

from __future__ import annotations

from collections.abc import Mapping

from mcp.server.stdio import stdio_server

from streaming.exporter.agents.counts import CallCounts
from streaming.exporter.agents.mcp_server import mcp_server
from streaming.exporter.agents.tools import Ask, Tool


async def serve(tools: Mapping[str, Tool], ask: Ask) -> None:
    """Answer until stdin ends."""
    server = mcp_server(tools, ask, CallCounts())
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
