"""``kafka-twin check``: is everything there that the twin needs, and what does it go without?

It connects as the programs do and makes one observation, so that what it says is what they will
find. It writes nothing but the bus topics, where they are missing, and one tombstone that is
compacted away.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TextIO
from uuid import uuid4

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming import bus, clients
from streaming.bus import BusError, Reader, Sender
from streaming.bus_clients import failed
from streaming.collector.brokers import Address, Brokers, CollectorError
from streaming.collector.cycle import Collector
from streaming.collector.jmx import ask_all, urls
from streaming.collector.observation import Observation
from streaming.collector.topics import Topics
from streaming.config import Config, ConfigError
from streaming.local.jars import JarError, java
from streaming.query.remote_rights import why_not_readable
from streaming.rights import WITHOUT, Right, right_for, rights

_PROBE_KEY: Final = b"kafka-twin check"
_NO_TALK: Final = "the programs cannot talk to each other"
_NOT_ALLOWED: Final = "AuthorizationFailed"
"""In the name of each of Kafka's errors that says so."""

_MOST_NAMES: Final = 5
_POLL_MS: Final = 200


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
        yield Finding("topics to watch", "anything to tell")
    yield from _rights(config, observation, causes)
    for cause, why in sorted(causes.items()):
        if _NOT_ALLOWED not in why and _want(cause) != "local start timestamps":  # told above
            yield Finding(f"{cause}: {why.removeprefix(f'{cause}: ')}", _without(cause))
    yield from _measured(config, observation)


def _rights(
    config: Config, observation: Observation, causes: Mapping[str, str]
) -> Iterator[Finding]:
    """One line a right: as the observation found it, or as Kafka says where none would show."""
    incomplete = {_want(cause) for cause in causes}
    refused = {_want(cause) for cause, why in causes.items() if _NOT_ALLOWED in why}
    arguments = clients.arguments(config.cluster.bootstrap, config.cluster.client, "cluster")
    try:
        with KafkaAdminClient(**arguments) as admin:
            for right in rights(config):
                if right.at == "bus":
                    continue
                if "topics" in right.wants and _is_hidden(admin):
                    yield _missing(right)
                elif "request logs" in right.wants:
                    yield _of_the_tap(right, admin)
                elif right.of_any_topic and not len(observation.listing.placement):
                    yield _missing(right, ": not known, there is no topic to ask of")
                elif "local start timestamps" in right.wants:
                    yield _timestamps(config, right, admin)
                elif "remote segments" in right.wants:
                    yield _remote_segments(config, right)
                elif refused & set(right.wants):
                    yield _missing(right)
                elif not incomplete & set(right.wants):
                    yield _there(right)
    except (KafkaError, OSError, ValueError) as error:
        yield Finding(f"rights: {clients.one_line(error)}", "saying which are missing")


def _missing(right: Right, more: str = "", *, essential: bool = False) -> Finding:
    return Finding(f"{right}{more}", right.without, essential)


def _there(right: Right) -> Finding:
    return Finding(f"{right}: {', '.join(right.wants)}")


def _is_hidden(admin: KafkaAdminClient) -> bool:
    """A topic that nobody has named may not be described: others may be there, unseen."""
    [told] = admin.describe_topics([f"kafka-twin-check-{uuid4().hex}"])
    return bool(told["error_code"] == clients.TOPIC_NOT_ALLOWED)


def _of_the_tap(right: Right, admin: KafkaAdminClient) -> Finding:
    """Asked, not tried: to try is to alter."""
    allowed: Any = admin.describe_cluster().get("authorized_operations")
    if not allowed:  # Kafka says nothing to those who may not describe the cluster
        return _missing(right, ": not known without DESCRIBE on the cluster")
    return _there(right) if right.operation in allowed else _missing(right)


