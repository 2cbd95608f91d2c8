"""An identity provider: it gives signed tokens with a short life to those who know its secret."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

CLIENT, SECRET = "twin", 's"e\\cret = 1'
ISSUER: Final = "https://identity.test"
AUDIENCE: Final = "kafka"
KEY_ID: Final = "key-1"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _openssl(folder: Path, words: str, given: bytes | None = None) -> bytes:
    done = subprocess.run(
        ["openssl", *words.split()], cwd=folder, check=True, capture_output=True, input=given
    )
    return done.stdout


@dataclass
class IdentityProvider:
    """The provider's settings and the requests that it received. Tests change them while it serves.

    Attributes:
        folder: of its key, its certificate ``idp.pem`` and its public key ``jwks.json``.
        life_s: of a token.
        subject: of a token.
        asked: forms that it was asked with.
        answers: status and body in place of a token.
    """

    folder: Path
    life_s: float = 30.0
    subject: str = CLIENT
    url: str = ""
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    answers: tuple[int, bytes] | None = None

    def __post_init__(self) -> None:
        _openssl(self.folder, "genrsa -out token.key 2048")
        text = _openssl(self.folder, "rsa -in token.key -noout -modulus").decode()
        modulus = bytes.fromhex(text.strip().partition("=")[2])
        key = {"kty": "RSA", "kid": KEY_ID, "alg": "RS256", "use": "sig",
               "n": _base64url(modulus), "e": "AQAB"}  # fmt: skip
        (self.folder / "jwks.json").write_text(json.dumps({"keys": [key]}))
        _openssl(
            self.folder,
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 "
            "-addext subjectAltName=IP:127.0.0.1 -keyout idp.key -out idp.pem",
        )

    def token(self, life_s: float | None = None) -> str:
        """A signed token."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": self.subject, "iat": now,
                  "exp": now + int(self.life_s if life_s is None else life_s)}  # fmt: skip
        parts = ({"alg": "RS256", "typ": "JWT", "kid": KEY_ID}, claims)
        text = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
        signature = _openssl(self.folder, "dgst -sha256 -sign token.key", text.encode())
        return f"{text}.{_base64url(signature)}"

    def answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, bytes]:
        """Status and body."""
        self.asked.append(form)
        if self.answers is not None:
            return self.answers
        login = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {login}":
            return 401, b'{"error": "invalid_client"}'
        given: dict[str, Any] = {"access_token": self.token(), "token_type": "Bearer"}
        return 200, json.dumps(given | {"expires_in": int(self.life_s)}).encode()


@contextmanager
def serving(provider: IdentityProvider, *, tls: bool = False) -> Iterator[IdentityProvider]:
    """The provider at a URL of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, answer = provider.answer(self.headers["Authorization"], parse_qs(body))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(provider.folder / "idp.pem", provider.folder / "idp.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    provider.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}/token"
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
