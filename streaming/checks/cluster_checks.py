"""Checks the watched cluster: the connection, and the completeness of an observation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from streaming.bus import bus_topics
from streaming.bus.connection import BusError
from streaming.bus.shards import why_unfit, with_shards
from streaming.checks.cluster_rights import of_rights
from streaming.checks.finding import CheckResult
from streaming.checks.list_offsets import of_list_offsets
from streaming.checks.rights import WITHOUT, rights
from streaming.checks.source_checks import of_sources, read_beside
from streaming.checks.threshold_checks import of_thresholds
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import CycleResult
from streaming.collector.groups.round import GroupRound
from streaming.collector.problem import TIMEOUT
from streaming.collector.scraping.scrape import Scraped
from streaming.collector.sources.jmx import urls
from streaming.collector.wire.connections import BrokerConnections, CollectorError
from streaming.history.archive.cost import bytes_a_day
from streaming.runtime.config import BusConfig, ClusterConfig, Config, ConfigError
from streaming.runtime.kafka import clients
from twin.arrays.plain import counted
from twin.declarations.table import UNKNOWN
from twin.tables.enums import ReplicaSelector

_UNREACHED: Final = "this address at the start of a program, which uses the others"

_SLOW: Final = (
    "if the network is slow, set collector.deadline_ms, and collector.interval_ms to no less"
)

_ANEW: Final = (
    "costs that follow the size; another number begins with an empty state: set bus.shards, and "
    "another bus.prefix and query.checkpoint"
)


def of_cluster(config: Config) -> Iterator[CheckResult]:
    """Observe once, and say what is available and what is not."""
    section = config.collector
    try:
        with BrokerConnections(
            config.cluster.bootstrap, config.cluster.client, section.deadline_ms
        ) as them:
            collector = Collector(with_shards(config, config.bus.shards or 1), them)
            observation = collector.observe()
            if any(problem.error == TIMEOUT for problem in collector.problems):
                # Logins took a part of the deadline. Programs keep their connections, too.
                observation = collector.observe()
            tiered = (
                ()
                if observation is None
                else tuple(of_list_offsets(observation, them, section.deadline_ms))
            )
            beside = None if observation is None else read_beside(config, collector, observation)
            problems = (*collector.problems, *(() if beside is None else beside.group_problems))
    except (CollectorError, ConfigError) as error:
        yield CheckResult(str(error), "everything", essential=True)
        return
    late = any(problem.error == TIMEOUT for problem in problems)
    if observation is None or beside is None:
        texts = [str(problem) for problem in problems] + ([_SLOW] if late else [])
        yield CheckResult("; ".join(texts), "everything", essential=True)
        return
    yield _connected(config, observation)
    yield from of_addresses(config)
    yield from _shards(config, observation)
    yield from archive_cost(config, len(observation.placement.broker))
    if not len(observation.placement):
        yield CheckResult("topics to watch", "anything to report")
    yield from of_rights(config, len(observation.placement) > 0, problems)
    named = {source for right in rights(config) for source in right.wants}
    for problem in sorted(problems, key=str):
        if not (problem.is_denied and problem.source in named):  # reported above
            yield CheckResult(str(problem), WITHOUT[problem.source])
    if late:
        yield CheckResult(f"answers within {section.deadline_ms} ms: {_SLOW}", "what is late")
    if beside.groups is not None:
        yield _grouped(beside.groups)
    yield from tiered
    yield from of_thresholds(observation)
    if not any(p.is_denied and p.source == "broker configs" for p in problems):
        yield from _selectors(observation)
        yield _fetch_waits(observation)
    yield from of_sources(beside.outcomes)
    yield from _measured(config, observation, beside.scraped)


def of_addresses(config: Config) -> Iterator[CheckResult]:
    """Each of several bootstrap addresses that does not answer by itself."""
    sections: dict[str, ClusterConfig | BusConfig] = {"cluster": config.cluster, "bus": config.bus}
    for name, section in sections.items():
        places = clients.places(section.bootstrap)
        if len(places) < 2:
            continue

        why_not = partial(_why_unreachable, section.client, config.collector.deadline_ms)
        with ThreadPoolExecutor(len(places)) as pool:
            for place, why in zip(places, pool.map(why_not, places), strict=True):
                if why:
                    yield CheckResult(f"{name}.bootstrap {place}: {why}", _UNREACHED)


def _why_unreachable(client: Mapping[str, Any], deadline_ms: int, place: str) -> str:
    """Why a client cannot start with that address alone; empty if it can."""
    try:
        with BrokerConnections(place, client, deadline_ms):
            return ""
    except (CollectorError, ConfigError) as error:
        return str(error).rpartition(f"{place}: ")[2]


def _shards(config: Config, observation: CycleResult) -> Iterator[CheckResult]:
    """Whether the number of shards fits the size of the cluster."""
    try:
        shards = config.bus.shards or bus_topics.recorded_shards(config)
    except BusError:  # the checks of the bus say so
        return
    why = why_unfit(shards, len(observation.placement.broker)) if shards else ""
    if why:
        yield CheckResult(f"a fitting bus.shards: {shards} are {why}", _ANEW)


def archive_cost(config: Config, replicas: int) -> Iterator[CheckResult]:
    """The size of a day of the archive, if an archive is configured."""
    archive = config.archive
    if archive.path:
        day = bytes_a_day(replicas, archive.measurements_ms) / 1e6
        days = archive.retention_ms / 86_400_000
        yield CheckResult(
            f"archive.path = {archive.path}: about {day:.0f} MB a day for {replicas} replicas, and "
            f"{day * days / 1e3:.1f} GB in the {days:.0f} days of archive.retention_ms"
        )


def _selectors(observation: CycleResult) -> Iterator[CheckResult]:
    """The replica selector of each broker (KIP-392)."""
    kinds: dict[int, list[int]] = {}
    for row in observation.brokers.select(["broker", "replica_selector"]).to_pylist():
        kinds.setdefault(row["replica_selector"], []).append(row["broker"])
    for kind, brokers in sorted(kinds.items()):
        who = ", ".join(map(str, brokers))
        what, without = _SELECTORS[kind]
        yield CheckResult(f"replica.selector.class of brokers {who}: {what}", without)


def _fetch_waits(observation: CycleResult) -> CheckResult:
    """Whether followers fetch again before a leader counts them as late (KIP-501).

    A follower's own wait counts against its leader's limit: the shortest limit is compared.
    """
    rows = observation.brokers.select(
        ["broker", "fetch_wait_max_ms", "lag_time_max_ms"]
    ).to_pylist()
    what = "replica.fetch.wait.max.ms below replica.lag.time.max.ms"
    if any(UNKNOWN in row.values() for row in rows):
        without = "whether followers fetch often enough to stay in sync"
        return CheckResult(f"{what} (not read from every broker)", without)
    limit_ms = min((row["lag_time_max_ms"] for row in rows), default=0)
    late = [row["broker"] for row in rows if row["fetch_wait_max_ms"] >= limit_ms]
    if late:
        who = ", ".join(map(str, late))
        return CheckResult(
            f"{what}: brokers {who} wait for the limit of {limit_ms} ms or longer",
            "followers that stay in sync while nothing is written",
        )
    return CheckResult(f"{what} on all brokers")


_SELECTORS: Final = {
    UNKNOWN: ("not read", "which replicas consumers of their partitions read from"),
    ReplicaSelector.LEADER: ("not set, consumers read from leaders", ""),
    ReplicaSelector.RACK_AWARE: ("RackAwareReplicaSelector", ""),
    ReplicaSelector.CUSTOM: (
        "a class that the twin does not know",
        "which replicas consumers of their partitions read from",
    ),
}


def _connected(config: Config, observation: CycleResult) -> CheckResult:
    placement = observation.placement
    return CheckResult(
        f"cluster {config.cluster.name} at {config.cluster.bootstrap}: "
        f"{counted(observation.brokers.num_rows, 'broker')}, "
        f"{counted(len(placement.topic), 'topic')}, {counted(len(placement), 'partition')}, "
        f"{counted(len(placement.broker), 'replica')}"
    )


def _grouped(groups: GroupRound) -> CheckResult:
    """The number of groups, and of those with unknown offsets."""
    unknown = int((groups.error != 0).sum())
    what = counted(len(groups.group), "consumer group")
    what += f" with {counted(len(groups.offsets), 'offset')}"
    unread = f"; offsets of {counted(unknown, 'group')} are unknown" if unknown else ""
    return CheckResult(what + unread)


def _measured(
    config: Config, observation: CycleResult, scraped: Mapping[int, Scraped]
) -> Iterator[CheckResult]:
    """The brokers' own metrics."""
    brokers = observation.addresses()
    url_of = urls(config.collector, brokers)
    if not url_of:
        yield CheckResult("collector.metrics_url is not set", WITHOUT["metrics"])
        return
    for address in brokers:
        if address.broker not in url_of:
            yield CheckResult(f"metrics of broker {address.broker}: no URL", WITHOUT["metrics"])
    for broker, result in scraped.items():
        if result.problem is None:
            by = " and ".join(sorted(rules.value for rules in result.rules))
            yield CheckResult(f"metrics of broker {broker} at {url_of[broker]}, by {by}")
        else:
            yield CheckResult(str(result.problem), WITHOUT["metrics"])
