"""Scrapes JMX exporters over HTTP: all at once, each within a deadline.

Requests go only to the configured URL: redirects are not followed, and proxies from the environment
are not used. So a password or a token reaches nobody else.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import httpx2

from streaming.collector.about import About
from streaming.collector.problem import Problem, timeout
from streaming.collector.scraping import scrape_login
from streaming.collector.scraping.metric_names import Rules
from streaming.collector.scraping.signals import Samples, served
from streaming.runtime.config import CollectorConfig
from streaming.runtime.http_errors import reason, short, system_error

METRICS: Final = About(
    "metrics",
    "the broker's own metrics: fetch times, request queue, remote reads, uploads",
    every="collector.metrics_interval_ms",
    option="collector.metrics_url",
)

MAX_BYTES: Final = 32 << 20
"""An exporter without rules sends 1.1 MB on a nearly empty broker (measured)."""

_LOGIN: Final = ": it wants collector.metrics_user or collector.metrics_token, or another"
_ADVICE: Final[Mapping[int, str]] = {401: _LOGIN, 403: _LOGIN}

_CHUNK_BYTES: Final = 1 << 16
_SERIES: Final = re.compile(rb"(?m)^([a-zA-Z_:][a-zA-Z0-9_:]{0,80})[{ ].*[0-9N]$")
_KNOWN: Final = (
    "deploy/jmx/kafka.yml, Strimzi, jmx_exporter without rules and Aiven "
    "(docs/managed.md#metrics-of-brokers)"
)
_HEADERS: Final = {
    b"User-Agent": b"kafka-twin",
    b"Accept": b"text/plain; version=0.0.4",
    b"Accept-Encoding": b"identity",  # so that the limit also bounds memory
    b"Connection": b"close",
}


@dataclass(frozen=True, slots=True)
class Scraped:
    """The series of one exporter, or why there are none."""

    samples: Samples = field(default_factory=dict)
    rules: frozenset[Rules] = frozenset()
    problem: Problem | None = None


def scrape_all(
    urls: Mapping[int, str],
    deadline_s: float,
    login: CollectorConfig | None = None,
    *,
    max_bytes: int = MAX_BYTES,
) -> dict[int, Scraped]:
    """Scrape these brokers' exporters at once; returns by broker, at the latest at the deadline.

    Args:
        urls: by broker.
        deadline_s: for each.
        login: has the settings of the login; None for none.
        max_bytes: of an answer.
    """
    login = login or CollectorConfig()
    try:
        headers = scrape_login.headers(login)
        context = _tls(urls.values(), login)
    except scrape_login.AccessError as error:
        problems = (Problem(METRICS.name, broker, "NoAccess", str(error)) for broker in urls)
        return {broker: Scraped(problem=each) for broker, each in zip(urls, problems, strict=True)}
    received = asyncio.run(_receive_all(urls, deadline_s, max_bytes, headers, context))
    # Parse after all have been received: parsing one must not delay another.
    return {broker: _parsed(broker, urls[broker], body) for broker, body in received.items()}


async def _receive_all(
    urls: Mapping[int, str],
    deadline_s: float,
    max_bytes: int,
    headers: Mapping[bytes, bytes],
    context: ssl.SSLContext | bool,
) -> dict[int, bytes | Problem]:
    async with httpx2.AsyncClient(
        headers={**_HEADERS, **headers},
        verify=context,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        timeout=None,  # asyncio's timeout limits the whole exchange, not each step
        follow_redirects=False,
        trust_env=False,
    ) as client:

        async def receive(broker: int, url: str) -> bytes | Problem:
            try:
                async with asyncio.timeout(deadline_s):
                    return await _get(client, url, max_bytes)
            except Exception as error:  # a bad response must not affect other brokers
                return _problem(broker, url, error)

        bodies = await asyncio.gather(*(receive(broker, url) for broker, url in urls.items()))
    return dict(zip(urls, bodies, strict=True))


def _tls(urls: Iterable[str], login: CollectorConfig) -> ssl.SSLContext | bool:
    """The certificate authorities; loading takes 20 ms, so only if a URL needs them."""
    return any(url.lower().startswith("https:") for url in urls) and scrape_login.tls(login)


class _ScrapeError(Exception):
    """The response cannot be used."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(text)
        self.error = error


async def _get(client: httpx2.AsyncClient, url: str, max_bytes: int) -> bytes:
    async with client.stream("GET", url) as response:
        if response.status_code != httpx2.codes.OK:
            status = response.status_code
            raise _ScrapeError(f"HTTP{status}", f"HTTP status {status}{_ADVICE.get(status, '')}")
        received = bytearray()
        async for chunk in response.aiter_raw(_CHUNK_BYTES):
            received += chunk
            if len(received) > max_bytes:
                raise _ScrapeError("TooLarge", f"sends more than {max_bytes} bytes")
        return bytes(received)


def _problem(broker: int, url: str, error: Exception) -> Problem:
    """The problem for a missing response."""
    if isinstance(error, TimeoutError):
        failure = timeout(METRICS.name, broker)
        return Problem(METRICS.name, broker, failure.error, f"{url}: {failure.text}")
    if isinstance(error, _ScrapeError):
        return Problem(METRICS.name, broker, error.error, f"{url}: {error}")
    cause = system_error(error)
    if cause is not None:
        name = type(cause).__name__.removesuffix("Error")
        return Problem(METRICS.name, broker, name, f"{url}: {reason(cause)}")
    text = f"{url}: did not answer in HTTP, or not to the end: {short(error)}"
    return Problem(METRICS.name, broker, "Malformed", text)


def _first_series(body: bytes) -> str:
    """A series that is served instead. A reader recognises by it another exporter, say a node's."""
    series = _SERIES.search(body)
    return f"it serves {series[1].decode()} and others" if series else "it serves no series"


def _parsed(broker: int, url: str, body: bytes | Problem) -> Scraped:
    """The series in a response."""
    if isinstance(body, Problem):
        return Scraped(problem=body)
    try:
        found = served(body.decode("utf-8", "replace"))
    except ValueError as error:
        text = f"{url}: is not in Prometheus' text format: {short(error)}"
        return Scraped(problem=Problem(METRICS.name, broker, "Malformed", text))
    if not found.rules:
        text = f"{url}: has no signal: {_first_series(body)}; known are the names of {_KNOWN}"
        return Scraped(problem=Problem(METRICS.name, broker, "NoSignal", text))
    return Scraped(found.samples, found.rules)
