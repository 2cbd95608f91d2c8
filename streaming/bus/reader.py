"""Reads from the bus, and survives its outages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, Literal

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from streaming.bus.connection import UNREACHABLE, BusError, failed, settings
from streaming.bus.record import Record
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline

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
                later = self._consumer.offsets_for_times({tp: start.at_ms})[tp]
                return end if later is None else int(later.offset)
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

    def to_end(self, deadline: Deadline) -> Iterator[Record]:
        """All records until it has caught up.

        Raises:
            BusError: they cannot be read, or not in time.
        """
        while not self.caught_up():
            if deadline.is_over:
                names = ", ".join(self._names)
                raise BusError(f"bus {self._config.bus_bootstrap}: {names} cannot be read in time")
            yield from self.poll(200)

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
            if not isinstance(error, UNREACHABLE):
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
