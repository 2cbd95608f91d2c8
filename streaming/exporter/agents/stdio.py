"""The MCP server over stdin and stdout, for clients that start it as a process."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from streaming.exporter.agents.counts import CallCounts, counted_in
from streaming.exporter.agents.mcp_server import mcp_server
from streaming.exporter.agents.tools import Ask, Tools


async def serve(tools: Tools, ask: Ask) -> None:
    """Answer until stdin ends."""
    server = mcp_server(tools, ask, counted_in(CallCounts()))
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