def _timestamps(config: Config, right: Right, admin: KafkaAdminClient) -> Finding:
    """All topics at once; an observation reads some at a time."""
    if not config.collector.timestamps:
        return Finding("collector.timestamps is off", right.without)
    wanted = Topics(config, "check").wanted
    watched = [t for t in admin.describe_topics() if not t["error_code"] and wanted(t["name"])]
    apart = {other.name for other in rights(config)}  # these have lines of their own
    denied = sorted(t["name"] for t in watched if _may_not(right, t) and t["name"] not in apart)
    if not denied:
        return _there(right)
    some = ", ".join(denied[:_MOST_NAMES]) + (", ..." if len(denied) > _MOST_NAMES else "")
    return _missing(right, f" ({len(denied)} of {len(watched)}: {some})")


def _may_not(right: Right, topic: Mapping[str, Any]) -> bool:
    """Kafka says so; before 2.3 it says nothing."""
    allowed: Any = topic.get("authorized_operations")
    return topic["error_code"] == clients.TOPIC_NOT_ALLOWED or (
        bool(allowed) and right.operation not in allowed
    )


def _remote_segments(config: Config, right: Right) -> Finding:
    """Kafka's own topic of remote segments, which the query reads."""
    if not config.query.remote_log_metadata:
        return Finding("query.remote_log_metadata is off", right.without)
    return _missing(right) if why_not_readable(config) else _there(right)


def _measured(config: Config, observation: Observation) -> Iterator[Finding]:
    """The brokers' own metrics."""
    told = observation.brokers.select(["broker", "host"]).to_pylist()
    places = [(row["broker"], *row["host"].rpartition(":")[::2]) for row in told]
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


def _connected(config: Config, observation: Observation) -> Finding:
    placement = observation.listing.placement
    return Finding(
        f"cluster {config.cluster.name} at {config.cluster.bootstrap}: "
        f"{observation.brokers.num_rows} brokers, {len(placement.topic)} topics, "
        f"{len(placement)} partitions, {len(placement.broker)} replicas"
    )


def _want(cause: str) -> str:
    """What the twin wanted to do, by the beginning of a collector's cause."""
    return max((want for want in WITHOUT if cause.startswith(want)), key=len, default="")


def _without(cause: str) -> str:
    return WITHOUT.get(_want(cause), "part of an observation")


def of_bus(config: Config) -> Iterator[Finding]:
    """The bus topics: there, of the right number of shards, written to and read from."""
    name = bus.topics(config)
    try:
        bus.ensure_topics(config)
        yield Finding(f"bus topics {', '.join(name)}")
        missing = _missing_on(config)
        for right in missing:
            yield _missing(right, essential=True)
        readable = [t for t in name if not _lacks(missing, "READ", t)]
        if {name.observations, name.snapshots} <= set(readable):
            bus.check_shards(config)
            yield Finding(f"bus.shards = {config.bus.shards}")
        if not _lacks(missing, "WRITE", name.snapshots):
            with Sender(config) as sender:
                sender.send(name.snapshots, _PROBE_KEY, None)
                sender.flush(config.collector.deadline_ms)
            if not any(right.operation == "WRITE" for right in missing):
                yield Finding("bus topics can be written to")
        for topic in readable:
            with Reader(config, [topic], 1) as reader:
                reader.poll(_POLL_MS)
        if len(readable) == len(list(name)):
            yield Finding("bus topics can be read from")
    except (BusError, ConfigError) as error:
        if isinstance(error, BusError) and error.may_not_create:
            yield _missing(right_for(config, "bus topics"), f": {error}", essential=True)
        else:
            yield Finding(str(error), _NO_TALK, essential=True)


def _missing_on(config: Config) -> list[Right]:
    """The rights on bus topics that Kafka says are missing: to write is to leave something."""
    try:
        with KafkaAdminClient(**bus.settings(config)) as admin:
            told = {t["name"]: t for t in admin.describe_topics(list(bus.topics(config)))}
    except (KafkaError, OSError, ValueError) as error:
        raise failed(config, error) from None
    return [
        r for r in rights(config) if r.at == "bus" and r.name in told and _may_not(r, told[r.name])
    ]


def _lacks(missing: Iterable[Right], operation: str, topic: str) -> bool:
    return any((r.operation, r.name) == (operation, topic) for r in missing)


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
