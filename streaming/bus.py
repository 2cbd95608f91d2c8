"""The bus: three Kafka topics between the programs, and how to write to them and read from them.

``observations`` and ``snapshots`` carry frames (``twin.frames``) under the key ``cluster/shard``;
``events`` carries JSON. A topic of the watched cluster lives in one shard, ``shard_of`` its name.
The number of shards is fixed for a deployment: ``check_shards`` compares it with what was recorded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, TopicAlreadyExistsError, for_code
from kafka.partitioner.default import murmur2

from streaming import clients
from streaming.config import Config
from twin import frames
from twin.frames import FrameRefused

BOOTSTRAP_MS: Final = 10_000
"""How long a first connection may take before the error is told."""

EVENTS_RETENTION_MS: Final = 7 * 24 * 3_600_000
MAX_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default; set on the topics, since a cluster may have a lower one for all others."""

_BUFFER_BYTES: Final = 64 << 20
_GIVE_UP_MS: Final = 30_000
_FETCH_BYTES: Final = 16 << 20
_RECENT: Final = 64
"""Records of each partition that are looked at to learn the recorded number of shards."""


class BusError(RuntimeError):
    """The bus cannot be used: one line that says which address or topic, and why."""

    def __init__(self, message: str, *, topic_missing: bool = False) -> None:
        super().__init__(message)
        self.topic_missing = topic_missing


@dataclass(frozen=True, slots=True)
class BusTopics:
    """The names of the bus topics."""

    observations: str
    snapshots: str
    events: str

    def __iter__(self) -> Iterator[str]:
        return iter((self.observations, self.snapshots, self.events))


class Record(NamedTuple):
    """One message as it lies in a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def shard_of(topic: str, shards: int) -> int:
    """The shard a topic of the watched cluster belongs to; Kafka's own hash of its name."""
    return int(murmur2(topic.encode()) & 0x7FFFFFFF) % shards


def key(cluster: str, shard: int) -> bytes:
    """The key of a shard's frames, so that they stay in order in one partition."""
    return f"{cluster}/{shard}".encode()


def topics(config: Config) -> BusTopics:
    """The bus topics of this deployment."""
    prefix = config.bus.prefix
    return BusTopics(f"{prefix}.observations", f"{prefix}.snapshots", f"{prefix}.events")


def settings(config: Config) -> dict[str, Any]:
    """Arguments of any kafka-python client of the bus."""
    section = "bus" if config.bus.bootstrap else "cluster"
    return {
        "bootstrap_servers": [a.strip() for a in config.bus_bootstrap.split(",") if a.strip()],
        "bootstrap_timeout_ms": BOOTSTRAP_MS,
        **clients.settings(config.bus_client, section),
    }


