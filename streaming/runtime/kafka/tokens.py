"""Tokens of OAUTHBEARER for kafka-python, which asks for one with each connection and each renewal.

A client asks in its I/O thread, so a token is kept for most of its life, and whoever gives it has a
deadline. kafka-python logs in again on open connections before the session ends (KIP-368).
"""

from __future__ import annotations

import base64
import importlib
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from kafka.net.sasl.oauth import AbstractTokenProvider

from streaming.runtime.errors import UserError, keep_secret
from streaming.runtime.kafka.oauth import PREFIX, OAuth

KEPT: Final = 0.8
"""Of its life a token is used for new logins, as Kafka's Java client does."""

TRIED_AGAIN_AFTER_S: Final = 5.0
"""While nobody gives a new token, and the last one is still good."""

MOST_LOGINS: Final = 512
"""Logins that are kept of one process: more than it has clusters."""

ANSWERS_WITHIN_S: Final = 5.0
_ANSWER_AT_MOST: Final = 1 << 20


class TokenError(UserError):
    """No token can be had; the message is one line with the place and the reason."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token.

    Attributes:
        text: as it is sent.
        ends_s: when it ends, in seconds since the epoch; NaN if nobody says it.
    """

    text: str
    ends_s: float


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Gives kafka-python a token that is still good for a while, for any number of clients."""

    def __init__(
        self, obtain: Callable[[], Token], extensions: dict[str, str], kept: float = KEPT,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """Ask for nothing yet.

        Args:
            obtain: gives a token, or raises a TokenError.
            extensions: what is sent beside it.
            kept: the share of its life in which a token is used for new logins.
            clock: seconds since the epoch.
        """
        self._obtain = obtain
        self._extensions = extensions
        self._kept = kept
        self._clock = clock
        self._lock = threading.Lock()
        self._token = Token("", 0.0)
        self._until_s = 0.0

    def token(self) -> str:
        """The token; a new one near the end of the last one's life.

        Raises:
            TokenError: none can be had, and the last one has ended.
        """
        with self._lock:
            now_s = self._clock()
            if not now_s < self._until_s:
                self._renew(now_s)
            return self._token.text

    def _renew(self, now_s: float) -> None:
        try:
            self._token = self._obtain()
        except TokenError:
            if not now_s < self._token.ends_s:
                raise
            self._until_s = now_s + TRIED_AGAIN_AFTER_S
        else:
            keep_secret(self._token.text, lasts=False)
            left_s = self._token.ends_s - now_s  # NaN if unknown: then each login asks for a token
            self._until_s = now_s + self._kept * left_s

    def extensions(self) -> dict[str, str]:
        """The extensions that kafka-python sends with each token."""
        return self._extensions


@lru_cache(maxsize=MOST_LOGINS)
def provider_of(oauth: OAuth) -> TokenProvider:
    """The provider for these settings: one for all clients of the process.

    Raises:
        TokenError: there is no such function.
    """
    if oauth.provider:
        return TokenProvider(_plugged_in(oauth.provider), oauth.extensions_by_name)
    if oauth.token_file:  # read anew for each login: it may be renewed at any time
        return TokenProvider(lambda: of_file(oauth), oauth.extensions_by_name, kept=0)
    return TokenProvider(lambda: of_endpoint(oauth), oauth.extensions_by_name)


def of_file(oauth: OAuth) -> Token:
    """The token in the file, as it is now.

    Raises:
        TokenError: it cannot be read, is empty, or its life is over.
    """
    path = oauth.token_file
    try:
        text = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"the token in {path} cannot be read: {_reason(error)}") from None
    if not text:
        raise TokenError(f"{path} holds no token")
    token = Token(text, _end_of_jwt_s(text))
    if (ended_s := time.time() - token.ends_s) > 0:
        raise TokenError(f"the token in {path} ended {ended_s:.0f} s ago: nothing renews it")
    return token


def _plugged_in(name: str) -> Callable[[], Token]:
    """What asks the function of another package; its errors name it and are one line.

    Raises:
        TokenError: there is no such function.
    """
    key, (module, _, attribute) = f"{PREFIX}provider", name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a foreign module may raise any exception
        raise TokenError(f"{key}: {name} cannot be loaded: {_told(error)}") from None
    if not callable(function):
        raise TokenError(f"{key}: {name} is no function")

    def obtain() -> Token:
        answers: list[Any] = []

        def ask() -> None:
            try:
                answers.append(function())
            except Exception as error:
                answers.append(error)

        asking = threading.Thread(target=ask, daemon=True, name=name)
        asking.start()
        asking.join(ANSWERS_WITHIN_S)
        match answers:
            case []:
                reason = f"no answer within {ANSWERS_WITHIN_S:.0f} s"
            case [Exception() as error]:
                reason = _told(error)
            case [str(text)] if text:
                return Token(text, _end_of_jwt_s(text))
            case [(str(text), int() | float() as ends_s)] if text:
                return Token(text, float(ends_s))
            case _:
                reason = "it returned neither a token nor a token and its end in seconds"
        raise TokenError(f"{key}: {name} gives no token: {reason}")

    return obtain


def _told(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def of_endpoint(oauth: OAuth) -> Token:
    """A new token of the identity provider.

    Raises:
        TokenError: the provider cannot be reached, refuses, or answers something else.
    """
    url = oauth.token_endpoint_url
    form = {"grant_type": "client_credentials"} | ({"scope": oauth.scope} if oauth.scope else {})
    try:
        keep_secret(oauth.secret)  # of a file, perhaps
        login = base64.b64encode(f"{oauth.client_id}:{oauth.secret}".encode()).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = _reason(error)
        raise TokenError(f"{oauth.client_secret_file} cannot be read: {reason}") from None
    headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
    request = Request(url, urlencode(form).encode(), headers)
    try:
        trusted = ssl.create_default_context(cafile=oauth.cafile or None)
    except OSError as error:
        raise TokenError(f"{oauth.cafile} has no certificates: {_reason(error)}") from None
    try:
        with urlopen(request, timeout=ANSWERS_WITHIN_S, context=trusted) as answer:
            answered = _fields(answer.read(_ANSWER_AT_MOST))
    except HTTPError as error:
        with error:
            why = _fields(error.read(_ANSWER_AT_MOST)).get("error", "")
        raise TokenError(f"{url} gives no token: it answered {error.code} {why}".rstrip()) from None
    except (OSError, HTTPException) as error:
        raise TokenError(f"{url} gives no token: {_reason(error)}") from None
    text, life_s = answered.get("access_token"), answered.get("expires_in")
    if not isinstance(text, str) or not text:
        raise TokenError(f"{url} gives no token: its answer has no access_token")
    if isinstance(life_s, (int, float)) and not isinstance(life_s, bool):
        return Token(text, time.time() + life_s)
    return Token(text, _end_of_jwt_s(text))


def _fields(body: bytes) -> dict[str, Any]:
    """The fields of a JSON object; none if it is none."""
    try:
        read = json.loads(body)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _end_of_jwt_s(text: str) -> float:
    """The claim ``exp`` of a JSON web token; NaN if it is none, or has none. RFC 7519, 4.1.4."""
    parts = text.split(".")
    if len(parts) != 3:
        return float("nan")
    try:
        claims = _fields(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return float("nan")


def _reason(error: Exception) -> str:
    """The reason in the error's own words, without its path and its number."""
    inner = error.reason if isinstance(error, URLError) else error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted: {inner.verify_message} (see sasl_oauthbearer_cafile)"
        )
    if isinstance(inner, TimeoutError):
        return f"no answer within {ANSWERS_WITHIN_S:.0f} s"
    return str(getattr(inner, "strerror", None) or inner or type(inner).__name__).lower()
