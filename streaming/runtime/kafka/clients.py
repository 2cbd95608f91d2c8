"""Settings and error messages of all Kafka clients of the twin.

``settings`` turns a ``client`` section of the configuration into arguments that the admin client,
the producer and the consumer of kafka-python all take. Values from the environment are text, so
each is parsed as the type of the client's default. Error messages show keys and never values.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaTimeoutError, NodeNotReadyError, TopicAuthorizationFailedError

from streaming.runtime.config import ConfigError
from streaming.runtime.errors import without_secrets
from streaming.runtime.kafka import iam, iam_tokens, kerberos
from streaming.runtime.kafka.bootstrapping import UnreachableError, racing_client
from streaming.runtime.kafka.dialing import SETTING as ELSEWHERE
from streaming.runtime.kafka.dialing import Place, addresses_of, unresolved
from streaming.runtime.kafka.iam import Iam
from streaming.runtime.kafka.kerberos import Kerberos
from streaming.runtime.kafka.oauth import MECHANISM as OAUTHBEARER
from streaming.runtime.kafka.oauth import PREFIX as OAUTH
from streaming.runtime.kafka.oauth import OAuth, OAuthError, oauth_of
from streaming.runtime.kafka.pem_files import other_form
from streaming.runtime.kafka.tickets import login_of
from streaming.runtime.kafka.tokens import provider_of

_DEFAULTS: Final[dict[str, Any]] = {
    key: default
    for key, default in KafkaAdminClient.DEFAULT_CONFIG.items()
    if key in KafkaProducer.DEFAULT_CONFIG and key in KafkaConsumer.DEFAULT_CONFIG
}
BOOTSTRAP_TIMEOUT: Final = "bootstrap_timeout_ms"
"""kafka-python's setting of how long a client may need until it has the list of brokers."""

TOPIC_NOT_ALLOWED: Final[int] = TopicAuthorizationFailedError.errno
"""Kafka's error code for a topic on which an ACL is missing."""

