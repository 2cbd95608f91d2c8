"""The path /mcp of the exporter: whether it is open, for whom, and the server behind it."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any, Final

import httpx2
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.exporter.agents.counts import Count
from streaming.exporter.agents.tools import Tools
from streaming.exporter.answers import error_answer
from streaming.exporter.web.access import Role, may
from streaming.runtime.config import ExporterConfig

PATH: Final = "/mcp"

NOT_INSTALLED: Final = "MCP needs packages that are not installed: pip install 'kafka-twin[mcp]'"

_MOST_REQUEST_BYTES: Final = 64_000
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


def why_closed(config: ExporterConfig) -> str:
    """One line, empty if the door is open."""
    if config.mcp is False:
        return "MCP is off: exporter.mcp = true opens it"
    if config.mcp == "auto" and not config.is_on_loopback:
        return (
            "MCP is off where the exporter listens beyond loopback: exporter.mcp = true and "
            "exporter.mcp_token open it"
        )
    return "" if is_installed() else NOT_INSTALLED


def is_installed() -> bool:
    """Whether the extra ``mcp`` is."""
    return find_spec("mcp") is not None


class Door:
    """The application at /mcp. ``open`` is to be entered before a request arrives."""

    def __init__(self, tools: Tools, config: ExporterConfig, count: Count) -> None:
        self._tools, self._config, self._count = tools, config, count
        self._closed = why_closed(config)
        self._behind: ASGIApp | None = None

    @asynccontextmanager
    async def open(self, api: ASGIApp) -> AsyncIterator[None]:
        """Serve what the API answers while the context lasts; a closed door starts nothing."""
        if self._closed:
            yield
            return
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from streaming.exporter.agents.mcp_server import mcp_server

        transport = httpx2.ASGITransport(app=api, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://exporter") as client:

            async def ask(path: str, parameters: Sequence[tuple[str, str]]) -> tuple[int, bytes]:
                plain = {"Accept-Encoding": "identity"}
                answer = await client.get(path, params=list(parameters), headers=plain)
                return answer.status_code, answer.content

            manager = StreamableHTTPSessionManager(
                mcp_server(self._tools, ask, self._count),
                json_response=True,
                stateless=True,
                security_settings=_security(self._config),
                max_request_body_size=_MOST_REQUEST_BYTES,
            )
            async with manager.run():
                self._behind = manager.handle_request
                yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request: only who has the token, if there is one, reaches the server."""
        given = Headers(scope=scope).get("authorization", "")
        if self._closed:
            await error_answer(self._closed, 404)(scope, receive, send)
        elif not _is_allowed(given, self._config.mcp_token):
            refusal = error_answer("a bearer token is needed: that of exporter.mcp_token", 401)
            refusal.headers["WWW-Authenticate"] = "Bearer"
            await refusal(scope, receive, send)
        elif not may(scope, Role.OPERATOR):  # tools fetch plans too
            refusal = error_answer("agents need exporter.mcp_token, or an operator's token", 403)
            await refusal(scope, receive, send)
        elif scope["method"] != "POST":  # without sessions there is nothing to stream or to end
            refusal = error_answer("Method Not Allowed", 405)
            refusal.headers["Allow"] = "POST"
            await refusal(scope, receive, send)
        else:
            assert self._behind is not None, "the server's life has not begun"
            await self._behind(scope, receive, send)


def _is_allowed(given: str, token: str) -> bool:
    """Whether a header has the token; compared in a time that says nothing about it."""
    if not token:
        return True
    scheme, _, secret = given.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(secret.encode(), token.encode())


def _security(config: ExporterConfig) -> Any:
    """Which names of this server a request may use: on loopback its own, and those that are set.

    Pages of other sites reach a server on loopback under a name of theirs (DNS rebinding).
    """
    from mcp.server.transport_security import TransportSecuritySettings

    names = [*(_LOOPBACK if config.is_on_loopback else ()), *config.mcp_host_names]
    hosts = [form for name in names for form in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=bool(names),
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")],
    )
