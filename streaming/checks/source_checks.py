"""Says of each source how its data came about, so that none is fine by silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from streaming.checks.finding import SourceResult
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import CycleResult
from streaming.collector.groups.round import GroupRound
from streaming.collector.outcome import SourceOutcome
from streaming.collector.problem import Problem
from streaming.collector.scraping.scrape import Scraped, scrape_all
from streaming.collector.sources.groups import GroupSource
from streaming.collector.sources.jmx import MetricsSource, urls
from streaming.collector.wire.connections import CLIENT_ID
from streaming.runtime.config import Config


@dataclass(frozen=True, slots=True)
class Beside:
    """What the collector reads in the background, read once, and the outcome of each source."""

    groups: GroupRound | None  # None if they cannot be read or are switched off
    group_problems: Sequence[Problem]
    scraped: Mapping[int, Scraped]  # by broker
    outcomes: Sequence[SourceOutcome]


def read_beside(config: Config, collector: Collector, observation: CycleResult) -> Beside:
    """Read one round of groups, and the brokers' own metrics."""
    brokers, section = observation.addresses(), config.collector
    with (
        GroupSource(config, CLIENT_ID, background=False) as groups,
        MetricsSource(section, background=False) as metrics,
    ):
        groups.update_metadata(brokers)
        metrics.update_metadata(brokers)
        groups.read_now()
        scraped = scrape_all(urls(section, brokers), section.deadline_ms / 1_000, section)
        failed = [result.problem for result in scraped.values() if result.problem is not None]
        outcomes = collector.outcomes(
            groups,
            metrics,
            problems=(*groups.problems, *failed),
            read={MetricsSource} if len(failed) < len(scraped) else frozenset(),
        )
        return Beside(groups.take(), groups.problems, scraped, outcomes)


def of_sources(outcomes: Iterable[SourceOutcome]) -> Iterator[SourceResult]:
    """One line for each kind of data: ``source log dirs: asked and answered``."""
    for each in outcomes:
        yield SourceResult(f"{each.about.name}: {each}")
