"""The base class of every error that a user can cause and can put right, and what no text shows."""

from __future__ import annotations

import json
import re
from collections import deque
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus

_USERINFO: Final = re.compile(r"//\S*@")
_MASK: Final = "***"

_SHORTEST: Final = 4
"""Shorter secrets are not masked: each of them is part of ordinary words."""

_WORD: Final = 12
"""Up to this length a secret is masked only as a whole word: one may have chosen ``kafka``."""

_of_configuration: Final[set[str]] = set()
_of_a_login: Final[deque[str]] = deque(maxlen=512)
"""More than clusters that one program logs in to."""


def keep_secret(text: str, *, lasts: bool = True) -> None:
    """Mask this text in all messages and logs of this process, however it is quoted.

    Args:
        text: a password or a token; one of fewer than four characters is ignored.
        lasts: as long as the process; else until 512 others of this kind have come.
    """
    if len(text) < _SHORTEST or text in _of_configuration or text in _of_a_login:
        return
    if lasts:
        _of_configuration.add(text)
    else:
        _of_a_login.append(text)


def forget_secrets() -> None:
    """Mask nothing any longer, as before a configuration was read."""
    _of_configuration.clear()
    _of_a_login.clear()


def without_secrets(text: str) -> str:
    """The text with all secrets masked, and with what stands before the host of each URL."""
    secret = _pattern((*_of_configuration, *_of_a_login))
    if secret is not None:
        text = secret.sub(_MASK, text)
    return _USERINFO.sub(f"//{_MASK}@", text)


@lru_cache(maxsize=1)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str] | None:
    """Matches each secret in each of its forms, the longest first; None if there are none.

    By its argument it is never older than the secrets, whichever thread adds one meanwhile.
    """
    forms = {form for secret in secrets for form in _forms(secret)}
    if not forms:
        return None
    return re.compile("|".join(map(_as_word, sorted(forms, key=len, reverse=True))))


def _forms(secret: str) -> set[str]:
    """The secret as messages have it: quoted, once or in what is quoted itself."""
    once = {secret, " ".join(secret.split()), *map(str.strip, secret.splitlines())}
    once |= {form for each in once for form in _quoted(each)}
    twice = once | {form for each in once for form in _quoted(each)}
    return {form for form in twice if len(form) >= _SHORTEST}


def _quoted(text: str) -> set[str]:
    """The text in a JAAS configuration, as a Python literal, in JSON and in URLs."""
    return {
        text.replace("\\", "\\\\").replace('"', '\\"'), repr(text)[1:-1], json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1], quote(text, safe=""), quote(text),
        quote_plus(text),
    }  # fmt: skip


def _as_word(form: str) -> str:
    """Matches the form with as many backslashes as quoting has put before what it escapes: once
    for each text that quotes another."""
    text = re.sub(r"(?:\\\\)+", r"\\\\+", re.escape(form))
    text = re.sub(r"(?<!\\\\\+)(?=['\"])", r"\\\\*", text)
    if len(form) > _WORD:
        return text
    before = r"(?:(?<![^\W_])|(?<=\\[nrt]))" if form[0].isalnum() else ""
    after = r"(?![^\W_])" if form[-1].isalnum() else ""
    return f"{before}{text}{after}"


class UserError(Exception):
    """A failure whose message is one line for a person: what is wrong, where, and what to do.

    The command line prints the message alone. Any other exception is a bug and shows its traceback.
    """

    def __init__(self, *args: object) -> None:
        """Mask what the message may hold."""
        super().__init__(*(without_secrets(a) if isinstance(a, str) else a for a in args))
