"""No secret of the configuration is shown, wherever it stands and whoever says it."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from urllib.parse import quote, urlencode

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from streaming.checks.finding import CheckResult
from streaming.query.logins.jaas import jaas
from streaming.runtime import logs
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from streaming.runtime.configuration.secret_keys import is_secret
from streaming.runtime.errors import UserError, forget_secrets, keep_secret, without_secrets
from streaming.runtime.kafka import clients
from tests.examples import examples

OF_SECTIONS = [
    f"KAFKA_TWIN_{section.name}_{field.name}".upper()
    for section in msgspec.structs.fields(Config)
    for field in msgspec.structs.fields(section.type)
    if is_secret(field.name)
]
OF_CLIENTS = [
    f"KAFKA_TWIN_{section}_CLIENT_{key}".upper()
    for section in ("cluster", "bus")
    for key in ("sasl_plain_password", "ssl_password", "sasl_oauthbearer_client_secret")
]
OAUTH = {
    "KAFKA_TWIN_CLUSTER_CLIENT_SASL_MECHANISM": "OAUTHBEARER",
    "KAFKA_TWIN_BUS_CLIENT_SASL_MECHANISM": "OAUTHBEARER",
    **{
        f"KAFKA_TWIN_{section}_CLIENT_SASL_OAUTHBEARER_{key}": value
        for section in ("CLUSTER", "BUS")
        for key, value in (
            ("TOKEN_ENDPOINT_URL", "https://login.example/token"),
            ("CLIENT_ID", "twin"),
            ("CLIENT_SECRET", "Zq-of-another-client"),
        )
    },
}
BESIDE = {
    "KAFKA_TWIN_COLLECTOR_METRICS_PASSWORD": {"KAFKA_TWIN_COLLECTOR_METRICS_USER": "twin"},
}
SECRETS = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FF, blacklist_categories=("Cc",)),
    min_size=2,
    max_size=24,
).map(lambda text: f"Zq{text.strip()}9!")
"""They begin with letters that no message has."""


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """What is logged inside; all is as before afterwards."""
    root, held, hooks = logging.getLogger(), structlog.get_config(), (
        sys.excepthook, threading.excepthook)  # fmt: skip
    handlers, level = root.handlers[:], root.level
    with redirect_stderr(io.StringIO()) as said:
        logs.configure(verbose=True)
        yield said
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**held)
    sys.excepthook, threading.excepthook = hooks


def texts_with(secret: str) -> list[str]:
    """What libraries and servers make of it."""
    return [
        secret,
        f"password={secret}, user=twin",
        f"could not log in: {secret!r}",
        repr(["before\n" + secret]),
        json.dumps({"error": secret}),
        json.dumps({"error": secret}, ensure_ascii=False),
        f"https://twin:{quote(secret, safe='')}@host/path",
        "POST " + urlencode({"client_secret": secret}),
        jaas("Module", {"password": secret}),
    ]


@pytest.mark.parametrize("variable", [*OF_SECTIONS, *OF_CLIENTS])
@given(secret=SECRETS)
@examples(15)
def test_a_secret_is_in_no_message(variable: str, secret: str) -> None:
    forget_secrets()
    beside = OAUTH if "OAUTH" in variable else BESIDE.get(variable, {})
    config = load(None, {**beside, variable: secret})
    assert "Zq" not in str(config.shown())
    for text in texts_with(secret):
        for said in (
            str(UserError(text)),
            str(CheckResult(text, text)),
            clients.one_line(OSError(text)),
            without_secrets(text),
        ):
            assert "Zq" not in said, (text, said)


@given(secret=SECRETS)
@examples(15)
def test_a_secret_is_in_no_line_of_the_log(secret: str) -> None:
    forget_secrets()
    keep_secret(secret)
    with logged() as lines:
        for text in texts_with(secret):
            log_and_raise(text)
            thread = threading.Thread(target=log_and_raise, args=(text, True))
            thread.start()
            thread.join()
    said = lines.getvalue()
    assert said.count("Traceback") == 6 * len(texts_with(secret))
    assert "Zq" not in said


def log_and_raise(text: str, is_thread: bool = False) -> None:
    """Say the text in every way in which it reaches a log."""
    structlog.get_logger("tests").warning("unavailable", why=text, many=[text, {text: 1}])
    logging.getLogger("kafka.net").debug("sent %s", text)
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger("a.library").exception("failed: %s", text)
        structlog.get_logger("tests").exception("failed", what=text)
        if is_thread:
            raise
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]  # there is an error


@pytest.mark.parametrize("secret", ["Zq'9!", 'Zq"9!', r"Zq\\9!", "Zq+'9!", "Zq\\'\"9!", "Zq'9!'"])
def test_a_secret_with_quotes_is_hidden_in_a_literal_of_a_text_with_quotes(secret: str):
    forget_secrets()
    keep_secret(secret)
    for text in texts_with(secret):
        for said in (repr([text]), repr(f"'{text}"), repr(f'"{text}'), repr([repr(text)])):
            assert "Zq" not in without_secrets(said)


def test_a_password_that_is_a_word_hides_that_word_alone():
    keep_secret("kafka")
    assert without_secrets("user kafka, password 'kafka'") == "user ***, password '***'"
    assert without_secrets("kafka-python, kafkacat") == "***-python, kafkacat"


def test_a_key_with_line_breaks_is_hidden_line_by_line():
    keep_secret("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\n")
    assert "MIIEvQ" not in without_secrets("cannot parse MIIEvQIBADANBg of line 2")


def test_tokens_that_are_renewed_are_forgotten_in_turn():
    for number in range(600):
        keep_secret(f"token-{number}", lasts=False)
    assert without_secrets("token-599 token-88 token-87") == "*** *** token-87"


def test_what_is_too_short_for_a_secret_stays():
    keep_secret("an")
    assert without_secrets("such an error") == "such an error"


def test_a_configuration_that_is_refused_hides_its_secrets_as_well(tmp_path: Path):
    file = tmp_path / "twin.toml"
    file.write_text('[grafana]\npassword = "Zq-hunter"\nfolder = ""\n')
    with pytest.raises(UserError):
        load(file, {})
    assert without_secrets("Zq-hunter") == "***"
