"""Checks the watched cluster: the connection, and what an observation lacks."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.checks.cluster_rights import NOT_ALLOWED, of_rights, wanted_by
from streaming.checks.finding import Finding
from streaming.checks.rights import WITHOUT
from streaming.collector.brokers import Address, Brokers, CollectorError
from streaming.collector.cycle import Collector
from streaming.collector.jmx import ask_all, urls
from streaming.collector.observation import Observation
from streaming.runtime.config import Config, ConfigError


def of_cluster(config: Config) -> Iterator[Finding]:
    """Findings of one observation: what is available and what is not."""
    section = config.collector
    try:
        with Brokers(config.cluster.bootstrap, config.cluster.client, section.deadline_ms) as them:
            collector = Collector(config, them)
            observation = collector.observe()
            causes = dict(collector.causes)
    except (CollectorError, ConfigError) as error:
        yield Finding(str(error), "everything", essential=True)
        return
    if observation is None:
        yield Finding("; ".join(causes.values()), "everything", essential=True)
        return
    yield _connected(config, observation)
    if not len(observation.listing.placement):
        yield Finding("topics to watch", "anything to tell")
    yield from of_rights(config, len(observation.listing.placement) > 0, causes)
    for cause, why in sorted(causes.items()):
        if NOT_ALLOWED not in why and wanted_by(cause) != "local start timestamps":  # told above
            yield Finding(
                f"{cause}: {why.removeprefix(f'{cause}: ')}",
                WITHOUT.get(wanted_by(cause), "part of an observation"),
            )
    yield from _measured(config, observation)


def _connected(config: Config, observation: Observation) -> Finding:
    placement = observation.listing.placement
    return Finding(
        f"cluster {config.cluster.name} at {config.cluster.bootstrap}: "
        f"{observation.brokers.num_rows} brokers, {len(placement.topic)} topics, "
        f"{len(placement)} partitions, {len(placement.broker)} replicas"
    )


def _measured(config: Config, observation: Observation) -> Iterator[Finding]:
    """The brokers' own metrics."""
    rows = observation.brokers.select(["broker", "host"]).to_pylist()
    places = [(row["broker"], *row["host"].rpartition(":")[::2]) for row in rows]
    brokers = [Address(b, host, int(port or -1), rack="") for b, host, port in places]
    asked = urls(config.collector, brokers)
    if not asked:
        yield Finding("collector.metrics_url is not set", WITHOUT["metrics"])
        return
    for address in brokers:
        if address.broker not in asked:
            yield Finding(f"metrics of broker {address.broker}: no URL", WITHOUT["metrics"])
    for broker, answer in ask_all(asked, config.collector.deadline_ms / 1_000).items():
        what = f"metrics of broker {broker} at {asked[broker]}"
        if answer.problem:
            yield Finding(f"{what}: {answer.problem}", WITHOUT["metrics"])
        else:
            yield Finding(what)