_OURS: Final = {
    "bootstrap_servers": "set bootstrap of the same section",
    "kafka_client": "cannot come from a configuration",
    "metric_reporters": "cannot come from a configuration",
    "sasl_oauth_token_provider": "is a Python object; use sasl_oauthbearer_provider",
    "selector": "cannot come from a configuration",
    "socket_options": "cannot come from a configuration",
    "ssl_context": "is a Python object; use ssl_cafile, ssl_certfile and ssl_keyfile",
}
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
_TRUSTED: Final = "ssl_cafile"
_PEM_FILES: Final = (_TRUSTED, "ssl_certfile", "ssl_keyfile")
_OF_LOGINS: Final = (OAUTH, iam.PREFIX, kerberos.PREFIX)
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def arguments(bootstrap: str, client: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Arguments of any kafka-python client: the bootstrap servers, all of which it tries at once,
    and the settings.

    Raises:
        ConfigError: as ``settings``.
    """
    return {
        "bootstrap_servers": places(bootstrap),
        "kafka_client": partial(racing_client, elsewhere(client, section)),
        **settings(client, section),
    }


def elsewhere(client: Mapping[str, Any], section: str) -> dict[int, Place]:
    """Where the section says that brokers are reached, by broker id: through a tunnel, say.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return addresses_of(str(client.get(ELSEWHERE, "")))
    except ValueError as error:
        raise ConfigError(f"{section}.client.{ELSEWHERE}: {error}") from None


def places(bootstrap: str) -> list[str]:
    """The addresses ``host:port`` of a list with commas."""
    return [place.strip() for place in bootstrap.split(",") if place.strip()]


def settings(client: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The section as keyword arguments of kafka-python's clients.

    Raises:
        ConfigError: a key no client knows, or a value that cannot be read; never shows the value.
        SignerMissing: a package is missing that the login needs.
    """
    quiet()
    try:
        oauth, aws, by_ticket = oauth_of(client), iam.iam_of(client), kerberos.kerberos_of(client)
        login = _login(oauth, aws, by_ticket)
    except (OAuthError, iam.IamError, kerberos.KerberosError) as error:
        raise ConfigError(f"{section}.client.{error}") from None
    ours = (*_OF_LOGINS, ELSEWHERE)
    named = {key: value for key, value in client.items() if not key.startswith(ours)}
    if not login:
        _require_password(client, section)
    return {key: _parsed(key, value, f"{section}.client") for key, value in named.items()} | login


def _login(oauth: OAuth | None, aws: Iam | None, by_ticket: Kerberos | None) -> dict[str, Any]:
    """Arguments of the login, of which a section has one at most."""
    if oauth:
        return {"sasl_oauth_token_provider": provider_of(oauth)}
    if aws:
        provider = iam_tokens.provider_of(aws)
        return {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": provider}
    return {"sasl_kerberos_name": login_of(by_ticket)} if by_ticket else {}


_BY_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def _require_password(client: Mapping[str, Any], section: str) -> None:
    """Refuse a login by password that lacks one, or a user: clients fail without saying so."""
    by_sasl = str(client.get("security_protocol", "")).startswith("SASL")
    if not by_sasl or client.get("sasl_mechanism") not in _BY_PASSWORD:
        return
    variable = f"KAFKA_TWIN_{section.upper()}_CLIENT_SASL_PLAIN_PASSWORD"
    needed = {
        "sasl_plain_username": "",
        "sasl_plain_password": f"; a secret is best in {variable}",
    }
    for key, where in needed.items():
        if not client.get(key):
            raise ConfigError(f"{section}.client.{key}: {client['sasl_mechanism']} needs it{where}")


def _parsed(key: str, value: Any, section: str) -> Any:
    if key in _OURS:
        raise ConfigError(f"{section}.{key}: {_OURS[key]}")
    if key not in _DEFAULTS:
        raise ConfigError(f"{section}.{key}: not a setting of kafka-python's clients")
    if key in _FILES and value and not os.access(str(value), os.R_OK):
        raise ConfigError(f"{section}.{key}: there is no such file, or it may not be read")
    if key in _PEM_FILES and value and (why := other_form(str(value), holds_key=key != _TRUSTED)):
        raise ConfigError(f"{section}.{key}: {value} {why}")
    default = _DEFAULTS[key]
    try:
        if isinstance(default, bool):
            return value if isinstance(value, bool) else _truth(str(value))
        if isinstance(default, int):
            return int(value)
        if key == "api_version":
            return tuple(int(part) for part in str(value).split("."))
    except ValueError:
        form = "true or false" if isinstance(default, bool) else "a number"
        raise ConfigError(f"{section}.{key}: must be {form}") from None
    return value


def _truth(text: str) -> bool:
    if text.lower() in _YES:
        return True
    if text.lower() in _NO:
        return False
    raise ValueError(text)


class ConnectionErrorCapture(logging.Handler):
    """Keeps the most specific connection error that kafka-python logs.

    The client raises "Unable to bootstrap" whatever the cause was, and logs the cause.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._cause = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the cause in this line, unless a more specific one is kept already."""
        line = record.getMessage().partition("\n")[0]
        _, separator, cause = line.partition("onnection lost: ")  # the other lines give no cause
        if separator and _specificity(cause) >= _specificity(self._cause):
            self._cause = cause

    def take(self) -> str:
        """Return the cause and forget it; empty if none was logged."""
        text, self._cause = self._cause, ""
        return _explained(text)


_REPEATED: Final = re.compile(r"\[Error \d+\] (\w+): (?:\1: )?")
_DISCONNECTED: Final = "socket disconnected"
_REFUSED: Final = {
    "UnsupportedSaslMechanismError": "this listener of the broker does not offer sasl_mechanism",
    "IllegalSaslStateError": "this listener of the broker has another security_protocol",
    "SaslAuthenticationFailedError": "the broker refused the login",
}
"""What an error of Kafka says of a login, by its name, where it gives no reason of its own."""

_INVALID_TOKEN: Final = re.compile(r'\{"status" *: *"invalid_token".*\}')
_REFUSES_THE_TOKEN: Final = (
    "the broker refuses the token: its issuer, audience, signature or end is not what it wants"
)


def _explained(cause: str) -> str:
    """A cause as kafka-python words it, once and with what it often means."""
    text = _reworded(cause)[:300]
    if text.endswith(_DISCONNECTED) or "InvalidReceiveError" in text:
        return f"{text}; a refused login or a wrong security_protocol ends like this"
    return _with_opinion(text)


def _reworded(text: str) -> str:
    """A message of kafka-python without repetitions, and with what a refusal means."""
    text = _INVALID_TOKEN.sub(_REFUSES_THE_TOKEN, _REPEATED.sub(r"\1: ", text))
    if _REFUSES_THE_TOKEN in text:
        return text
    return next((f"{means}: {text}" for name, means in _REFUSED.items() if name in text), text)


_TLS_SETTINGS: Final = {
    "CERTIFICATE_VERIFY_FAILED": "see ssl_cafile and ssl_check_hostname",
    "ALERT_BAD_CERTIFICATE": "the broker wants another certificate of the client: see ssl_certfile",
    "CERTIFICATE_REQUIRED": "the broker wants a certificate of the client: see ssl_certfile",
    "UNKNOWN_CA": "the broker does not trust the certificate of the client: see ssl_certfile",
    "UNEXPECTED_EOF_WHILE_READING": "is that a port of TLS? See security_protocol",
    "WRONG_VERSION_NUMBER": "is that a port of TLS? See security_protocol",
}
"""The setting to look at when TLS fails, by a word of OpenSSL's message."""


def _with_opinion(text: str) -> str:
    """The text with the setting to look at, or with what AWS says about refused credentials.

    Amazon MSK gives no reason for a refusal.
    """
    if iam_tokens.ACCESS_DENIED in text:
        return text + iam_tokens.why_refused()
    setting = next((means for words, means in _TLS_SETTINGS.items() if words in text), "")
    return f"{text} ({setting})" if setting else text


def _specificity(cause: str) -> int:
    """How much a cause explains: a timeout least, then a disconnect, then anything else."""
    if not cause:
        return -1
    if "timed out" in cause or "Timeout" in cause:
        return 0
    return 1 if cause.endswith(_DISCONNECTED) else 2


def quiet() -> None:
    """Keep kafka-python's log out of ours: it repeats itself on every attempt to connect."""
    _capture()


def _capture() -> ConnectionErrorCapture:
    """The capture on kafka-python's logger, installed at the first call."""
    log = logging.getLogger("kafka")
    for handler in log.handlers:
        if isinstance(handler, ConnectionErrorCapture):
            return handler
    capture = ConnectionErrorCapture()
    log.addHandler(capture)
    log.propagate = log.isEnabledFor(logging.INFO)  # --verbose asks for it
    return capture


def one_line(error: BaseException, more_time: str = "", bootstrap: str = "") -> str:
    """The error as one line without secrets, with the captured cause if the error gives none.

    Args:
        error: of kafka-python.
        more_time: the setting that gives a slow network more time to connect; empty: none.
        bootstrap: of the cluster, one of whose brokers may have a name that is not known here.
    """
    text = without_secrets(_one_line(error, bootstrap))
    if more_time and isinstance(error, UnreachableError) and error.is_late:
        text += f" (a slow network needs a longer {more_time})"
    return text


def _one_line(error: BaseException, bootstrap: str) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UnreachableError):
        _capture().take()
        why = {place: _explained(cause) for place, cause in error.causes.items()}
        each = why.values() if len(why) == 1 else (f"{place} {why[place]}" for place in why)
        return f"cannot be reached: {'; '.join(each)}"[:1_000]
    if "Unable to bootstrap" in text:
        return f"cannot be reached: {_capture().take() or 'no broker answered'}"
    text = _reworded(text)
    if type(error).__name__ not in text:
        text = f"{type(error).__name__}: {text}"
    if isinstance(error, KafkaTimeoutError | NodeNotReadyError):  # they hide why
        broker = unresolved(places(bootstrap))
        text += f"; {broker}" if broker else ""
    return _with_opinion(text[:400])
