"""Asks an exporter over HTTP, for commands that otherwise read the bus.

Requests go only to the given URL: redirects are not followed, and proxies from the environment are
not used. They have the token of the configuration, the operator's if it has one.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
import httpx2
import msgspec

from streaming.cli.options import ParameterType
from streaming.history.moment import AT, AT_NAME, Moment, MomentError, how_known
from streaming.runtime.configuration.chosen import chosen
from streaming.runtime.errors import UserError
from streaming.runtime.http_errors import why

if TYPE_CHECKING:  # most commands do not wait for the imports of the exporter
    from streaming.exporter.agents.tools import Ask

CONNECT_WITHIN_S: Final = 5.0
ANSWER_WITHIN_S: Final = 60.0
"""Long, since the exporter may queue a question."""

Parameters = Mapping[str, str | int | bool | Sequence[str] | Sequence[int]]


class ExporterUnavailableError(UserError):
    """The exporter does not answer; one line says why."""


class ExporterRefusalError(UserError):
    """The exporter refuses the question, or the server is not an exporter."""


class _Refusal(msgspec.Struct):
    """An exporter's answer that refuses a question."""

    error: str


class Url(click.ParamType[str]):
    """The URL of an exporter."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#]*)?", value):
            self.fail(f"{value!r} is no URL like http://127.0.0.1:9410", param, ctx)
        return str(value).rstrip("/")


def url_option(command: Any) -> Any:
    """The option ``--url`` of commands that may ask an exporter."""
    about = "Ask the exporter at this URL, e.g. http://127.0.0.1:9410, instead of reading the bus."
    return click.option("--url", type=Url(), help=about)(command)


def at_option(command: Any) -> Any:
    """The option ``--at`` of commands that may ask about the past. The command gets ``url`` too."""
    about = "Ask about this past moment, e.g. 2026-11-24T03:12:00Z or -15m; needs --url."
    return click.option("--at", type=ParameterType(AT), help=about)(command)


def at_parameters(url: str | None, at: Moment | None) -> dict[str, str]:
    """The parameters for a moment that was given.

    Raises:
        MomentError: ``--at`` without ``--url``: the bus has the present only.
    """
    if at is None:
        return {}
    if url is None:
        raise MomentError("--at asks an exporter that knows the past: give --url as well")
    return {AT_NAME: at.text}


def note_moment(answer: Mapping[str, Any]) -> None:
    """Say on stderr which past moment an answer is of, if it is of one."""
    if "at" in answer:
        known = how_known(answer["complete"], answer.get("filled", False))
        click.echo(f"note: this is of {answer['at']}{known}", err=True)


def ask(
    url: str, path: str, parameters: Parameters, form: Any, answer_within_s: float = ANSWER_WITHIN_S
) -> dict[str, Any]:
    """The answer of an exporter's API, decoded as the given type.

    Raises:
        ExporterUnavailableError: there is no answer, or not in time.
        ExporterRefusalError: it is a refusal, or not an exporter's answer.
    """
    status, body = _get(url, path, parameters, answer_within_s)
    try:
        if status == httpx2.codes.OK:
            msgspec.json.decode(body, type=form)  # later versions may have more fields
            answer: dict[str, Any] = msgspec.json.decode(body)
            return answer
        refusal = msgspec.json.decode(body, type=_Refusal)
    except msgspec.MsgspecError:
        raise ExporterRefusalError(
            f"{url}: is not an exporter of kafka-twin, or has another version: HTTP "
            f"status {status}, and not the JSON that this one sends"
        ) from None
    raise ExporterRefusalError(refusal.error)


@asynccontextmanager
async def asking(url: str) -> AsyncIterator[Ask]:
    """A function that asks the exporter at the URL, while the context lasts."""
    below = chosen().below
    async with httpx2.AsyncClient(**_options(url, ANSWER_WITHIN_S)) as client:

        async def ask(path: str, parameters: Sequence[tuple[str, str]]) -> tuple[int, bytes]:
            with _unavailable(url):
                answer = await client.get(f"{url}{below}{path}", params=list(parameters))
                return answer.status_code, answer.content

        yield ask


def _get(url: str, path: str, parameters: Parameters, answer_within_s: float) -> tuple[int, bytes]:
    with _unavailable(url), httpx2.Client(**_options(url, answer_within_s)) as client:
        answer = client.get(f"{url}{chosen().below}/api/v1/{path}", params=dict(parameters))
        return answer.status_code, answer.content


def _options(url: str, answer_within_s: float) -> dict[str, Any]:
    return {
        "verify": url.startswith("https:") and ssl.create_default_context(),
        "timeout": httpx2.Timeout(answer_within_s, connect=CONNECT_WITHIN_S),
        "headers": _authorization(),
        "follow_redirects": False,
        "trust_env": False,
    }


def _authorization() -> dict[str, str]:
    """The header with the token of the configuration that the command was given."""
    access = chosen().common().access
    token = access.operator_token or access.token
    return {"Authorization": f"Bearer {token}"} if token else {}


@contextmanager
def _unavailable(url: str) -> Iterator[None]:
    """Turns errors of the client into one that says why the exporter does not answer."""
    try:
        yield
    except httpx2.TimeoutException:
        raise ExporterUnavailableError(f"{url}: does not answer in time") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ExporterUnavailableError(f"{url}: does not answer: {why(error)}") from None
