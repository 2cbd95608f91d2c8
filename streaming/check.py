"""``kafka-twin check``: is everything there that the twin needs, and what does it go without?

It connects as the programs do and makes one observation, so that what it says is what they will
find. It writes nothing but the bus topics, where they are missing, and one tombstone that is
compacted away.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming import bus, clients
from streaming.bus import BusError, Reader, Sender
from streaming.collector.brokers import Address, Brokers, CollectorError
from streaming.collector.cycle import Collector
from streaming.collector.jmx import ask_all, urls
from streaming.collector.observation import Observation
from streaming.config import Config, ConfigError
from streaming.local.jars import JarError, java
from streaming.query.remote_metadata import TOPIC
from streaming.query.remote_rights import why_not_readable

_PROBE_KEY: Final = b"kafka-twin check"

_WITHOUT: Final = {
    "broker": "what its replicas say of themselves; their last values age",
    "log dirs": "local bytes, so that thresholds in bytes are assumed to be met "
    "(right: DESCRIBE on the cluster)",
    "reassignments": "marks of replicas that come or go (right: DESCRIBE on the cluster)",
    "eligible leader replicas": "eligible leader replicas, in predictions too",
    "topic configs": "min.insync.replicas and retention of such topics "
    "(right: DESCRIBE_CONFIGS on topics)",
    "broker configs": "replica.lag.time.max.ms and what else the cluster sets "
    "(right: DESCRIBE_CONFIGS on the cluster)",
    "local start timestamps": "when a replica's oldest local record was written, so that "
    "thresholds in time are assumed to be met (right: READ on the topic)",
    "thresholds": "the thresholds of such topics",
    "leader epoch histories": "which remote segments of such topics belong to their logs "
    "(right: DESCRIBE on the topic)",
    "remote segments": "findings on remote segments: orphans, gaps, uploads that never ended "
    "(right: READ on __remote_log_metadata)",
    "metrics": "what the broker measures itself: fetch times, request queue, remote reads, uploads",
}
"""What the twin goes without, by the beginning of a collector's cause."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``without`` is empty if it is there."""

    what: str
    without: str = ""
    essential: bool = False

    def __str__(self) -> str:
        return f"missing: {self.what} -> {self.without}" if self.without else f"ok: {self.what}"


def check(config: Config, out: TextIO) -> bool:
    """Print what is there and what is missing; returns whether the twin can run at all."""
    usable = True
    for findings in (of_cluster(config), of_bus(config), of_machine()):
        for finding in findings:
            print(finding, file=out, flush=True)
            usable &= not (finding.without and finding.essential)
    return usable


def of_cluster(config: Config) -> Iterator[Finding]:
    """The watched cluster: connection, and what one observation lacks."""
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
        yield Finding(
            "topics to watch",
            "anything to tell; if there are topics, the right is DESCRIBE on them",
        )
    for cause, why in sorted(causes.items()):
        if cause == "local start timestamps":
            continue  # told below, with all topics
        yield Finding(f"{cause}: {why.removeprefix(f'{cause}: ')}", _without(cause))
    for topic in ("log dirs", "reassignments", "topic configs", "broker configs"):
        if not any(cause.startswith(topic) for cause in causes):
            yield Finding(f"{topic} can be read")
    yield from _measured(config, observation)
    yield _remote_segments(config)
    if section.timestamps:
        yield from _readable(config)
    else:
        yield Finding("collector.timestamps is off", _WITHOUT["local start timestamps"])


def _measured(config: Config, observation: Observation) -> Iterator[Finding]:
    """The brokers' own metrics."""
    told = observation.brokers.select(["broker", "host"]).to_pylist()
    places = [(row["broker"], *row["host"].rpartition(":")[::2]) for row in told]
    brokers = [Address(b, host, int(port or -1), rack="") for b, host, port in places]
    asked = urls(config.collector, brokers)
    if not asked:
        yield Finding("collector.metrics_url is not set", _WITHOUT["metrics"])
        return
    for address in brokers:
        if address.broker not in asked:
            yield Finding(f"metrics of broker {address.broker}: no URL", _WITHOUT["metrics"])
    for broker, answer in ask_all(asked, config.collector.deadline_ms / 1_000).items():
        what = f"metrics of broker {broker} at {asked[broker]}"
        if answer.problem:
            yield Finding(f"{what}: {answer.problem}", _WITHOUT["metrics"])
        else:
            yield Finding(what)


