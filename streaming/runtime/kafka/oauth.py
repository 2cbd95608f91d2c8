"""OAUTHBEARER in a ``client`` section: where a token comes from, for both Kafka clients.

Tokens come from the endpoint of an identity provider, for a client id and a secret (RFC 6749,
section 4.4), from a file that something else renews, as Kubernetes does with the token of a service
account, or from a function of another package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

MECHANISM: Final = "OAUTHBEARER"
PREFIX: Final = "sasl_oauthbearer_"

_RESERVED: Final = "auth"
_FUNCTION: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_EXTENSION: Final = re.compile(r"([A-Za-z]+)=([\x20-\x7e]+)")
"""https://datatracker.ietf.org/doc/html/rfc7628#section-3.1, as Kafka checks it."""


class OAuthError(ValueError):
    """A setting cannot be used: ``KEY: reason``, without its value if that may be a secret."""


@dataclass(frozen=True, slots=True)
class OAuth:
    """Where tokens come from; the names of the settings follow ``sasl_oauthbearer_``.

    Attributes:
        token_endpoint_url: of the identity provider; empty where tokens come from elsewhere.
        client_id: of the twin there.
        client_secret: its secret.
        client_secret_file: a file with the secret, in place of it.
        scope: what is asked for; empty: nothing.
        cafile: certificates (PEM) that the endpoint's is signed by; empty: those of the system.
        token_file: a file with a token, in place of the endpoint.
        provider: ``module:function``, called without arguments, in place of both; it returns a
            token, or a token and when it ends, in seconds since the epoch.
        extensions: ``name=value`` with commas, which a broker may want beside the token.
    """

    token_endpoint_url: str = ""
    client_id: str = ""
    client_secret: str = ""
    client_secret_file: str = ""
    scope: str = ""
    cafile: str = ""
    token_file: str = ""
    provider: str = ""
    extensions: str = ""

    @property
    def extensions_by_name(self) -> dict[str, str]:
        """The extensions."""
        matches = (_EXTENSION.fullmatch(part.strip()) for part in self.extensions.split(","))
        return {match[1]: match[2] for match in matches if match}

    @property
    def secret(self) -> str:
        """The secret of the client.

        Raises:
            OSError, UnicodeDecodeError: its file cannot be read.
        """
        if self.client_secret_file:
            return Path(self.client_secret_file).read_text().strip()
        return self.client_secret


def oauth_of(client: Mapping[str, Any]) -> OAuth | None:
    """Read the settings of OAUTHBEARER in the section; None if it has another mechanism.

    Raises:
        OAuthError: a setting is missing, makes no sense, or belongs to another mechanism.
    """
    given = {name: str(value) for name, value in client.items() if name.startswith(PREFIX)}
    if client.get("sasl_mechanism") != MECHANISM:
        for name in given:
            raise OAuthError(f"{name}: needs sasl_mechanism = {MECHANISM!r}")
        return None
    known = {f"{PREFIX}{field.name}" for field in fields(OAuth)}
    for name in given.keys() - known:
        raise OAuthError(f"{name}: is none of {', '.join(sorted(known))}")
    oauth = OAuth(**{name.removeprefix(PREFIX): value for name, value in given.items()})
    for key, reason in _faults(oauth):
        raise OAuthError(f"{PREFIX}{key}: {reason}")
    return oauth


def _faults(oauth: OAuth) -> Iterator[tuple[str, str]]:
    """Names of settings, without the prefix, and what is wrong with each."""
    url = "token_endpoint_url"
    if len([s for s in (oauth.token_endpoint_url, oauth.token_file, oauth.provider) if s]) != 1:
        yield url, f"set either this or {PREFIX}token_file, or {PREFIX}provider"
    if oauth.provider and not _FUNCTION.fullmatch(oauth.provider):
        yield "provider", "must be like package.module:function"
    if oauth.token_endpoint_url:
        if not _is_url(oauth.token_endpoint_url):
            yield url, "must be like https://login.example/oauth2/token, without a user"
        if not oauth.client_id:
            yield "client_id", f"is missing: tokens of {PREFIX}{url} are for a client"
        if bool(oauth.client_secret) == bool(oauth.client_secret_file):
            yield "client_secret", f"set either this or {PREFIX}client_secret_file"
    else:
        for name in ("client_id", "client_secret", "client_secret_file", "scope", "cafile"):
            if getattr(oauth, name):
                yield name, f"needs {PREFIX}{url}: other tokens are complete"
    parts = [part.strip() for part in oauth.extensions.split(",") if part.strip()]
    if _RESERVED in oauth.extensions_by_name or len(parts) != len(oauth.extensions_by_name):
        yield "extensions", "must be like 'logicalCluster=lkc-1, identityPoolId=pool-2'"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (
            parts.port is None or parts.port > 0
        ) and "@" not in parts.netloc  # fmt: skip
    except ValueError:
        return False
