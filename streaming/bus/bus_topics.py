"""The topics of the bus: their names, settings, creation and number of shards.

``observations`` and ``snapshots`` carry frames (``twin.engine.frames``) under the key
``cluster/shard``; ``events`` carries JSON. A topic of the watched cluster lives in one shard,
``shard_of`` its name. The number of shards is fixed for a deployment: ``check_shards`` compares it
with what was recorded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    KafkaError,
    LeaderNotAvailableError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.partitioner.default import murmur2

from streaming.bus.connection import BOOTSTRAP_MS, BusError, failed, settings
from streaming.bus.reader import Reader
from streaming.runtime.config import MAX_MESSAGE_BYTES, Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.kafka import topic_settings
from streaming.runtime.kafka.clients import TOPIC_NOT_ALLOWED
from twin.engine import frames
from twin.engine.frames import InvalidFrame

EVENTS_RETENTION_MS: Final = 7 * 24 * 3_600_000
_AGAIN_S: Final = 0.1
_NOT_YET_KNOWN: Final = (UnknownTopicOrPartitionError.errno, LeaderNotAvailableError.errno)
_OF_SETTINGS: Final = (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    PolicyViolationError,
)
"""Error codes with which brokers refuse the settings of a topic. Services differ in which one."""

_RECENT: Final = 64
"""Records of each partition that are read to find the recorded number of shards."""


@dataclass(frozen=True, slots=True)
class BusTopics:
    """The names of the bus topics."""

    observations: str
    snapshots: str
    events: str

    def __iter__(self) -> Iterator[str]:
        return iter((self.observations, self.snapshots, self.events))


def shard_of(topic: str, shards: int) -> int:
    """The shard a topic of the watched cluster belongs to; Kafka's own hash of its name."""
    return int(murmur2(topic.encode()) & 0x7FFFFFFF) % shards


def topics(config: Config) -> BusTopics:
    """The bus topics of this deployment."""
    prefix = config.bus.prefix
    return BusTopics(f"{prefix}.observations", f"{prefix}.snapshots", f"{prefix}.events")


def own_topics(config: Config) -> tuple[str, ...]:
    """The bus topics that are among the topics of the watched cluster."""
    return () if config.bus.bootstrap else tuple(topics(config))


def watch_group(config: Config) -> str:
    """The consumer group of which one ``plan order --watch`` is a member."""
    return f"{config.bus.prefix}.plan-order.{config.cluster.name}"