def _remote_segments(config: Config) -> Finding:
    """Kafka's own topic of remote segments, which the query reads."""
    if not config.query.remote_log_metadata:
        return Finding("query.remote_log_metadata is off", _WITHOUT["remote segments"])
    if problem := why_not_readable(config):
        return Finding(f"{TOPIC}: {problem}", _WITHOUT["remote segments"])
    return Finding(f"{TOPIC} can be read, or is not there yet")


def _connected(config: Config, observation: Observation) -> Finding:
    placement = observation.listing.placement
    return Finding(
        f"cluster {config.cluster.name} at {config.cluster.bootstrap}: "
        f"{observation.brokers.num_rows} brokers, {len(placement.topic)} topics, "
        f"{len(placement)} partitions, {len(placement.broker)} replicas"
    )


def _without(cause: str) -> str:
    matches = [prefix for prefix in _WITHOUT if cause.startswith(prefix)]
    return _WITHOUT[max(matches, key=len)] if matches else "part of an observation"


def _readable(config: Config) -> Iterator[Finding]:
    """READ on the topics, which only the timestamps need."""
    arguments = bus.settings(config) if not config.bus.bootstrap else {
        "bootstrap_servers": [a.strip() for a in config.cluster.bootstrap.split(",")],
        **clients.settings(config.cluster.client, "cluster"),
    }  # fmt: skip
    try:
        with KafkaAdminClient(**arguments) as admin:
            denied = sorted(
                t["name"]
                for t in admin.describe_topics()
                if t.get("authorized_operations") and "READ" not in _names(t)
            )
    except (KafkaError, OSError, ValueError) as error:
        yield Finding(f"rights on topics: {clients.one_line(error)}", "saying which are missing")
        return
    if denied:
        some = ", ".join(denied[:5]) + (", ..." if len(denied) > 5 else "")
        yield Finding(f"READ on {len(denied)} topics ({some})", _WITHOUT["local start timestamps"])
    else:
        yield Finding("topics can be read, for the time of their oldest local record")


def _names(topic: dict[str, object]) -> set[str]:
    operations = topic["authorized_operations"]
    assert isinstance(operations, (list, set, tuple))
    return {getattr(o, "name", str(o)).upper() for o in operations}


def of_bus(config: Config) -> Iterator[Finding]:
    """The bus topics: there, of the right number of shards, written to and read from."""
    name = bus.topics(config)
    try:
        bus.ensure_topics(config)
        yield Finding(f"bus topics {', '.join(name)}")
        bus.check_shards(config)
        yield Finding(f"bus.shards = {config.bus.shards}")
        with Sender(config) as sender:
            sender.send(name.snapshots, _PROBE_KEY, None)
            sender.flush(config.collector.deadline_ms)
        yield Finding("bus topics can be written to")
        for topic in name:
            with Reader(config, [topic], 1) as reader:
                reader.poll(500)
        yield Finding("bus topics can be read from")
    except (BusError, ConfigError) as error:
        yield Finding(str(error), "the programs cannot talk to each other", essential=True)


def of_machine() -> Iterator[Finding]:
    """What the Spark query needs on this machine; the other programs run without."""
    here = "kafka-twin stream, run and demo on this machine"
    try:
        yield Finding(f"Java: {java()}")
    except JarError as error:
        yield Finding(str(error), here)
    if importlib.util.find_spec("pyspark") is not None:
        yield Finding("PySpark is installed")
    else:
        yield Finding("PySpark: pip install 'kafka-twin[spark]'", here)
