"""Asks each broker's JMX exporter what the broker measures of itself, beside the cycles.

A thread of its own asks all of them at once, each with a deadline, as often as is configured; the
collector takes what is new when a cycle ends. It never waits for it: JMX can take seconds on a
broker that is busy, which is when its offsets matter most. A broker that does not answer has no
row, and a cause says why.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import pyarrow as pa

from streaming.bus.arrow import numbers
from streaming.collector.brokers import Address
from streaming.collector.signals import STARTED, Samples, Scrape, samples_of, signals_of
from streaming.runtime import clients
from streaming.runtime.config import Collector as Section
from twin.tables import BROKER_METRICS

_MAX_BYTES: Final = 32 << 20
"""An exporter without rules tells 1.1 MB on a broker that has next to nothing (measured)."""

_CHUNK_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    """The series that one exporter told, or in one line why there are none."""

    samples: Samples = field(default_factory=dict)
    problem: str = ""


class Metrics:
    """What all brokers measure, asked in the background from the first ``learn`` to ``close``."""

    def __init__(self, section: Section) -> None:
        self._section = section
        self._interval_s = section.metrics_interval_ms / 1_000
        self._brokers: tuple[Address, ...] = ()
        self._before: dict[int, Scrape] = {}
        self._measured_at_ms = 0
        self._fresh: deque[pa.Table] = deque(maxlen=1)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._bug: Exception | None = None
        self.causes: dict[str, str] = {}

    def learn(self, brokers: Iterable[Address]) -> None:
        """Ask these brokers from now on, as far as a URL is configured for them."""
        self._brokers = tuple(brokers)
        if self._thread is None and urls(self._section, self._brokers):
            self._thread = threading.Thread(target=self._work, name="metrics", daemon=True)
            self._thread.start()

    def take(self) -> pa.Table | None:
        """What was measured since the last time this was called, None if nothing was."""
        if self._bug is not None:
            raise self._bug
        return self._fresh.pop() if self._fresh else None

    def close(self) -> None:
        """End the thread; an exporter that is silent is waited for until the deadline."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        due_s = time.monotonic()
        try:
            while not self._stop.wait(max(0.0, due_s - time.monotonic())):
                self.ask()
                due_s = max(due_s + self._interval_s, time.monotonic())
        except Exception as error:  # the collector is told, which would never hear of it
            self._bug = error

    def ask(self) -> None:
        """Ask everybody once."""
        # A clock that is set back must not make this older than what was measured before.
        self._measured_at_ms = max(int(time.time() * 1_000), self._measured_at_ms + 1)
        at_s = time.monotonic()
        asked = urls(self._section, self._brokers)
        causes: dict[str, str] = {}
        scrapes: dict[int, Scrape] = {}
        for broker, answer in ask_all(asked, self._section.deadline_ms / 1_000).items():
            if answer.problem:
                causes[f"metrics of broker {broker}"] = f"{asked[broker]}: {answer.problem}"
            else:
                scrapes[broker] = Scrape(at_s, answer.samples)
        rows = {b: signals_of(scrape, self._before.get(b)) for b, scrape in scrapes.items()}
        self._before = {b: s for b, s in self._before.items() if b in asked} | scrapes
        self.causes = causes
        if rows:
            self._fresh.append(_table(rows, self._measured_at_ms))


def _table(rows: Mapping[int, Mapping[str, float]], at_ms: int) -> pa.Table:
    """One row a broker that answered."""
    told: dict[str, list[Any]] = {"broker": list(rows), "measured_at_ms": [at_ms] * len(rows)}
    columns = [
        numbers(told.get(c.name) or [row[c.name] for row in rows.values()], c.dtype)
        for c in BROKER_METRICS.columns
    ]
    return pa.Table.from_arrays(columns, schema=BROKER_METRICS.schema)


# Where


def urls(section: Section, brokers: Iterable[Address]) -> dict[int, str]:
    """The exporters of these brokers; a broker's own URL wins over the template."""
    found = {}
    for address in brokers:
        url = section.metrics_urls.get(str(address.broker), section.metrics_url)
        is_fixed = "{host}" not in url and "{port}" not in url
        if url and (address.host or is_fixed):  # one that is down has no address
            found[address.broker] = _filled(url, address)
    return found


def _filled(url: str, address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    values = {"{host}": host, "{port}": str(address.port), "{broker}": str(address.broker)}
    return re.sub(r"\{(host|port|broker)\}", lambda match: values[match[0]], url)


# How


def ask_all(asked: Mapping[int, str], deadline_s: float) -> dict[int, Answer]:
    """Ask everyone at once; returns when all have answered, at the latest at the deadline."""
    received = asyncio.run(_receive_all(asked.values(), deadline_s))
    # Read when all have come: reading one must not be time that another has not.
    return {b: _understood(r) for b, r in zip(asked, received, strict=True)}


async def _receive_all(asked: Iterable[str], deadline_s: float) -> list[bytes | Answer]:
    return await asyncio.gather(*(_receive(url, deadline_s) for url in asked))


async def _receive(url: str, deadline_s: float) -> bytes | Answer:
    """All that is sent, or why it is not."""
    try:
        async with asyncio.timeout(deadline_s):
            return await _exchange(urlsplit(url))
    except TimeoutError:
        return Answer(problem="did not answer within the deadline")
    except OSError as error:
        # asyncio says in which call, the system says why. Names that are unknown are below 0.
        number = error.errno or 0
        return Answer(problem=os.strerror(number) if number > 0 else clients.one_line(error))
    except ValueError as error:
        return Answer(problem=_short(error))


async def _exchange(url: SplitResult) -> bytes:
    """Everything that is sent in answer to a GET.

    Raises:
        OSError: no connection, or too much.
    """
    is_tls = url.scheme == "https"
    reader, writer = await asyncio.open_connection(
        url.hostname, url.port or (443 if is_tls else 80), ssl=is_tls or None
    )
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\nUser-Agent: kafka-twin\r\n"
            "Accept: text/plain; version=0.0.4\r\nConnection: close\r\n\r\n".encode()
        )
        received = bytearray()
        while chunk := await reader.read(_CHUNK_BYTES):
            received += chunk
            if len(received) > _MAX_BYTES:
                raise OSError(f"tells more than {_MAX_BYTES >> 20} MiB")
        return bytes(received)
    finally:
        writer.transport.abort()  # there is nothing more to say, also to one that does not end


def _understood(received: bytes | Answer) -> Answer:
    """The series in what was sent."""
    if isinstance(received, Answer):
        return received
    try:
        response = http.client.HTTPResponse(_Received(received))  # type: ignore[arg-type]
        response.begin()
        body = response.read()
    except http.client.HTTPException as error:
        return Answer(problem=f"did not answer in HTTP, or not to the end: {_short(error)}")
    if response.status != http.client.OK:
        return Answer(problem=f"HTTP status {response.status}")
    try:
        samples = samples_of(body.decode("utf-8", "replace"))
    except ValueError as error:
        return Answer(problem=f"is not in Prometheus' text format: {_short(error)}")
    if not samples.keys() - {STARTED}:
        return Answer(problem="tells no signal; are its rules deploy/jmx/kafka.yml?")
    return Answer(samples)


class _Received:
    """Bytes that have come, where a socket is expected."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._received)


def _short(error: Exception) -> str:
    """A line about it that fits one; what is not text of ours can be of any length."""
    return clients.one_line(error)[:120]
