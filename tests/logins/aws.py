"""AWS for tests: keys that a broker knows, and the Security Token Service that judges them.

Requests are verified as AWS documents it (Signature Version 4, header Authorization).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

REGION: Final = "eu-west-1"
KEY, SECRET = "AKIATWIN0000EXAMPLE1", "wJalr/Secret+Twin0000EXAMPLEKEY"
ARN: Final = "arn:aws:iam::123456789012:user/twin"
ROLE: Final = "arn:aws:iam::123456789012:role/kafka"
_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\S+), ?SignedHeaders=(\S+), ?Signature=(\w+)"
)
_LIFE: Final = "2100-01-01T00:00:00Z"


@dataclass
class Key:
    """A pair of an access key, whose id is elsewhere, and its secret.

    Attributes:
        secret: the secret key.
        token: the session token that belongs to it; empty if it has none.
        arn: whose it is.
        ended: whether its session is over.
    """

    secret: str
    token: str = ""
    arn: str = ARN
    ended: bool = False


@dataclass
class Aws:
    """What is known of keys. Tests change it.

    Attributes:
        file: keys as the tests' broker reads them.
        external_id: what the role's owner asks for.
        assumed: forms with which the role was assumed.
    """

    file: Path
    url: str = ""
    external_id: str = ""
    keys: dict[str, Key] = field(default_factory=dict)
    assumed: list[dict[str, str]] = field(default_factory=list)

    def knows(self, key_id: str, key: Key) -> None:
        """From now on; both at brokers and here."""
        self.keys[key_id] = key
        lines = [
            f"{i} {k.secret} {k.token or '-'} {k.arn}" for i, k in self.keys.items() if not k.ended
        ]
        self.file.write_text("\n".join(lines) + "\n")

    def answer(self, headers: dict[str, str], body: str) -> tuple[int, str]:
        """Status and body of an answer to a signed form."""
        form = dict(parse_qsl(body))
        if form["Action"] == "AssumeRoleWithWebIdentity":  # the token in it is the login
            return self._assume(form)
        match = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
        if match is None:
            return _refusal(403, "MissingAuthenticationToken")
        key_id, scope, signed, signature = match.groups()
        key = self.keys.get(key_id)
        if key is None or headers.get("x-amz-security-token", "") != key.token:
            return _refusal(403, "InvalidClientTokenId")
        if signature != _signature(key.secret, scope, signed.split(";"), headers, body):
            return _refusal(403, "SignatureDoesNotMatch")
        if key.ended:
            return _refusal(403, "ExpiredToken")
        if form["Action"] == "GetCallerIdentity":
            return _result(form["Action"], f"<Arn>{key.arn}</Arn><Account>123456789012</Account>")
        return self._assume(form)

    def _assume(self, form: dict[str, str]) -> tuple[int, str]:
        self.assumed.append(form)
        if form["RoleArn"] != ROLE or form.get("ExternalId", "") != self.external_id:
            return _refusal(403, "AccessDenied")
        session = f"arn:aws:sts::123456789012:assumed-role/kafka/{form['RoleSessionName']}"
        made = Key(secrets.token_hex(20), secrets.token_hex(40), session)
        made_id = f"ASIA{secrets.token_hex(8).upper()}"
        self.knows(made_id, made)
        return _result(
            form["Action"],
            f"<Credentials><AccessKeyId>{made_id}</AccessKeyId>"
            f"<SecretAccessKey>{made.secret}</SecretAccessKey>"
            f"<SessionToken>{made.token}</SessionToken><Expiration>{_LIFE}</Expiration>"
            f"</Credentials><AssumedRoleUser><Arn>{session}</Arn>"
            "<AssumedRoleId>AROA:twin</AssumedRoleId></AssumedRoleUser>",
        )


def _signature(
    secret: str, scope: str, signed: list[str], headers: dict[str, str], body: str
) -> str:
    def sha256(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    def mac(key: bytes, text: str) -> bytes:
        return hmac.new(key, text.encode(), "sha256").digest()

    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in signed)
    request = f"POST\n/\n\n{lines}\n{';'.join(signed)}\n{sha256(body)}"
    text = f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{sha256(request)}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = mac(key, part)
    return mac(key, text).hex()


_SPACE: Final = 'xmlns="https://sts.amazonaws.com/doc/2011-06-15/"'


def _refusal(status: int, code: str) -> tuple[int, str]:
    body = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>no</Message></Error>"
    return status, f"<ErrorResponse {_SPACE}>{body}</ErrorResponse>"


def _result(action: str, body: str) -> tuple[int, str]:
    return (
        200,
        f"<{action}Response {_SPACE}><{action}Result>{body}</{action}Result></{action}Response>",
    )


@contextmanager
def serving(aws: Aws) -> Iterator[Aws]:
    """The Security Token Service at a URL of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = aws.answer(headers, body)
            self.send_response(status)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    aws.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield aws
    finally:
        server.shutdown()
        server.server_close()
