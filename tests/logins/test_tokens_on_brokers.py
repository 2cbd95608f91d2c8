"""Programs on a broker that wants tokens: right ones, wrong ones, and those that end."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from streaming.lab.local_cluster import LocalCluster
from streaming.query.kafka_options import kafka_options
from tests.logins import java_client
from tests.logins.brokers import with_tokens
from tests.logins.going_on import (
    asks_again_after_s,
    asks_for_s,
    go_on_for_s,
    live,
    running,
    why_not,
)
from tests.logins.identity_provider import (
    AUDIENCE,
    CLIENT,
    ISSUER,
    SECRET,
    IdentityProvider,
    serving,
)
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.logins]

OWN = "sasl_oauthbearer_"
LIFE_S = float(os.environ.get("LOGINS_LIFE_S", "10"))
LASTS_S = float(os.environ.get("LOGINS_LAST_S", "60"))


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdentityProvider]:
    with serving(IdentityProvider(tmp_path_factory.mktemp("identity"), life_s=LIFE_S)) as provider:
        yield provider


@pytest.fixture(scope="module")
def broker(
    provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LocalCluster, str]]:
    """A broker, and the address at which it wants tokens."""
    folder = tmp_path_factory.mktemp("broker")
    with running(with_tokens(folder, provider.folder / "jwks.json", ISSUER, AUDIENCE)) as started:
        yield started


@pytest.fixture
def login(broker: tuple[LocalCluster, str]) -> str:
    """The address that wants tokens."""
    return broker[1]


def section(provider: IdentityProvider, **changed: str) -> dict[str, Any]:
    given = {"token_endpoint_url": provider.url, "client_id": CLIENT, "client_secret": SECRET}
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "request_timeout_ms": 5_000,
        **{f"{OWN}{name}": value for name, value in (given | changed).items() if value},
    }


def test_a_client_goes_on_while_tokens_end(login: str, provider: IdentityProvider):
    asked = len(provider.asked)
    asks_for_s(login, section(provider), 2.5 * LIFE_S)
    assert 3 <= len(provider.asked) - asked <= 6


def test_a_client_goes_on_after_it_was_idle_for_longer_than_a_token(
    login: str, provider: IdentityProvider
):
    asks_again_after_s(login, section(provider), 1.5 * LIFE_S)


def test_the_java_client_trusts_who_signed_the_endpoint_s_certificate(
    login: str, provider: IdentityProvider, tmp_path: Path
):
    with serving(copy(provider), tls=True) as secured:
        trusted = section(secured, cafile=str(provider.folder / "idp.pem"))
        done = java_client.asks_for_s(tmp_path, kafka_options(login, trusted), 1)
        assert done.returncode == 0, done.stderr[-2_000:]
        assert java_client.checked(login, trusted) == java_client.ANSWERED
        assert java_client.checked(login, section(secured)) != java_client.ANSWERED


def test_each_wrong_login_is_one_line(login: str, provider: IdentityProvider, tmp_path: Path):
    assert "gives no token: it answered 401 invalid_client" in why_not(
        login, section(provider, client_secret="not-its-secret")
    )
    missing = section(
        provider, token_endpoint_url="", client_id="", client_secret="",
        token_file=str(tmp_path / "missing"),
    )  # fmt: skip
    assert "missing cannot be read: no such file or directory" in why_not(login, missing)
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    for name, text, reason in (
        ("forged", IdentityProvider(stranger).token(), "the broker refuses the token"),
        ("ended", provider.token(life_s=-60), "nothing renews it"),
        ("empty", "", "holds no token"),
    ):
        file = tmp_path / name
        file.write_text(text)
        assert reason in why_not(login, missing | {f"{OWN}token_file": str(file)})
    plain = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
             "sasl_plain_username": "twin", "sasl_plain_password": "x"}  # fmt: skip
    assert "does not offer sasl_mechanism" in why_not(login, plain)
    assert "a wrong security_protocol" in why_not(login, {"security_protocol": "PLAINTEXT"})


@contextmanager
def renewing(provider: IdentityProvider, file: Path) -> Iterator[None]:
    """Something that renews the token in a file, by a file that takes its place."""
    over = threading.Event()

    def renew() -> None:
        while not over.is_set():
            fresh = file.with_suffix(".fresh")
            fresh.write_text(provider.token())
            fresh.replace(file)
            over.wait(provider.life_s / 2)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        until(file.exists, 10, "there is no token")
        yield
    finally:
        over.set()
        thread.join()


PLUG_IN = """
import json, urllib.parse, urllib.request

def token():
    form = urllib.parse.urlencode({{"grant_type": "client_credentials"}}).encode()
    asked = urllib.request.Request({url!r}, form, {{"Authorization": {login!r}}})
    with urllib.request.urlopen(asked, timeout=5) as answer:
        return json.load(answer)["access_token"]
"""

ELSEWHERE = {"token_endpoint_url": "", "client_id": "", "client_secret": ""}


@pytest.fixture(params=["file", "function"])
def elsewhere(
    request: pytest.FixtureRequest,
    provider: IdentityProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[dict[str, Any]]:
    """Settings of clients whose tokens come from a file, or from a function."""
    if request.param == "file":
        with renewing(provider, tmp_path / "token"):
            yield section(provider, **ELSEWHERE, token_file=str(tmp_path / "token"))
    else:
        login = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        (tmp_path / "our_tokens.py").write_text(PLUG_IN.format(url=provider.url, login=login))
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # of processes that are started
        yield section(provider, **ELSEWHERE) | {f"{OWN}provider": "our_tokens:token"}


def test_both_clients_go_on_while_tokens_of_a_file_or_a_function_end(
    login: str, elsewhere: dict[str, Any], tmp_path: Path
):
    """A broker ends a connection whose token has ended, so each client had at least two."""
    assert java_client.checked(login, elsewhere) == java_client.ANSWERED
    done = java_client.asks_for_s(tmp_path, kafka_options(login, elsewhere), int(2.5 * LIFE_S))
    assert done.returncode == 0, done.stderr[-2_000:]
    asks_for_s(login, elsewhere, 1.5 * LIFE_S)


def test_all_programs_go_on_while_tokens_end(
    broker: tuple[LocalCluster, str], provider: IdentityProvider, tmp_path: Path
):
    with live(broker, tmp_path, "tokens", section(provider)) as pipeline:
        asked = len(provider.asked)
        go_on_for_s(pipeline, LASTS_S)
        assert len(provider.asked) - asked > 3 * LASTS_S / provider.life_s
        for name in pipeline.programs:
            assert SECRET not in pipeline.log(name)
            print(name, *pipeline.log(name).splitlines()[-3:], sep="\n")
