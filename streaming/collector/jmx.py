"""The brokers' own metrics, from their JMX exporters, read beside the cycles.

All exporters are scraped at once, each with a deadline. No cycle waits for them: JMX can take
seconds on a busy broker, which is when its offsets matter most. A broker whose exporter does not
answer has no row, and a problem says why.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from streaming.bus.arrow import numbers
from streaming.collector.background import Background
from streaming.collector.brokers import Address
from streaming.collector.problem import Problem
from streaming.collector.scrape import METRICS, scrape_all
from streaming.collector.signals import Scrape, signals_of
from streaming.runtime.config import Collector as Section
from twin.tables.observations import BrokerMetricsFrame


class MetricsSource:
    """Scrapes in the background, from the first broker with a URL until ``close``."""

    about = (METRICS,)

    def __init__(self, section: Section, *, background: bool = True) -> None:
        """Scrape in the background; without ``background`` only ``scrape`` scrapes."""
        self._section = section
        self._background = background
        self._brokers: tuple[Address, ...] = ()
        self._last: dict[int, Scrape] = {}
        self._measured_at_ms = 0
        interval_s = section.metrics_interval_ms / 1_000
        self._rounds = Background("metrics", interval_s, self._scrape)
        self.problems: tuple[Problem, ...] = ()  # as of the last round

    def update_metadata(self, brokers: Iterable[Address]) -> None:
        """Scrape these brokers from now on, as far as a URL is configured for them."""
        self._brokers = tuple(brokers)
        if self._background and urls(self._section, self._brokers):
            self._rounds.start()

    @property
    def rounds(self) -> int:
        """Rounds that are over."""
        return self._rounds.rounds

    def take(self) -> pa.Table | None:
        """The rows of the last round since this was called last, None if there was no round."""
        return self._rounds.take()

    def give_back(self, rows: pa.Table) -> None:
        """``take`` returns these again unless there is a newer round: they were not sent."""
        self._rounds.give_back(rows)

    def close(self) -> None:
        """End the thread; waits for a silent exporter until its deadline."""
        self._rounds.close()

    def __enter__(self) -> MetricsSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def scrape(self) -> None:
        """Scrape all brokers once."""
        self._rounds.read()

    def _scrape(self) -> pa.Table | None:
        """The rows of the brokers that answered, None if there is none."""
        # A clock that is set back must not make this older than the round before.
        self._measured_at_ms = max(int(time.time() * 1_000), self._measured_at_ms + 1)
        at_s = time.monotonic()
        by_broker = urls(self._section, self._brokers)
        results = scrape_all(by_broker, self._section.deadline_ms / 1_000)
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


def urls(section: Section, brokers: Iterable[Address]) -> dict[int, str]:
    """URL of each broker's exporter; its own in the configuration overrides the template."""
    by_broker = {}
    for address in brokers:
        url = section.metrics_urls.get(str(address.broker), section.metrics_url)
        is_fixed = "{host}" not in url and "{port}" not in url
        if url and (address.host or is_fixed):  # a broker that is down has none
            by_broker[address.broker] = _filled(url, address)
    return by_broker


def _filled(url: str, address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    values = {"{host}": host, "{port}": str(address.port), "{broker}": str(address.broker)}
    return re.sub(r"\{(host|port|broker)\}", lambda match: values[match[0]], url)
