"""Tokens of OAUTHBEARER: from an identity provider and from a file, kept, renewed and refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streaming.query.kafka_options import kafka_options
from streaming.runtime.config import Config, ConfigError
from streaming.runtime.configuration.loading import load
from streaming.runtime.kafka import clients, tokens
from streaming.runtime.kafka.oauth import OAuth
from streaming.runtime.kafka.tokens import (
    Token,
    TokenError,
    TokenProvider,
    of_endpoint,
    of_file,
    provider_of,
)
from tests.logins.identity_provider import CLIENT, SECRET, IdentityProvider, serving

OWN = "sasl_oauthbearer_"
ENDPOINT = {f"{OWN}token_endpoint_url": "https://login.test/token", f"{OWN}client_id": "twin",
            f"{OWN}client_secret": "hush"}  # fmt: skip


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[IdentityProvider]:
    with serving(IdentityProvider(tmp_path)) as provider:
        yield provider


def oauth(provider: IdentityProvider, **changed: Any) -> OAuth:
    given = {"token_endpoint_url": provider.url, "client_id": CLIENT, "client_secret": SECRET}
    return OAuth(**(given | changed))


def configured(folder: Path, **client: str) -> Config:
    lines = [f"{key} = '{value}'" for key, value in client.items()]
    path = folder / "twin.toml"
    path.write_text("\n".join(["[cluster]", 'bootstrap = "b:1"', "[cluster.client]", *lines]))
    return load(path, {})


def test_a_token_comes_with_its_end(provider: IdentityProvider):
    token = of_endpoint(oauth(provider, scope="kafka all"))
    assert token.text.count(".") == 2
    assert token.ends_s == pytest.approx(tokens.time.time() + 30, abs=5)
    assert provider.asked == [{"grant_type": ["client_credentials"], "scope": ["kafka all"]}]


def test_without_expires_in_the_token_itself_says_its_end(provider: IdentityProvider):
    text = provider.token(life_s=77)
    provider.answers = 200, f'{{"access_token": "{text}"}}'.encode()
    assert of_endpoint(oauth(provider)).ends_s == pytest.approx(tokens.time.time() + 77, abs=5)


def test_the_secret_is_read_from_its_file_each_time(provider: IdentityProvider, tmp_path: Path):
    file = tmp_path / "secret"
    settings = oauth(provider, client_secret="", client_secret_file=str(file))
    with pytest.raises(TokenError, match=r"secret cannot be read: no such file"):
        of_endpoint(settings)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenError, match="secret cannot be read"):
        of_endpoint(settings)
    file.write_text("an old one")
    with pytest.raises(TokenError, match="401 invalid_client"):
        of_endpoint(settings)
    file.write_text(f"{SECRET}\n")
    assert of_endpoint(settings).text


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((401, b'{"error": "invalid_client"}'), "it answered 401 invalid_client"),
        ((503, b"<html>"), "it answered 503"),
        ((200, b"<html>"), "its answer has no access_token"),
        ((200, b'["access_token"]'), "its answer has no access_token"),
    ],
)
def test_what_gives_no_token_is_said_with_its_address(
    provider: IdentityProvider, answers: tuple[int, bytes], reason: str
):
    provider.answers = answers
    with pytest.raises(TokenError) as caught:
        of_endpoint(oauth(provider))
    assert str(caught.value) == f"{provider.url} gives no token: {reason}"


def test_an_endpoint_that_is_not_there_or_says_nothing_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tokens, "ANSWERS_WITHIN_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/token"
        with pytest.raises(TokenError, match="no answer within"):
            of_endpoint(OAuth(token_endpoint_url=url))
    with pytest.raises(TokenError, match=rf"{url} gives no token: connection refused"):
        of_endpoint(OAuth(token_endpoint_url=url))
    with pytest.raises(TokenError, match=r"gives no token: (name or service not known|temporary)"):
        of_endpoint(OAuth(token_endpoint_url="http://nobody.invalid/token"))


def test_a_certificate_that_nobody_trusts_is_said_and_one_can_be_trusted(tmp_path: Path):
    with serving(IdentityProvider(tmp_path), tls=True) as provider:
        with pytest.raises(TokenError, match="its certificate is not trusted: self-signed"):
            of_endpoint(oauth(provider))
        assert of_endpoint(oauth(provider, cafile=str(tmp_path / "idp.pem"))).text
        with pytest.raises(TokenError, match="has no certificates: no such file"):
            of_endpoint(oauth(provider, cafile=str(tmp_path / "missing.pem")))


def test_a_token_in_a_file_is_used_until_it_ends(provider: IdentityProvider, tmp_path: Path):
    file = tmp_path / "token"
    settings = OAuth(token_file=str(file))
    with pytest.raises(TokenError, match="token cannot be read: no such file"):
        of_file(settings)
    file.write_text("\n")
    with pytest.raises(TokenError, match="holds no token"):
        of_file(settings)
    file.write_text(provider.token(life_s=-60))
    with pytest.raises(TokenError, match=r"ended 6[0-5] s ago: nothing renews it"):
        of_file(settings)
    file.write_text(f"{provider.token()}\n")
    assert of_file(settings).text == file.read_text().strip()
    file.write_text("opaque")
    assert of_file(settings).text == "opaque"


def test_a_token_is_kept_for_most_of_its_life_and_one_of_unknown_life_not_at_all():
    now_s = [1_000.0]
    ends_s = [1_100.0]
    made = []

    def obtain() -> Token:
        made.append(now_s[0])
        return Token(f"token {len(made)}", ends_s[0])

    provider = TokenProvider(obtain, {"logicalCluster": "lkc-1"}, clock=lambda: now_s[0])
    assert [provider.token(), provider.token()] == ["token 1"] * 2
    now_s[0] = 1_079.0
    assert provider.token() == "token 1"
    now_s[0] = 1_081.0
    ends_s[0] = float("nan")
    assert [provider.token(), provider.token()] == ["token 2", "token 3"]
    assert provider.extensions() == {"logicalCluster": "lkc-1"}


def test_a_token_that_is_still_good_is_used_while_nobody_gives_a_new_one():
    now_s = [1_000.0]
    works = [True]

    def obtain() -> Token:
        if not works[0]:
            raise TokenError("nobody answers")
        return Token("token", now_s[0] + 100)

    provider = TokenProvider(obtain, {}, clock=lambda: now_s[0])
    assert provider.token() == "token"
    works[0] = False
    for now_s[0] in (1_081.0, 1_085.0, 1_099.0):
        assert provider.token() == "token"
    now_s[0] = 1_105.0
    with pytest.raises(TokenError, match="nobody answers"):
        provider.token()
    works[0] = True
    assert provider.token() == "token"


def test_a_file_that_was_renewed_is_used_at_once(provider: IdentityProvider, tmp_path: Path):
    file = tmp_path / "token"
    given = provider_of(OAuth(token_file=str(file)))
    for life_s in (600, 900):
        file.write_text(provider.token(life_s))
        assert given.token() == file.read_text()
    file.unlink()  # it is renewed by something that removes it first
    assert given.token()


def test_all_clients_of_a_process_share_a_token():
    section = {"sasl_mechanism": "OAUTHBEARER", **ENDPOINT}
    one, two = (clients.settings(section, "cluster") for _ in range(2))
    assert one["sasl_oauth_token_provider"] is two["sasl_oauth_token_provider"]
    assert not {name for name in one if name.startswith(OWN)}


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ({}, "token_endpoint_url: set either this or sasl_oauthbearer_token_file"),
        ({**ENDPOINT, f"{OWN}token_file": "/token"}, "token_endpoint_url: set either this or"),
        ({**ENDPOINT, f"{OWN}token_endpoint_url": "login.test"}, "token_endpoint_url: must be"),
        ({**ENDPOINT, f"{OWN}token_endpoint_url": "https://u:p@login.test"}, "without a user"),
        ({**ENDPOINT, f"{OWN}client_id": ""}, "client_id: is missing"),
        ({**ENDPOINT, f"{OWN}client_secret": ""}, "client_secret: set either this or"),
        ({**ENDPOINT, f"{OWN}client_secret_file": "/s"}, "client_secret: set either this or"),
        ({**ENDPOINT, f"{OWN}extensions": "logicalCluster"}, "extensions: must be like"),
        ({**ENDPOINT, f"{OWN}extensions": "auth=Bearer"}, "extensions: must be like"),
        ({**ENDPOINT, f"{OWN}audience": "x"}, "audience: is none of "),
        ({f"{OWN}token_file": "/token", f"{OWN}scope": "x"}, "scope: needs sasl_oauthbearer_tok"),
        ({f"{OWN}token_file": "/token", f"{OWN}provider": "m:f"}, "set either this or"),
        ({f"{OWN}provider": "module"}, "provider: must be like package.module:function"),
        ({**ENDPOINT, "sasl_mechanism": "PLAIN"}, "needs sasl_mechanism = 'OAUTHBEARER'"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_when_the_file_is_read(
    tmp_path: Path, client: dict[str, str], message: str
):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, **({"sasl_mechanism": "OAUTHBEARER"} | client))
    assert f"cluster.client.{OWN}" in str(caught.value)
    assert message in str(caught.value)
    assert "hush" not in str(caught.value)


def test_only_secrets_are_masked(tmp_path: Path):
    config = configured(tmp_path, sasl_mechanism="OAUTHBEARER", **ENDPOINT)
    assert config.shown()["cluster"]["client"] == {
        "sasl_mechanism": "OAUTHBEARER",
        **ENDPOINT,
        f"{OWN}client_secret": "***",
    }


def test_the_java_client_asks_the_same_endpoint(tmp_path: Path):
    authority = tmp_path / "ca.pem"
    authority.write_text("one\ntwo\n")
    made = kafka_options(
        "b:1",
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", **ENDPOINT,
         f"{OWN}client_secret": 'h"u\\sh', f"{OWN}scope": "kafka", f"{OWN}cafile": str(authority),
         f"{OWN}extensions": "logicalCluster=lkc-1, identityPoolId=pool-2"},
    )  # fmt: skip
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
    assert made == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.login.callback.handler.class": f"{module}CallbackHandler",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://login.test/token",
        "kafka.sasl.jaas.config": f'{module}Module required extension_logicalCluster="lkc-1" '
        'extension_identityPoolId="pool-2" clientId="twin" clientSecret="h\\"u\\\\sh" '
        'scope="kafka" ssl.truststore.type="PEM" ssl.truststore.certificates="one\\ntwo\\n";',
    }
