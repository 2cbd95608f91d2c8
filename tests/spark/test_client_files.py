"""A query starts again when the files of its clients are renewed, and only then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.query import client_files
from streaming.query.client_files import ClientFiles
from streaming.query.kafka_options import UnsupportedSetting
from tests.logins.authority import Authority, Volume


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_files, "LOOK_EVERY_S", 0)


@pytest.fixture
def authority() -> Authority:
    return Authority("one")


@pytest.fixture
def volume(tmp_path: Path, authority: Authority) -> Volume:
    volume = Volume(tmp_path / "secret")
    renew(volume, authority)
    return volume


def renew(volume: Volume, authority: Authority) -> None:
    chain, key = authority.issue("twin")
    volume.write(chain=chain, key=key, trusted=authority.certificate)


def test_a_secret_that_is_renewed_is_seen_once(volume: Volume, authority: Authority) -> None:
    files = ClientFiles({}, volume.client())
    assert not files.are_renewed()
    renew(volume, authority)
    with capture_logs() as said:
        assert files.are_renewed()
    assert said[0]["files"] == sorted(volume.path(name) for name in ("chain", "key", "trusted"))
    assert not ClientFiles(volume.client()).are_renewed()


def test_authorities_that_are_renewed_are_seen(volume: Volume, authority: Authority) -> None:
    chain, key = authority.issue("twin")
    volume.write(chain=chain, key=key, trusted=authority.certificate)
    files = ClientFiles(volume.client())
    volume.write(chain=chain, key=key, trusted=authority.certificate + Authority("2").certificate)
    assert files.are_renewed()


def test_files_that_are_written_again_with_the_same_content_change_nothing(
    volume: Volume, authority: Authority
) -> None:
    chain, key = authority.issue("twin")
    for _ in range(2):
        volume.write(chain=chain, key=key, trusted=authority.certificate)
        files = ClientFiles(volume.client())
    volume.write(chain=chain, key=key, trusted=authority.certificate)
    assert not files.are_renewed()


def test_a_certificate_waits_for_its_key(tmp_path: Path, authority: Authority) -> None:
    """Outside of Kubernetes, a tool may write the certificate first and the key later."""
    chain, key = tmp_path / "chain", tmp_path / "key"
    pairs = [authority.issue("twin") for _ in range(2)]
    chain.write_text(pairs[0][0])
    key.write_text(pairs[0][1])
    files = ClientFiles({"ssl_certfile": str(chain), "ssl_keyfile": str(key)})
    chain.write_text(pairs[1][0] + "\n")
    with capture_logs() as said:
        assert not files.are_renewed()
        assert not files.are_renewed()
    [line] = said
    assert line["log_level"] == "warning"
    assert line["why"] == f"ssl_keyfile: {key} is not the key of the certificate in ssl_certfile"
    key.write_text(pairs[1][1] + "\n")
    assert files.are_renewed()


def test_files_that_are_gone_for_a_moment_are_waited_for(
    volume: Volume, authority: Authority
) -> None:
    files = ClientFiles(volume.client())
    os.unlink(volume.path("key"))
    with capture_logs() as said:
        assert not files.are_renewed()
    assert said[0]["why"].endswith("cannot be read: no such file or directory")
    renew(volume, authority)
    assert files.are_renewed()


def test_a_client_secret_in_a_file_is_seen_and_a_token_is_not(tmp_path: Path) -> None:
    secret, token = tmp_path / "secret", tmp_path / "token"
    oauth = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    own = "sasl_oauthbearer_"
    by_secret = oauth | {
        f"{own}token_endpoint_url": "https://login.test/token",
        f"{own}client_id": "twin",
        f"{own}client_secret_file": str(secret),
    }
    secret.write_text("first-of-them")
    files = ClientFiles(by_secret)
    secret.write_text("second-of-them")
    assert files.are_renewed()
    token.write_text("e30.eyJleHAiOjk5OTk5OTk5OTl9.c2ln")
    files = ClientFiles(oauth | {f"{own}token_file": str(token)})
    token.write_text("e30.eyJleHAiOjk5OTk5OTk5OTh9.c2lnbg")
    assert not files.are_renewed()


def test_what_cannot_be_used_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedSetting, match=r"ssl_cafile: .* cannot be read: no such file"):
        ClientFiles({"ssl_cafile": str(tmp_path / "missing")})
