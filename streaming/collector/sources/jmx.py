"""The brokers' own metrics, from their JMX exporters, read in the background.

All exporters are scraped at once, each with a deadline. No cycle waits for them: JMX can take
seconds on a busy broker, and just then its offsets matter most. A broker whose exporter does not
answer has no row, and a problem says why.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from streaming.bus.arrow import numbers
from streaming.collector.background import BackgroundSource
from streaming.collector.problem import Problem
from streaming.collector.reading import Reading, Rows
from streaming.collector.scraping.scrape import METRICS, scrape_all
from streaming.collector.scraping.signals import Scrape, signals_of
from streaming.collector.source import Setup
from streaming.collector.wire.connections import Address
from streaming.runtime.config import CollectorConfig
from twin.tables.observations import BrokerMetricsFrame


@dataclass(frozen=True, slots=True, eq=False)
class ScrapedMetrics(Reading):
    """The metrics of one round, a row for each broker that answered."""

    rows: pa.Table

    def tables(self, shard: int) -> Iterator[Rows]:
        """All rows, in every shard."""
        del shard
        yield BrokerMetricsFrame, self.rows


class MetricsSource(BackgroundSource[pa.Table]):
    """Scrapes in the background, as soon as there is a broker with a URL."""

    about = (METRICS,)
    problems: tuple[Problem, ...] = ()  # as of the last round

    @classmethod
    def make(cls, setup: Setup) -> Self | None:
        """Scrape every ``collector.metrics_interval_ms``."""
        return cls(setup.config.collector) if setup.in_background else None

    def __init__(self, section: CollectorConfig, *, background: bool = True) -> None:
        super().__init__(METRICS.name, section.metrics_interval_ms, background=background)
        self._section = section
        self._last: dict[int, Scrape] = {}
        self._measured_at_ms = 0

    @property
    def off(self) -> Mapping[str, str]:
        """No broker has a URL."""
        return {} if self.is_on() else {METRICS.name: "collector.metrics_url is not set"}

    def is_on(self) -> bool:
        """A URL is configured for a broker."""
        return bool(urls(self._section, self._brokers))

    def read(self) -> ScrapedMetrics | None:
        """The newest round."""
        rows = self.take()
        return None if rows is None else ScrapedMetrics(rows)

    def send_again(self, reading: ScrapedMetrics) -> None:
        """Send these metrics again: they have not arrived."""
        self.give_back(reading.rows)

    def read_round(self) -> pa.Table | None:
        """The rows of the brokers that answered, None if none did."""
        # If the clock was set back, this round must still be newer than the previous one.
        self._measured_at_ms = max(int(time.time() * 1_000), self._measured_at_ms + 1)
        at_s = time.monotonic()
        by_broker = urls(self._section, self._brokers)
        results = scrape_all(by_broker, self._section.deadline_ms / 1_000, self._section)
        scrapes = {b: Scrape(at_s, r.samples) for b, r in results.items() if r.problem is None}
        rows = {b: signals_of(scrape, self._last.get(b)) for b, scrape in scrapes.items()}
        self._last = {b: s for b, s in self._last.items() if b in by_broker} | scrapes
        self.problems = tuple(r.problem for r in results.values() if r.problem is not None)
        return _table(rows, self._measured_at_ms) if rows else None


def _table(rows: Mapping[int, Mapping[str, float]], at_ms: int) -> pa.Table:
    """One row for each broker that answered."""
    keys: dict[str, list[Any]] = {"broker": list(rows), "measured_at_ms": [at_ms] * len(rows)}
    columns = [
        numbers(keys.get(c.name) or [row[c.name] for row in rows.values()], c.arrow)
        for c in BrokerMetricsFrame.columns
    ]
    return pa.Table.from_arrays(columns, schema=BrokerMetricsFrame.schema())


def urls(section: CollectorConfig, brokers: Iterable[Address]) -> dict[int, str]:
    """URL of each broker's exporter; its own in the configuration overrides the template."""
    by_broker = {}
    for address in brokers:
        url = section.metrics_urls.get(str(address.broker), section.metrics_url)
        is_fixed = "{host}" not in url and "{port}" not in url
        if url and (address.host or is_fixed):  # a broker that is down has no host
            by_broker[address.broker] = _filled(url, address)
    return by_broker


def _filled(url: str, address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    values = {"{host}": host, "{port}": str(address.port), "{broker}": str(address.broker)}
    return re.sub(r"\{(host|port|broker)\}", lambda match: values[match[0]], url)