def topic_configs(config: Config) -> dict[str, dict[str, str]]:
    """The settings each bus topic is created with, by topic name; ``bus.topics`` wins."""
    name = topics(config)
    retention_ms = config.bus.observations_retention_ms
    common = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}
    ours = {
        name.observations: common
        | {
            "cleanup.policy": "delete",
            "retention.ms": str(retention_ms),
            # Only closed segments expire.
            "segment.ms": str(max(60_000, retention_ms // 4)),
        },
        # The log cleaner leaves the active segment alone, and a reader starts at the beginning:
        # with small segments and a low dirty ratio it skips only a few minutes of snapshots.
        name.snapshots: common
        | {
            "cleanup.policy": "compact",
            "segment.ms": "120000",
            "segment.bytes": str(64 << 20),
            "min.cleanable.dirty.ratio": "0.05",
            "max.compaction.lag.ms": "300000",
            "delete.retention.ms": "3600000",
        },
        name.events: common
        | {"cleanup.policy": "delete", "retention.ms": str(EVENTS_RETENTION_MS)},
    }
    given = config.bus.topics
    return {
        topic: topic_settings.laid_over(settings, over)
        for (topic, settings), over in zip(
            ours.items(), (given.observations, given.snapshots, given.events), strict=True
        )
    }


def ensure_topics(config: Config) -> None:
    """Create the bus topics that are missing; existing ones are left as they are.

    Raises:
        BusError: as ``create_missing``.
    """
    create_missing(
        config,
        {
            name: {
                "num_partitions": config.bus_partitions,
                "replication_factor": config.bus.replication_factor,
                "configs": configs,
            }
            for name, configs in topic_configs(config).items()
        },
    )


def create_missing(config: Config, specs: Mapping[str, Mapping[str, Any]]) -> None:
    """Create those of these topics of the bus that are missing; existing ones are left alone.

    Topics that this user may not see are left to other users: not every program needs all.

    Args:
        config: names the bus.
        specs: as kafka-python's ``create_topics`` takes them, by name.

    Raises:
        BusError: the bus cannot be reached, or it refuses to create a topic.
    """
    with _admin(config) as admin:
        try:
            error_codes = {t["name"]: t["error_code"] for t in admin.describe_topics(list(specs))}
            missing = {name: spec for name, spec in specs.items() if error_codes.get(name) != 0}
            hidden = {name for name, code in error_codes.items() if code == TOPIC_NOT_ALLOWED}
            if missing:
                answer = admin.create_topics(missing, timeout_ms=BOOTSTRAP_MS, raise_errors=False)
                for topic in answer["topics"]:
                    if not (topic["name"] in hidden and topic["error_code"] == TOPIC_NOT_ALLOWED):
                        _refuse(topic)
            admin.wait_for_topics(sorted(specs.keys() - hidden), timeout_ms=BOOTSTRAP_MS)
        except KafkaError as error:
            raise failed(config, error) from None


def describe_topics(config: Config) -> dict[str, Mapping[str, Any]]:
    """The bus topics as a broker describes them, by name.

    A broker that has not yet read of a new topic describes it without partitions, so it is asked
    until it knows all topics.

    Raises:
        BusError: the bus cannot be reached, or a topic is not known within its deadline.
    """
    deadline = Deadline.after_ms(BOOTSTRAP_MS)
    with _admin(config) as admin:
        while True:
            try:
                described = {t["name"]: t for t in admin.describe_topics(list(topics(config)))}
            except KafkaError as error:
                raise failed(config, error) from None
            unknown = [name for name, t in described.items() if t["error_code"] in _NOT_YET_KNOWN]
            if not unknown:
                return described
            if deadline.is_over:
                raise BusError(
                    f"bus {config.bus_bootstrap}: it does not describe topic {', '.join(unknown)} "
                    f"within {BOOTSTRAP_MS / 1_000:g} s: does its broker follow the controller?"
                )
            time.sleep(_AGAIN_S)


def _refuse(created: Mapping[str, Any]) -> None:
    """Raise a ``BusError`` if the topic was not created."""
    name, code = created["name"], created["error_code"]
    if code == TOPIC_NOT_ALLOWED:
        raise BusError(
            f"bus topic {name}: it is not there, and may not be created: grant CREATE, or create "
            "it yourself (docs/security.md)",
            may_not_create=True,
        )
    # Another program may have created it meanwhile.
    if code and for_code(code) is not TopicAlreadyExistsError:
        error = for_code(code)
        reason = " ".join((created.get("error_message") or error.__name__).split()).rstrip(".")
        advice = ""
        if error in _OF_SETTINGS:
            advice = f": {topic_settings.advice(name.rpartition('.')[2], reason)}"
        raise BusError(f"bus topic {name}: cannot be created: {reason}{advice}")


def recorded_shards(config: Config, *, snapshots_only: bool = False) -> int | None:
    """The number of shards in the newest readable frame of this cluster, None if there is none.

    Args:
        config: names the bus and the cluster.
        snapshots_only: for readers, which need no right to read observations.

    Raises:
        BusError: the bus cannot be reached.
    """
    name = topics(config)
    newest_ms, shards = -1, None
    prefix = f"{config.cluster.name}/".encode()
    for topic in (name.snapshots,) if snapshots_only else (name.observations, name.snapshots):
        try:
            reader = Reader(config, [topic], _RECENT, known_within_s=0)
        except BusError as error:
            if error.topic_missing:
                continue
            raise
        with reader:
            deadline = Deadline.after_ms(BOOTSTRAP_MS)
            while not reader.caught_up() and not deadline.is_over:
                for record in reader.poll(200):
                    if record.value is None or not (record.key or b"").startswith(prefix):
                        continue
                    try:
                        header = frames.headers(record.value)[0][0]
                    except InvalidFrame:
                        continue
                    if header.observed_at_ms >= newest_ms:
                        newest_ms, shards = header.observed_at_ms, header.shards
    return shards


def check_shards(config: Config) -> None:
    """Refuse to start with another number of shards than the bus already holds.

    Raises:
        BusError: they differ; says both numbers and what to do.
    """
    recorded = recorded_shards(config)
    if recorded is not None and recorded != config.bus.shards:
        raise BusError(
            f"bus.shards is {config.bus.shards}, but the topics {config.bus.prefix}.* of cluster "
            f"{config.cluster.name} were written with {recorded}: set bus.shards = {recorded}, "
            "or choose another bus.prefix (and checkpoint) to start anew"
        )


def _admin(config: Config) -> KafkaAdminClient:
    try:
        return KafkaAdminClient(**settings(config))
    except (KafkaError, OSError, ValueError) as error:
        raise failed(config, error) from None
