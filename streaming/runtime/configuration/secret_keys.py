"""Which settings are secrets, by their names and by what is in URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from streaming.runtime.errors import without_secrets

_SECRET: Final = re.compile(r"password|secret|token|oauth_", re.IGNORECASE)
_NO_SECRET: Final = re.compile(r"_(?:file|url)$")


def has_user(url: str) -> bool:
    """There is something before the host."""
    return "@" in url.partition("//")[2].partition("/")[0]


def secrets(value: Any, key: str = "") -> Iterator[str]:
    """The values of all keys that name a secret, and the passwords of URLs."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from secrets(each, str(name))
    elif isinstance(value, list):
        for each in value:
            yield from secrets(each, key)
    elif is_secret(key):
        yield str(value)
    elif isinstance(value, str) and has_user(value):
        yield value.partition("//")[2].partition("@")[0].rpartition(":")[2]


def is_secret(key: str) -> bool:
    """The name is that of a secret."""
    return bool(_SECRET.search(key)) and not _NO_SECRET.search(key)


def masked(value: Any, key: str = "") -> Any:
    """The value without its secrets."""
    if isinstance(value, dict):
        return {k: masked(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [masked(each, key) for each in value]
    if is_secret(key) and value != "":
        return "***"
    return without_secrets(value) if isinstance(value, str) else value
