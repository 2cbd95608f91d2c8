"""Checks the bus: its topics exist, have the right number of shards, and can be used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError, KafkaError
from kafka.protocol.consumer import HeartbeatRequest, HeartbeatResponse

from streaming.bus import bus_topics, connection
from streaming.bus.connection import BusError, failed
from streaming.bus.reader import Reader
from streaming.bus.sender import Sender
from streaming.bus.shards import with_known_shards
from streaming.checks.bus_settings import of_settings
from streaming.checks.cluster_rights import first_answer, may_not
from streaming.checks.finding import CheckResult, missing, not_known, there
from streaming.checks.rights import Right, right_for, rights
from streaming.collector.wire.connections import CollectorError
from streaming.runtime.config import Config, ConfigError
from twin.arrays.plain import counted

_PROBE_KEY: Final = b"kafka-twin check"
_NO_TALK: Final = "the programs cannot talk to each other"
_POLL_MS: Final = 200
_OLDEST: Final = 0
"""Version of Heartbeat: every one returns an error code."""


_SAME: Final = (
    " are on the watched cluster: nothing newer is known while its brokers do not answer; "
    "bus.bootstrap puts them on another"
)


def of_bus(config: Config) -> Iterator[CheckResult]:
    """Check the bus topics and the rights on them."""
    name = bus_topics.topics(config)
    try:
        bus_topics.ensure_topics(config)
        yield CheckResult(f"bus topics {', '.join(name)}{'' if config.bus.bootstrap else _SAME}")
        described = bus_topics.describe_topics(config)
        yield from _copies(described, _brokers(config))
        yield from of_settings(config, described)
        lacking = _missing_on(config, described)
        for right in lacking:
            yield missing(config, right, essential=True)
        yield _watch_group(config)
        readable = [t for t in name if not _lacks(lacking, "READ", t)]
        if {name.observations, name.snapshots} <= set(readable):
            known = with_known_shards(config)
            yield CheckResult(
                "bus.shards: the collector chooses it at its first start"
                if known is None
                else f"bus.shards = {known.bus.shards}"
            )
        if not _lacks(lacking, "WRITE", name.snapshots):
            with Sender(config) as sender:
                sender.send(name.snapshots, _PROBE_KEY, None)
                sender.flush(config.collector.deadline_ms)
            if not any(right.operation == "WRITE" for right in lacking):
                yield CheckResult("bus topics can be written to")
        for topic in readable:
            with Reader(config, [topic], 1) as reader:
                reader.poll(_POLL_MS)
        if len(readable) == len(list(name)):
            yield CheckResult("bus topics can be read from")
    except (BusError, ConfigError) as error:
        if isinstance(error, BusError) and error.may_not_create:
            yield missing(config, right_for(config, "bus topics"), f": {error}", essential=True)
        else:
            yield CheckResult(str(error), _NO_TALK, essential=True)


def _watch_group(config: Config) -> CheckResult:
    """The right on the group that allows only one ``plan order --watch`` at a time.

    Sends a heartbeat of a member that does not exist. A broker checks the right first, so any
    broker can answer, and nothing is created.
    """
    right = right_for(config, "one watch")
    request = HeartbeatRequest(group_id=right.name, generation_id=-1, member_id="kafka-twin-check")
    try:
        body = first_answer(config, request, _OLDEST, "bus")
    except CollectorError as error:
        raise BusError(str(error)) from None
    if body is None:
        return not_known(right, ", no broker has answered")
    answer = HeartbeatResponse.decode(body, version=_OLDEST)
    if answer.error_code == GroupAuthorizationFailedError.errno:
        return missing(config, right)
    return there(right)


def _brokers(config: Config) -> int:
    """The number of brokers of the bus."""
    try:
        with KafkaAdminClient(**connection.settings(config)) as admin:
            return len(admin.describe_cluster()["brokers"])
    except (KafkaError, OSError, ValueError) as error:
        raise failed(config, error) from None


def _copies(described: Mapping[str, Any], brokers: int) -> Iterator[CheckResult]:
    """Bus topics with partitions that go with one broker, where there are others."""
    single = {
        name: sum(len(p["replica_nodes"]) == 1 for p in topic["partitions"])
        for name, topic in described.items()
    }
    if brokers > 1 and any(single.values()):
        yield CheckResult(
            f"{counted(sum(single.values()), 'bus partition has', 'bus partitions have')} one "
            f"replica, of topics {', '.join(name for name, count in single.items() if count)}",
            "the twin stands still while the broker of one of them is away: reassign them to 3 "
            "brokers, or delete the topics and set bus.replication_factor = 3",
        )


def _missing_on(config: Config, described: Mapping[str, Any]) -> list[Right]:
    """Missing rights on bus topics, as Kafka reports them; a test write would leave records."""
    return [
        r
        for r in rights(config)
        if r.at == "bus" and r.name in described and may_not(r, described[r.name])
    ]


def _lacks(lacking: Iterable[Right], operation: str, topic: str) -> bool:
    return any((r.operation, r.name) == (operation, topic) for r in lacking)
