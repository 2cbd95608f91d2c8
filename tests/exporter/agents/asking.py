"""An agent's side: the SDK's own client against an exporter on a port of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Tool
from starlette.testclient import TestClient

from streaming.bus.view import SnapshotStore
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.runtime.config import AccessConfig, ExporterConfig
from tests.builders import NOW_MS
from tests.exporter.serving import served
from twin.builtin import CATALOG

Call = tuple[str, dict[str, Any]]


def an_application(
    store: SnapshotStore, access: AccessConfig = AccessConfig(), **config: Any
) -> Any:
    """The application over a store, one second after its observations."""
    rendered = Renderer(CATALOG, "c", ExporterConfig()).render(store.view)
    source = ViewSource(CATALOG, "c", lambda: rendered, lambda: NOW_MS + 1_000)
    return application(source, ExporterConfig(**config), access)


@contextmanager
def an_exporter(
    store: SnapshotStore, access: AccessConfig = AccessConfig(), **config: Any
) -> Iterator[str]:
    """The URL of an exporter that serves the store."""
    with served(an_application(store, access, **config)) as url:
        yield url


def called(url: str, *calls: Call, token: str = "", mode: str = "auto") -> list[CallToolResult]:
    """The results of the calls, one after the other, in one conversation."""

    async def converse() -> list[CallToolResult]:
        async with a_client(url, token, mode) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(converse())


def listed(url: str) -> dict[str, Tool]:
    """The tools that a client sees."""

    async def tools() -> dict[str, Tool]:
        async with a_client(url) as client:
            return {each.name: each for each in (await client.list_tools()).tools}

    return asyncio.run(tools())


@asynccontextmanager
async def a_client(url: str, token: str = "", mode: Any = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=200, trust_env=False) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert content.type == "text"
    return content.text


def of_api(client: TestClient, path: str, **parameters: Any) -> dict[str, Any]:
    """The answer of the API."""
    answer: dict[str, Any] = client.get(f"/api/v1/{path}", params=parameters).json()
    return answer
