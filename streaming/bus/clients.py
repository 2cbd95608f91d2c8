"""Clients of the bus: a sender and a reader, which both survive outages of the bus."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    StaleMetadata,
)

from streaming.bus.keys import Record
from streaming.runtime.config import MAX_MESSAGE_BYTES, Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from streaming.runtime.kafka import clients
from twin.arrays.plain import counted

BOOTSTRAP_MS: Final = 10_000
"""How long the first connection may take before it fails with an error."""

_BUFFER_BYTES: Final = 64 << 20
_GIVE_UP_MS: Final = 30_000
_FETCH_BYTES: Final = 16 << 20
_FETCH_WAIT_MS: Final = 1_000
"""How long a broker keeps a fetch that finds nothing. A look (``_LOOK_MS``) waits behind it."""


@dataclass(frozen=True, slots=True)
class Since:
    """Where a reader begins: at the first record written at or after a Unix time."""

    at_ms: int


Start = Literal["beginning", "end"] | int | Since
"""Where a reader begins; a number: so many records before the end of each partition."""

KNOWN_WITHIN_S: Final = 2.0
"""Time in which all brokers know a new topic; they learn of it within some hundred milliseconds."""

_AGAIN_S: Final = 0.1

_LOOK_EVERY_S: Final = 5.0
"""How often a reader without records checks that its topics exist and may be described."""

_LOOK_MS: Final = 2_000
"""Short, since a reader that looks at another topic delays its own records."""


_UNREACHABLE: Final = (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    StaleMetadata,
    OSError,
)
"""Errors of kafka-python when no broker answers: which one depends on what it waits for."""


class BusError(UserError, RuntimeError):
    """The bus cannot be used: one line that says which address or topic, and why."""

    def __init__(
        self,
        message: str,
        *,
        topic_missing: bool = False,
        may_not_create: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message)
        self.unreachable = unreachable  # nobody answers
        self.topic_missing = topic_missing
        self.may_not_create = may_not_create


def settings(config: Config) -> dict[str, Any]:
    """Arguments of any kafka-python client of the bus."""
    section = "bus" if config.bus.bootstrap else "cluster"
    return {
        clients.BOOTSTRAP_TIMEOUT: BOOTSTRAP_MS,
        **clients.arguments(config.bus_bootstrap, config.bus_client, section),
    }


class Sender:
    """Writes to the bus. Messages with the same key arrive in order; after a retry, perhaps twice.

    A message that is not written within ``give_up_ms`` is dropped: a newer one replaces it.
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
            # Frames are compressed already, and the other messages are small.
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
            raise failed(self._config, error) from None

    def send(self, topic: str, message_key: bytes | None, value: bytes | None) -> None:
        """Buffer a message; ``flush`` reports whether it arrived. None as value is a tombstone.

        Raises:
            BusError: the buffer is full, or the topic cannot be written to.
        """
        size = len(value or b"") + len(message_key or b"")
        with self._lock:
            if self._pending_bytes + size > self._buffer_bytes:
                self.failures += 1
                raise BusError(
                    f"bus topic {topic}: {self._pending_bytes >> 20} MiB wait in the send buffer, "
                    "which is full; is the bus slow or gone?"
                )
            self._pending_bytes += size
        try:
            future = self._producer.send(topic, key=message_key, value=value)
        except (KafkaError, ValueError) as error:
            self._on_delivery(size, topic, error)
            raise BusError(f"bus topic {topic}: {clients.one_line(error)}") from None
        future.add_callback(lambda _: self._on_delivery(size, topic, None))
        future.add_errback(lambda error: self._on_delivery(size, topic, error))

    def _on_delivery(self, size: int, topic: str, error: BaseException | None) -> None:
        with self._lock:
            self._pending_bytes -= size
            if error is not None:
                self.failures += 1
                reason = f"bus topic {topic}: {clients.one_line(error)}"
                self._failed = (self._failed[0] + 1, reason)

    def flush(self, deadline_ms: int) -> None:
        """Wait until all buffered messages have arrived.

        Raises:
            BusError: messages have not arrived by the deadline (they still may), or were refused
            since the last flush.
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
            raise BusError(f"{counted(count, 'message was', 'messages were')} not sent: {reason}")
        if late:
            raise BusError(
                f"bus {self._config.bus_bootstrap}: {pending} bytes wait after {deadline_ms} ms"
            )

    def close(self, deadline_ms: int = 5_000) -> None:
        """Send what is buffered, until the deadline, and disconnect."""
        with suppress(KafkaError):
            self._producer.close(timeout=deadline_ms / 1000)

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Reader:
    """Reads all partitions of bus topics from a given position, without a consumer group.

    Brokers may come and go: ``poll`` then returns nothing until they are back. At most one fetch of
    each broker is held in memory.
    """

    def __init__(
        self, config: Config, names: Sequence[str], start: Start | Mapping[str, Start],
        until: Since | None = None, *, known_within_s: float = KNOWN_WITHIN_S,
    ) -> None:  # fmt: skip
        """Connect and take position, the same in all topics or each topic's own.

        Args:
            config: names the bus.
            names: of the topics.
            start: where to begin.
            until: has ``caught_up`` once what was written before then is read.
            known_within_s: time in which a topic that is there is known to the broker that is
                asked.

        Raises:
            BusError: the bus cannot be reached, or a topic does not exist (``topic_missing``).
        """
        self._config = config
        self._names, self._look_at_s = names, 0.0
        self._others: dict[str, Set[int]] = {}  # partitions of topics that are only looked at
        self.leaderless = ""  # a partition that it reads and that nobody led at the last look
        arguments = {
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "fetch_max_bytes": _FETCH_BYTES,
            "fetch_max_wait_ms": _FETCH_WAIT_MS,
            "max_partition_fetch_bytes": 4 << 20,
            "request_timeout_ms": 15_000,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            **settings(config),
        }
        try:
            self._consumer = KafkaConsumer(**arguments)
        except (KafkaError, OSError, ValueError) as error:
            raise failed(config, error) from None
        try:
            self._assign(self._known_partitions(known_within_s), start, until)
        except KafkaError as error:
            self.close()
            raise failed(config, error) from None
        except BusError:
            self.close()
            raise

    def _partitions(self) -> list[TopicPartition]:
        """The partitions to read, from the client's metadata; requests it if there is none."""
        assigned = []
        for name in self._names:
            partitions = self._consumer.partitions_for_topic(name)
            if not partitions:
                raise BusError(
                    f"bus {self._config.bus_bootstrap}: there is no topic {name}, or no right to "
                    "see it; kafka-twin collector creates it, kafka-twin check lists the rights",
                    topic_missing=True,
                )
            assigned += [TopicPartition(name, p) for p in sorted(partitions)]
        return assigned

    def _known_partitions(self, within_s: float) -> list[TopicPartition]:
        """The partitions to read. A broker learns of a new topic later than the one that created
        it, so a topic is missing if none of those that are asked knows it within that time."""
        deadline = Deadline.after_s(within_s)
        while True:
            try:
                return self._partitions()
            except BusError:
                if deadline.is_over:
                    raise
            time.sleep(_AGAIN_S)

    def _assign(
        self,
        assigned: list[TopicPartition],
        starts: Start | Mapping[str, Start],
        until: Since | None,
    ) -> None:
        self._consumer.assign(assigned)
        self._starts: dict[TopicPartition, int] = {}
        try:
            first = self._consumer.beginning_offsets(assigned)
            self._ends: dict[TopicPartition, int] = self._consumer.end_offsets(assigned)
        except KeyError as error:  # kafka-python leaves out what nobody leads
            raise BusError(
                f"bus {self._config.bus_bootstrap}: nobody leads {_named(error.args[0])}: is its "
                "broker away? With bus.replication_factor = 3 another one would lead"
            ) from None
        if until:
            later = self._consumer.offsets_for_times(dict.fromkeys(assigned, until.at_ms))
            self._ends |= {tp: found.offset for tp, found in later.items() if found}
        for tp in assigned:
            start = starts[tp.topic] if isinstance(starts, Mapping) else starts
            place = self._place(tp, start, first[tp], self._ends[tp])
            self._consumer.seek(tp, place)
            self._starts[tp] = place

    def _place(self, tp: TopicPartition, start: Start, first: int, end: int) -> int:
        """The offset of a partition at which to begin."""
        match start:
            case "beginning":
                return first
            case "end":
                return end
            case Since():
                found = self._consumer.offsets_for_times({tp: start.at_ms})[tp]
                return end if found is None else int(found.offset)
            case _:
                return max(first, end - start)

    def ranges(self, name: str) -> dict[int, tuple[int, int]]:
        """The offset where the reader began and the end of the topic then, by partition."""
        return {
            tp.partition: (start, self._ends[tp])
            for tp, start in self._starts.items()
            if tp.topic == name
        }

    def poll(self, timeout_ms: int) -> list[Record]:
        """New records, in order within each partition; empty after the timeout.

        Raises:
            BusError: the topics may not be read, or are not there any more.
        """
        try:
            batches = self._consumer.poll(timeout_ms=timeout_ms)
            # The client reports no error for a topic that has vanished: it fetches nothing.
            if not batches and time.monotonic() >= self._look_at_s:
                self._look_at_s = time.monotonic() + _LOOK_EVERY_S
                self._partitions()
        except KafkaError as error:
            if getattr(error, "retriable", False):
                return []
            raise failed(self._config, error) from None
        return [
            Record(tp.topic, tp.partition, r.offset, r.key, r.value, r.timestamp)
            for tp, records in batches.items()
            for r in records
        ]

    def caught_up(self, name: str = "") -> bool:
        """All records, or those of one topic, that existed at the start have been read; with
        ``until``, those before it.
        """
        return all(
            (self._consumer.position(tp, timeout_ms=1_000) or 0) >= end
            for tp, end in self._ends.items()
            if name in ("", tp.topic)
        )

    def has_records_since(self, name: str, since_ms: int) -> bool | None:
        """True if a record was written to the topic since then; None if that may not be seen.

        Notes in ``leaderless`` whether somebody leads each partition that it reads.

        Raises:
            BusError: the bus does not answer.
        """
        try:
            # kafka-python forgets topics that it does not read, and asks for all of the cluster's.
            partitions = self._others.get(name) or self._consumer.partitions_for_topic(name)
            self._others[name] = partitions
            start_times = {TopicPartition(name, p): since_ms for p in partitions}
            offsets = self._consumer.offsets_for_times(start_times, timeout_ms=_LOOK_MS)
            self.leaderless = self._without_leader()
        except KafkaError as error:
            if not isinstance(error, _UNREACHABLE):
                return None
            raise failed(self._config, error) from None
        return any(offsets.values()) if start_times else None

    def _without_leader(self) -> str:
        """A partition that it reads and that nobody leads; empty if there is none."""
        try:
            self._consumer.end_offsets(list(self._ends), timeout_ms=_LOOK_MS)
        except KeyError as error:  # kafka-python leaves out what nobody leads
            return _named(error.args[0])
        return ""

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close(autocommit=False)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def failed(config: Config, error: BaseException) -> BusError:
    """A ``BusError`` from an error of kafka-python, with the address of the bus."""
    section = "bus" if config.bus.bootstrap else "cluster"
    why = clients.one_line(error, f"{section}.client.{clients.BOOTSTRAP_TIMEOUT}")
    text = f"bus {config.bus_bootstrap}: {why}"
    return BusError(text, unreachable=isinstance(error, _UNREACHABLE))
