"""Reads from the bus, and survives its outages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from streaming.bus.connection import BusError, failed, settings
from streaming.bus.record import Record
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline

_FETCH_BYTES: Final = 16 << 20
_FETCH_WAIT_MS: Final = 1_000
"""How long a broker keeps a fetch that finds nothing."""


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


def consumer_of(config: Config) -> KafkaConsumer:
    """A client of the bus that reads nothing yet.

    Raises:
        BusError: the bus cannot be reached.
    """
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
        return KafkaConsumer(**arguments)
    except (KafkaError, OSError, ValueError) as error:
        raise failed(config, error) from None


class Reader:
    """Reads all partitions of bus topics from a given position, without a consumer group.

    Brokers may come and go: ``poll`` then returns nothing until they are back. At most one fetch of
    each broker is held in memory. Topics can be added and dropped while others are read.
    """

    def __init__(
        self, config: Config, names: Sequence[str] = (), start: Start | Mapping[str, Start] = "end",
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
        self._config, self._look_at_s = config, 0.0
        self._starts: dict[str, dict[TopicPartition, int]] = {}  # by topic
        self._ends: dict[str, dict[TopicPartition, int]] = {}
        self._caught_up: set[str] = set()
        self._consumer = consumer_of(config)
        try:
            if names:
                self.add(names, start, until, known_within_s=known_within_s)
        except BusError:
            self.close()
            raise

    def add(
        self, names: Sequence[str], start: Start | Mapping[str, Start], until: Since | None = None,
        *, known_within_s: float = KNOWN_WITHIN_S,
    ) -> None:  # fmt: skip
        """Read these topics as well. What it reads already goes on from where it is.

        Raises:
            BusError: as at the beginning; then what it read before is read on.
        """
        try:
            self._assign(self._known_partitions(names, known_within_s), start, until)
        except KafkaError as error:
            self.drop(names)
            raise failed(self._config, error) from None
        except BusError:
            self.drop(names)
            raise

    def drop(self, names: Iterable[str]) -> None:
        """Read these topics no more."""
        for name in names:
            self._starts.pop(name, None)
            self._ends.pop(name, None)
            self._caught_up.discard(name)
        self._consumer.assign([*self._partitions_read])

    @property
    def _partitions_read(self) -> Iterator[TopicPartition]:
        return chain.from_iterable(self._starts.values())

    def _partitions(self, names: Iterable[str]) -> list[TopicPartition]:
        """The partitions of topics, from the client's metadata; requests it if there is none."""
        found = []
        for name in names:
            partitions = self._consumer.partitions_for_topic(name)
            if not partitions:
                raise BusError(
                    f"bus {self._config.bus_bootstrap}: there is no topic {name}, or no right to "
                    "see it; kafka-twin collector creates it, kafka-twin check lists the rights",
                    topic_missing=True,
                )
            found += [TopicPartition(name, p) for p in sorted(partitions)]
        return found

    def missing(self) -> list[str]:
        """The topics that it reads and that are not there any more, or not to be seen.

        Raises:
            BusError: the bus does not answer.
        """
        try:
            return [n for n in self._starts if not self._consumer.partitions_for_topic(n)]
        except KafkaError as error:
            raise failed(self._config, error) from None

    def _known_partitions(self, names: Sequence[str], within_s: float) -> list[TopicPartition]:
        """The partitions to read. A broker learns of a new topic later than the one that created
        it, so a topic is missing if none of those that are asked knows it within that time."""
        deadline = Deadline.after_s(within_s)
        while True:
            try:
                return self._partitions(names)
            except BusError:
                if deadline.is_over:
                    raise
            time.sleep(_AGAIN_S)

    def _assign(
        self,
        added: list[TopicPartition],
        starts: Start | Mapping[str, Start],
        until: Since | None,
    ) -> None:
        self._consumer.assign([*self._partitions_read, *added])
        try:
            first = self._consumer.beginning_offsets(added)
            ends: dict[TopicPartition, int] = self._consumer.end_offsets(added)
        except KeyError as error:  # kafka-python leaves out what nobody leads
            raise BusError(
                f"bus {self._config.bus_bootstrap}: nobody leads {named(error.args[0])}: is its "
                "broker away? With bus.replication_factor = 3 another one would lead"
            ) from None
        if until:
            later = self._consumer.offsets_for_times(dict.fromkeys(added, until.at_ms))
            ends |= {tp: found.offset for tp, found in later.items() if found}
        for tp in added:
            start = starts[tp.topic] if isinstance(starts, Mapping) else starts
            place = self._place(tp, start, first[tp], ends[tp])
            self._consumer.seek(tp, place)
            self._starts.setdefault(tp.topic, {})[tp] = place
            self._ends.setdefault(tp.topic, {})[tp] = ends[tp]

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
        ends = self._ends[name]
        return {tp.partition: (start, ends[tp]) for tp, start in self._starts[name].items()}

    def poll(self, timeout_ms: int, *, look: bool = True) -> list[Record]:
        """New records, in order within each partition; empty after the timeout.

        Without a ``look`` it is not seen that a topic has vanished.

        Raises:
            BusError: the topics may not be read, or are not there any more.
        """
        try:
            batches = self._consumer.poll(timeout_ms=timeout_ms)
            # The client reports no error for a topic that has vanished: it fetches nothing.
            if look and not batches and time.monotonic() >= self._look_at_s:
                self._look_at_s = time.monotonic() + _LOOK_EVERY_S
                self._partitions(self._starts)
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
                names = ", ".join(self._starts)
                raise BusError(f"bus {self._config.bus_bootstrap}: {names} cannot be read in time")
            yield from self.poll(200)

    def caught_up(self, name: str = "") -> bool:
        """All records, or those of one topic, that existed at the start have been read; with
        ``until``, those before it.
        """
        for topic in [name] if name else self._ends:
            if topic in self._caught_up:
                continue
            for tp, end in self._ends[topic].items():
                if (self._consumer.position(tp, timeout_ms=1_000) or 0) < end:
                    return False
            self._caught_up.add(topic)
        return True

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close(autocommit=False)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def named(partition: TopicPartition) -> str:
    """A partition as users know it."""
    return f"{partition.topic}-{partition.partition}"
