"""Exporters that want a password, a token or a certificate, with authorities of their own."""

from __future__ import annotations

import base64
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streaming.collector.scraping.scrape import scrape_all
from streaming.runtime.config import CollectorConfig, ConfigError
from streaming.runtime.configuration.loading import load
from streaming.runtime.errors import without_secrets
from tests.collector.fake_exporter import Exporter

SECRET = "s3cr3t-0f-tests"
IN_TIME_S = 60.0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate of 127.0.0.1 and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", "tls.key", "-out", "tls.crt"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    both = folder / "both.pem"
    both.write_text((folder / "tls.crt").read_text() + (folder / "tls.key").read_text())
    return both


def asked_with(one: Exporter, **settings: Any) -> str | None:
    """The header with which the exporter was asked."""
    result = scrape_all({1: one.url}, IN_TIME_S, CollectorConfig(**settings))[1]
    assert result.problem is None
    return one.headers[-1]["Authorization"]


def problem(one: Exporter, **settings: Any) -> str:
    """Why there are no series."""
    found = scrape_all({1: one.url}, IN_TIME_S, CollectorConfig(**settings))[1].problem
    assert found is not None
    assert "\n" not in found.text
    return found.text


def test_nothing_is_sent_where_nothing_is_set(exporter: Callable[..., Exporter]) -> None:
    assert asked_with(exporter()) is None


def test_a_password_is_sent_as_basic(exporter: Callable[..., Exporter]) -> None:
    sent = asked_with(exporter(), metrics_user="twin", metrics_password="pä:ss")
    assert sent == "Basic " + base64.b64encode("twin:pä:ss".encode()).decode()


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"metrics_token_file": ""}, "Bearer {}"),
        ({"metrics_user": "twin", "metrics_password_file": ""}, "Basic {}"),
    ],
)
def test_a_file_that_is_renewed_is_read_again(
    settings: dict[str, str], sent: str, exporter: Callable[..., Exporter], tmp_path: Path
) -> None:
    file, one = tmp_path / "secret", exporter()
    given = {name: value or str(file) for name, value in settings.items()}
    for secret in ("first-secret", "second-secret"):
        file.write_text(f"{secret}\n")
        basic = base64.b64encode(f"twin:{secret}".encode()).decode()
        assert asked_with(one, **given) == sent.format(secret if "Bearer" in sent else basic)
        assert secret not in without_secrets(f"it said {secret}")
        assert basic not in without_secrets(f"it said {basic}") or "Bearer" in sent


@pytest.mark.parametrize("status", [401, 403])
def test_who_is_refused_is_told_the_settings(
    status: int, exporter: Callable[..., Exporter]
) -> None:
    text = problem(exporter(status=status), metrics_user="twin", metrics_password=SECRET)
    assert f"HTTP status {status}: it wants collector.metrics_user" in text
    assert SECRET not in text


def test_a_file_that_is_missing_is_named_for_each_broker_and_nobody_is_asked(
    exporter: Callable[..., Exporter], tmp_path: Path
) -> None:
    one, path = exporter(), tmp_path / "gone"
    results = scrape_all(
        {1: one.url, 2: one.url}, IN_TIME_S, CollectorConfig(metrics_token_file=str(path))
    )
    text = f"collector.metrics_token_file: {path}: No such file or directory"
    assert [r.problem and (r.problem.error, r.problem.text) for r in results.values()] == [
        ("NoAccess", text)
    ] * 2
    assert one.asked == []


@pytest.mark.parametrize("content", ["", "\n", "two\nlines", "a\0b"])
def test_a_file_with_something_else_is_refused(
    content: str, exporter: Callable[..., Exporter], tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    text = problem(exporter(), metrics_token_file=str(path))
    assert text == f"collector.metrics_token_file: {path}: must hold one line"


def test_authorities_and_a_certificate_of_the_client_are_used(
    exporter: Callable[..., Exporter], certificate: Path
) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate))
    server.load_cert_chain(certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    one, of_ours = exporter(tls=server), str(certificate)
    assert asked_with(one, metrics_ca=of_ours, metrics_certificate=of_ours) is None
    assert "unable to get local issuer" in problem(one) or "self-signed" in problem(one)
    assert one.url in problem(one, metrics_ca=of_ours)  # without a certificate


@pytest.mark.parametrize("key", ["metrics_ca", "metrics_certificate"])
def test_a_certificate_that_cannot_be_used_is_named(
    key: str, exporter: Callable[..., Exporter], certificate: Path, tmp_path: Path
) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate)
    wrong, one = tmp_path / "wrong.pem", exporter(tls=server)
    assert problem(one, **{key: str(wrong)}) == (
        f"collector.{key}: {wrong}: No such file or directory"
    )
    wrong.write_text("no certificate")
    assert problem(one, **{key: str(wrong)}).startswith(f"collector.{key}: {wrong}: is not in PEM")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("metrics_user = 'a'", "metrics_user: belongs to metrics_password"),
        ("metrics_password = 'hunter22'", "metrics_user: belongs to metrics_password"),
        ("metrics_user = 'a:b'\nmetrics_password = 'hunter22'", "must not contain ':'"),
        ("metrics_password = 'hunter22'\nmetrics_password_file = 'b'", "set this or metrics_pass"),
        ("metrics_token = 'hunter22'\nmetrics_token_file = 'b'", "set this or metrics_token"),
        ("metrics_token = 'hunter22\\u000a'", "metrics_token: must be one line"),
        (
            "metrics_user = 'a'\nmetrics_password = 'hunter22'\nmetrics_token = 'b'",
            "metrics_user: set this or metrics_token",
        ),
        ("metrics_key = 'a'", "metrics_key: belongs to metrics_certificate"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    lines: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "twin.toml"
    path.write_text(f"[collector]\n{lines}".replace("'hunter22\\u000a'", '"hunter22\\n"'))
    with pytest.raises(ConfigError) as error:
        load(path, {})
    assert says in str(error.value)
    assert "hunter22" not in str(error.value)


def test_passwords_and_tokens_are_never_shown() -> None:
    config = load(None, {
        "KAFKA_TWIN_COLLECTOR_METRICS_USER": "twin",
        "KAFKA_TWIN_COLLECTOR_METRICS_PASSWORD": SECRET,
    })  # fmt: skip
    assert config.collector.metrics_password == SECRET
    assert SECRET not in str(config.shown())
    assert SECRET not in without_secrets(f"exporter said {SECRET}")