def topic_configs(config: Config) -> dict[str, dict[str, str]]:
    """The settings each bus topic is created with, by topic name."""
    name = topics(config)
    retention_ms = config.bus.observations_retention_ms
    common = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}
    return {
        name.observations: common
        | {
            "cleanup.policy": "delete",
            "retention.ms": str(retention_ms),
            # Only closed segments expire.
            "segment.ms": str(max(60_000, retention_ms // 4)),
        },
        # The log cleaner leaves the active segment alone, and a reader starts at the beginning:
        # small segments and a low dirty ratio keep what it skips to a few minutes of snapshots.
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


def ensure_topics(config: Config) -> None:
    """Create the bus topics that are missing; existing ones are left as they are.

    Raises:
        BusError: the bus cannot be reached, or it refuses to create a topic.
    """
    wanted = {
        name: {
            "num_partitions": config.bus.partitions,
            "replication_factor": config.bus.replication_factor,
            "configs": configs,
        }
        for name, configs in topic_configs(config).items()
    }
    with _admin(config) as admin:
        try:
            there = {t["name"] for t in admin.describe_topics(list(wanted)) if not t["error_code"]}
            missing = {name: spec for name, spec in wanted.items() if name not in there}
            if missing:
                answer = admin.create_topics(missing, timeout_ms=BOOTSTRAP_MS, raise_errors=False)
                for topic in answer["topics"]:
                    refused = for_code(topic["error_code"])
                    # Another program may have been faster.
                    if topic["error_code"] and refused is not TopicAlreadyExistsError:
                        reason = topic.get("error_message") or refused.__name__
                        raise BusError(f"bus topic {topic['name']}: cannot be created: {reason}")
            admin.wait_for_topics(list(wanted), timeout_ms=BOOTSTRAP_MS)
        except KafkaError as error:
            raise _failed(config, error) from None


def recorded_shards(config: Config) -> int | None:
    """The number of shards in the newest readable frame of this cluster, None if there is none.

    Raises:
        BusError: the bus cannot be reached.
    """
    name = topics(config)
    newest_ms, shards = -1, None
    prefix = f"{config.cluster.name}/".encode()
    for topic in (name.observations, name.snapshots):
        try:
            reader = Reader(config, [topic], _RECENT)
        except BusError as error:
            if error.topic_missing:
                continue
            raise
        with reader:
            deadline = time.monotonic() + BOOTSTRAP_MS / 1000
            while not reader.caught_up() and time.monotonic() < deadline:
                for record in reader.poll(200):
                    if record.value is None or not (record.key or b"").startswith(prefix):
                        continue
                    try:
                        stamp = frames.decode(record.value)[0].stamp
                    except FrameRefused:
                        continue
                    if stamp.observed_at_ms >= newest_ms:
                        newest_ms, shards = stamp.observed_at_ms, stamp.shards
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


class Sender:
    """Writes to the bus. Messages with one key arrive in order; after a retry, perhaps twice.

    A message that the bus has not taken after ``give_up_ms`` is dropped: a newer one will do.
    """

    def __init__(
        self,
        config: Config,
        *,
        buffer_bytes: int = _BUFFER_BYTES,
        give_up_ms: int = _GIVE_UP_MS,
    ) -> None:
        """Connect.

        Raises:
            BusError: the bus cannot be reached.
        """
        self.failures = 0
        self._config = config
        self._buffer_bytes = buffer_bytes
        self._give_up_ms = give_up_ms
        self._lock = threading.Lock()
        self._pending_bytes = 0
        self._failed: tuple[int, str] = (0, "")
        self._producer = self._connected()

    def _connected(self) -> KafkaProducer:
        arguments = {
            "acks": -1,
            # kafka-python's idempotent producer never sends again once a message has expired
            # (measured: a bus away for 40 s). One request at a time keeps the order instead.
            "enable_idempotence": False,
            "max_in_flight_requests_per_connection": 1,
            # Frames are compressed already, and what is left is small.
            "compression_type": None,
            "linger_ms": 5,
            # A cycle's messages go to a partition as one batch: a quarter of the CPU (measured).
            "batch_size": 512 << 10,
            "max_request_size": MAX_MESSAGE_BYTES,
            "max_block_ms": 5_000,
            "request_timeout_ms": self._give_up_ms // 3,
            "delivery_timeout_ms": self._give_up_ms,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            **settings(self._config),
        }
        try:
            return KafkaProducer(**arguments)
        except (KafkaError, OSError, ValueError) as error:
            raise _failed(self._config, error) from None

    def send(self, topic: str, message_key: bytes | None, value: bytes | None) -> None:
        """Hand a message over; ``flush`` tells whether it arrived. Without a value: a tombstone.

        Raises:
            BusError: the buffer is full, or the topic cannot be written to.
        """
        size = len(value or b"") + len(message_key or b"")
        with self._lock:
            if self._pending_bytes + size > self._buffer_bytes:
                self.failures += 1
                raise BusError(
                    f"bus topic {topic}: {self._pending_bytes >> 20} MiB wait to be sent, "
                    "nothing more is taken; is the bus slow or gone?"
                )
            self._pending_bytes += size
        try:
            future = self._producer.send(topic, key=message_key, value=value)
        except (KafkaError, ValueError) as error:
            self._settled(size, topic, error)
            raise BusError(f"bus topic {topic}: {clients.one_line(error)}") from None
        future.add_callback(lambda _: self._settled(size, topic, None))
        future.add_errback(lambda error: self._settled(size, topic, error))

    def _settled(self, size: int, topic: str, error: BaseException | None) -> None:
        with self._lock:
            self._pending_bytes -= size
            if error is not None:
                self.failures += 1
                reason = f"bus topic {topic}: {clients.one_line(error)}"
                self._failed = (self._failed[0] + 1, reason)

    def flush(self, deadline_ms: int) -> None:
        """Wait until everything handed over has arrived.

        Raises:
            BusError: it has not by the deadline (it may still), or messages were refused since the
                last flush.
        """
        late = False
        try:
            self._producer.flush(deadline_ms / 1000)
        except KafkaError:
            late = True
        with self._lock:
            (count, reason), self._failed = self._failed, (0, "")
            pending = self._pending_bytes
        if count:
            raise BusError(f"{count} messages were not sent: {reason}")
        if late:
            raise BusError(
                f"bus {self._config.bus_bootstrap}: {pending} bytes wait after {deadline_ms} ms"
            )

    def close(self, deadline_ms: int = 5_000) -> None:
        """Send what is left, as long as the deadline allows, and disconnect."""
        with suppress(KafkaError):
            self._producer.close(timeout=deadline_ms / 1000)

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Reader:
    """Reads bus topics from a chosen place on, all partitions, without a consumer group.

    Brokers may come and go: ``poll`` then returns nothing until they are back. At most one fetch of
    each broker is held in memory.
    """

    def __init__(
        self, config: Config, names: Sequence[str], start: Literal["beginning", "end"] | int
    ) -> None:
        """Connect and take position: the beginning, the end, or that many records before the end.

        Raises:
            BusError: the bus cannot be reached, or a topic does not exist (``topic_missing``).
        """
        self._config = config
        arguments = {
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "fetch_max_bytes": _FETCH_BYTES,
            "max_partition_fetch_bytes": 4 << 20,
            "request_timeout_ms": 15_000,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            **settings(config),
        }
        try:
            self._consumer = KafkaConsumer(**arguments)
        except (KafkaError, OSError, ValueError) as error:
            raise _failed(config, error) from None
        try:
            self._assign(names, start)
        except KafkaError as error:
            self.close()
            raise _failed(config, error) from None
        except BusError:
            self.close()
            raise

    def _assign(self, names: Sequence[str], start: Literal["beginning", "end"] | int) -> None:
        assigned = []
        for name in names:
            partitions = self._consumer.partitions_for_topic(name)
            if not partitions:
                raise BusError(
                    f"bus {self._config.bus_bootstrap}: there is no topic {name}; "
                    "kafka-twin collect creates it",
                    topic_missing=True,
                )
            assigned += [TopicPartition(name, p) for p in sorted(partitions)]
        self._consumer.assign(assigned)
        first = self._consumer.beginning_offsets(assigned)
        self._ends: dict[TopicPartition, int] = self._consumer.end_offsets(assigned)
        for tp in assigned:
            if start == "beginning":
                place = first[tp]
            elif start == "end":
                place = self._ends[tp]
            else:
                place = max(first[tp], self._ends[tp] - start)
            self._consumer.seek(tp, place)

    def poll(self, timeout_ms: int) -> list[Record]:
        """What has arrived, in order within each partition; empty after the timeout.

        Raises:
            BusError: the topics may not be read.
        """
        try:
            batches = self._consumer.poll(timeout_ms=timeout_ms)
        except KafkaError as error:
            if getattr(error, "retriable", False):
                return []
            raise _failed(self._config, error) from None
        return [
            Record(tp.topic, tp.partition, r.offset, r.key, r.value, r.timestamp)
            for tp, records in batches.items()
            for r in records
        ]

    def caught_up(self) -> bool:
        """Everything that was there when the reader started has been read."""
        return all(
            (self._consumer.position(tp, timeout_ms=1_000) or 0) >= end
            for tp, end in self._ends.items()
        )

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close(autocommit=False)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _admin(config: Config) -> KafkaAdminClient:
    try:
        return KafkaAdminClient(**settings(config))
    except (KafkaError, OSError, ValueError) as error:
        raise _failed(config, error) from None


def _failed(config: Config, error: BaseException) -> BusError:
    return BusError(f"bus {config.bus_bootstrap}: {clients.one_line(error)}")
