"""Who may ask the exporter what.

Two roles: who looks, and operators, who may fetch plans as well. A request shows who asks with a
token (as a bearer token, or as the password of HTTP's basic authentication, which browsers ask
for), or comes from a proxy that has found out, and says it in ``X-Forwarded-User``. Without a token
and a proxy in the configuration everybody may ask everything.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from enum import IntEnum
from ipaddress import ip_address, ip_network
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.exporter.answers import error_answer
from streaming.runtime.config import AccessConfig
from streaming.runtime.ports.probes import ALIVE, FRESH, READY

USER_HEADER: Final = "x-forwarded-user"

OPEN_PATHS: Final = (ALIVE, READY, FRESH)
"""Probes have no token. The sentences there name no topic."""

_BELOW: Final = re.compile(r"^/clusters/[^/]+(?=/)")
"""The beginning of a path of one cluster: below it the same is open as at the root."""

ROLE: Final = "kafka_twin.role"
"""Of a request's scope: the role of who asks. A request without it is the exporter's own."""


class Role(IntEnum):
    """What somebody may ask. Who may more has the higher number."""

    VIEWER = 1
    OPERATOR = 2


class Access:
    """Says which role a request has."""

    def __init__(self, config: AccessConfig) -> None:
        self._token, self._operator_token = config.token, config.operator_token
        self._proxies = [ip_network(text) for text in config.proxy_networks]
        self._operators = frozenset(config.operator_names)
        # Where nobody is named as an operator, whoever may look is one.
        self._has_operators = bool(self._operator_token or self._operators)

    @property
    def is_open(self) -> bool:
        """Whether everybody may ask everything."""
        return not (self._token or self._operator_token or self._proxies)

    @property
    def challenges(self) -> list[str]:
        """What a refusal asks for; nothing if a proxy has to say who asks."""
        if not (self._token or self._operator_token):
            return []
        return ['Basic realm="kafka-twin", charset="UTF-8"', 'Bearer realm="kafka-twin"']

    def role_of(self, headers: Headers, peer: str) -> Role | None:
        """The role of a request; None if it does not show one.

        Args:
            headers: of the request.
            peer: the address that it came from.
        """
        if self.is_open:
            return Role.OPERATOR
        given = _token(headers.get("authorization", ""))
        if _is(given, self._operator_token):
            return Role.OPERATOR
        if _is(given, self._token):
            return Role.VIEWER if self._has_operators else Role.OPERATOR
        users = headers.getlist(USER_HEADER)
        if len(users) == 1 and users[0] and self._is_proxy(peer):
            is_operator = users[0] in self._operators or not self._has_operators
            return Role.OPERATOR if is_operator else Role.VIEWER
        return None

    def _is_proxy(self, peer: str) -> bool:
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)  # of a socket that takes both
        return any((mapped or address) in network for network in self._proxies)


class GuardedApp:
    """An application that answers only who shows a role, and notes it for its endpoints."""

    def __init__(self, app: ASGIApp, access: Access, guarded_by_itself: frozenset[str]) -> None:
        """``guarded_by_itself`` are paths that know better who may ask."""
        self._app, self._access = app, access
        self._open = guarded_by_itself

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] in self._open or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        peer = scope["client"][0] if scope.get("client") else ""
        role = self._access.role_of(Headers(scope=scope), peer)
        if role is None:
            refusal = error_answer("who asks is not known: send the token of access.token", 401)
            for challenge in self._access.challenges:
                refusal.headers.append("WWW-Authenticate", challenge)
            await refusal(scope, receive, send)
            return
        scope[ROLE] = role
        await self._app(scope, receive, send)


def is_open(path: str) -> bool:
    """Whether a path, of all or below that of a cluster, is for whoever asks."""
    return _BELOW.sub("", path) in OPEN_PATHS


def may(scope: Scope, role: Role) -> bool:
    """Whether a request may ask what that role may."""
    return bool(scope.get(ROLE, Role.OPERATOR) >= role)


def _token(header: str) -> str:
    """The token of an ``Authorization`` header, empty if it has none."""
    scheme, _, value = header.partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip()
        case "basic":
            try:
                return base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return ""
        case _:
            return ""


def _is(given: str, token: str) -> bool:
    """Whether both are the same; compared in a time that says nothing about the token."""
    return bool(token) and hmac.compare_digest(given.encode(), token.encode())
