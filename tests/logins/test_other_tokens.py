"""Tokens of a function, and tokens that Spark's Java client gets from this process."""

from __future__ import annotations

import base64
import importlib
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from streaming.query.kafka_options import kafka_options
from streaming.runtime.kafka import clients, tokens
from streaming.runtime.kafka.oauth import OAuth
from streaming.runtime.kafka.tokens import TokenError, provider_of
from tests.logins.identity_provider import IdentityProvider, serving

OWN = "sasl_oauthbearer_"


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[IdentityProvider]:
    with serving(IdentityProvider(tmp_path)) as provider:
        yield provider


def asked_by_java(options: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Status and fields that the Java client gets where these options send it."""
    login = dict(re.findall(r'(client\w+)="([^"]*)"', options["kafka.sasl.jaas.config"]))
    text = base64.b64encode(f"{login['clientId']}:{login['clientSecret']}".encode()).decode()
    headers = {"Authorization": f"Basic {text}"}
    url = options["kafka.sasl.oauthbearer.token.endpoint.url"]
    try:
        with urlopen(Request(url, b"grant_type=client_credentials", headers), timeout=10) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_the_java_client_gets_the_token_that_is_in_the_file_now(
    provider: IdentityProvider, tmp_path: Path
):
    file = tmp_path / "token"
    client = {"sasl_mechanism": "OAUTHBEARER", f"{OWN}token_file": str(file)}
    file.write_text("opaque")
    with pytest.raises(TokenError, match=r"token is no JSON web token .*Java client"):
        kafka_options("b:1", client)
    file.write_text(provider.token())
    made = kafka_options("b:1", client)
    assert made["kafka.sasl.oauthbearer.token.endpoint.url"].startswith("http://127.0.0.1:")
    for life_s in (600, 900):
        file.write_text(provider.token(life_s))
        assert asked_by_java(made) == (
            200,
            {"access_token": file.read_text(), "token_type": "Bearer"},
        )
    made["kafka.sasl.jaas.config"] = 'clientId="kafka-twin" clientSecret="guessed"'
    assert asked_by_java(made)[0] == 401


PLUGGED = f"{OWN}provider"
_NUMBERS = itertools.count()  # one provider is kept for each name


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write the function of another package; its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(body: str) -> str:
        name = f"given_{next(_NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(f"def token():\n    {body}\n")
        importlib.invalidate_caches()
        return f"{name}:token"

    return write


def test_a_function_of_another_package_gives_tokens(plug_in: Callable[[str], str]):
    token = provider_of(OAuth(provider=plug_in("return 'a.b.c', 77.5"))).token
    assert token() == "a.b.c"
    counted = plug_in("token.n = getattr(token, 'n', 0) + 1; return f'token {token.n}'")
    token = provider_of(OAuth(provider=counted)).token
    assert [token(), token()] == ["token 1", "token 2"]  # nobody says when they end


def test_the_java_client_gets_the_tokens_of_the_function_and_its_errors(
    plug_in: Callable[[str], str],
):
    given = "token.n = getattr(token, 'n', 0) + 1; return ('a.b.c', '1.2.3', None)[token.n - 1]"
    name = plug_in(given)
    made = kafka_options("b:1", {"sasl_mechanism": "OAUTHBEARER", PLUGGED: name})
    assert asked_by_java(made) == (200, {"access_token": "1.2.3", "token_type": "Bearer"})
    status, fields = asked_by_java(made)
    assert status == 403
    assert fields["error_description"].startswith(f"{PLUGGED}: {name} gives no token: ")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('no\\nticket')", "gives no token: ValueError: no ticket"),
        ("return None", "it returned neither a token nor a token and its end"),
        ("return ''", "it returned neither a token nor a token and its end"),
        ("import time; time.sleep(30)", "gives no token: no answer within"),
        ("1 +", "cannot be loaded: SyntaxError"),
    ],
)
def test_a_function_that_gives_no_token_is_named_in_one_line(
    plug_in: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, body: str, reason: str
):
    monkeypatch.setattr(tokens, "ANSWERS_WITHIN_S", 1.0)
    name = plug_in(body)
    with pytest.raises(TokenError) as caught:
        provider_of(OAuth(provider=name)).token()
    assert str(caught.value).startswith(f"{PLUGGED}: {name} ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_function_that_is_not_there_is_named_before_anything_starts():
    client = {"sasl_mechanism": "OAUTHBEARER", PLUGGED: "nowhere.tokens:get"}
    for reads in (
        lambda: clients.settings(client, "cluster"),
        lambda: kafka_options("b:1", client),
    ):
        with pytest.raises(TokenError, match=r"nowhere\.tokens:get cannot be loaded: ModuleNotFo"):
            reads()
