"""Looks at bus topics without reading them: was something written lately, does somebody lead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka import TopicPartition
from kafka.errors import KafkaError

from streaming.bus.connection import UNREACHABLE, failed
from streaming.bus.reader import consumer_of, named
from streaming.runtime.config import Config

_LOOK_MS: Final = 2_000
"""The longest time for one answer."""


class Looker:
    """A client of the bus of its own, so that whoever reads it does not wait."""

    def __init__(self, config: Config) -> None:
        """Connect.

        Raises:
            BusError: the bus cannot be reached.
        """
        self._config = config
        self._consumer = consumer_of(config)
        self._known: dict[str, list[TopicPartition]] = {}

    def has_records_since(self, name: str, since_ms: int) -> bool | None:
        """True if a record was written to the topic since then; None if that may not be seen.

        Raises:
            BusError: the bus does not answer.
        """
        try:
            start_times = dict.fromkeys(self._partitions(name), since_ms)
            offsets = self._consumer.offsets_for_times(start_times, timeout_ms=_LOOK_MS)
        except KafkaError as error:
            if not isinstance(error, UNREACHABLE):
                return None
            raise failed(self._config, error) from None
        return any(offsets.values()) if start_times else None

    def leaderless(self, names: Iterable[str]) -> str:
        """A partition of the topics that nobody leads; empty if there is none, or nobody may see.

        Raises:
            BusError: the bus does not answer.
        """
        try:
            partitions = [each for name in names for each in self._partitions(name)]
            self._consumer.end_offsets(partitions, timeout_ms=_LOOK_MS)
        except KeyError as error:  # kafka-python leaves out what nobody leads
            return named(error.args[0])
        except KafkaError as error:
            if not isinstance(error, UNREACHABLE):
                return ""
            raise failed(self._config, error) from None
        return ""

    def _partitions(self, name: str) -> list[TopicPartition]:
        # kafka-python asks for all topics of the cluster where it does not know one.
        if not self._known.get(name):
            partitions = sorted(self._consumer.partitions_for_topic(name))
            self._known[name] = [TopicPartition(name, number) for number in partitions]
        return self._known[name]

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close(autocommit=False)
