"""How the collector logs in at exporters: a password, a token, authorities and a certificate.

Files are read in each round: whatever renews them needs to tell nobody. What they hold is masked in
all messages from then on.
"""

from __future__ import annotations

import re
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Final

from streaming.runtime.config import CollectorConfig
from streaming.runtime.errors import keep_secret
from streaming.runtime.http_errors import reason, short
from streaming.runtime.kafka.pem_files import other_form

_LONGEST: Final = 64 << 10
"""Of a file with a password or a token, so that a wrong path is not read to its end."""


class AccessError(ValueError):
    """A file cannot be used: one line with the setting and the file."""


def headers(section: CollectorConfig) -> dict[bytes, bytes]:
    """The header that logs in; empty without a password and a token.

    Raises:
        AccessError: a file cannot be read, or holds no line.
    """
    token = section.metrics_token or _of_file("metrics_token_file", section.metrics_token_file)
    if token:
        return {b"Authorization": f"Bearer {token}".encode()}
    if not section.metrics_user:
        return {}
    password = section.metrics_password or _of_file(
        "metrics_password_file", section.metrics_password_file
    )
    both = b64encode(f"{section.metrics_user}:{password}".encode()).decode()
    keep_secret(both, lasts=False)
    return {b"Authorization": f"Basic {both}".encode()}


def tls(section: CollectorConfig) -> ssl.SSLContext:
    """Trust ``metrics_ca``, else the system's authorities; with a certificate of our own if set.

    Raises:
        AccessError: a file cannot be read or is no PEM.
    """
    key, path = "metrics_ca", section.metrics_ca
    try:
        context = ssl.create_default_context(cafile=path or None)
        if section.metrics_certificate:
            key, path = "metrics_certificate", section.metrics_certificate
            own_key = section.metrics_key or None
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, own_key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise AccessError(f"collector.{key}: {path}: {_why(path, error)}") from None
    return context


def _why(path: str, error: OSError | ValueError) -> str:
    try:
        form = other_form(path, holds_key=False)
    except OSError:
        form = ""
    if form:
        return form
    if isinstance(error, ssl.SSLError):
        return "is not in PEM, or the key has a password or is of another certificate"
    return reason(error) if isinstance(error, OSError) else short(error)


def _of_file(key: str, path: str) -> str:
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LONGEST).decode().strip()
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else "is not text"
        raise AccessError(f"collector.{key}: {path}: {why}") from None
    keep_secret(text, lasts=False)
    if not text or re.search(r"[\x00-\x1f\x7f]", text):
        raise AccessError(f"collector.{key}: {path}: must hold one line")
    return text
