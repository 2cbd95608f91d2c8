"""Tokens for Spark's Java client that this process has, from a file or from a function.

Kafka's Java client 3.9 reads a token in a file once (FileTokenRetriever), and knows no Python. But
it asks an endpoint each time that it needs a token (RFC 6749, 4.4). So this process is the endpoint
of its JVM: on the loopback address, for a client and a secret that are made at the start.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import threading
from dataclasses import dataclass
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from streaming.runtime.kafka.oauth import OAuth
from streaming.runtime.kafka.tokens import MOST_LOGINS, TokenError, TokenProvider, provider_of

_PARTS_OF_A_JWT: Final = 3
_FORM_AT_MOST: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """Where the JVM gets tokens, and as whom."""

    url: str
    client_id: str
    client_secret: str


@lru_cache(maxsize=MOST_LOGINS)
def endpoint_of(oauth: OAuth) -> TokenEndpoint:
    """The endpoint for these settings, which serves until the process ends.

    Raises:
        TokenError: there is no token, or it is none that Kafka's Java client can use.
    """
    provider = provider_of(oauth)
    if provider.token().count(".") != _PARTS_OF_A_JWT - 1:
        where = oauth.token_file or oauth.provider
        raise TokenError(
            f"the token of {where} is no JSON web token (RFC 7519), and Kafka's Java client, which "
            "the query uses, reads its end in it"
        )
    client, secret = "kafka-twin", secrets.token_urlsafe(32)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(provider, client, secret))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True, name="token endpoint").start()
    return TokenEndpoint(f"http://127.0.0.1:{server.server_port}/token", client, secret)


def _handler(provider: TokenProvider, client: str, secret: str) -> type[BaseHTTPRequestHandler]:
    login = "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0

        def do_POST(self) -> None:
            self.rfile.read(min(int(self.headers.get("Content-Length", 0)), _FORM_AT_MOST))
            given = self.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode(), login.encode()):
                self._answer(401, {"error": "invalid_client"})
                return
            try:
                self._answer(200, {"access_token": provider.token(), "token_type": "Bearer"})
            except TokenError as error:
                self._answer(403, {"error": "access_denied", "error_description": str(error)})

        def _answer(self, status: int, fields: dict[str, str]) -> None:
            body = json.dumps(fields).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: each token that is fetched would be a line."""

    return Handler
