"""The round trip to every broker, which several sources share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streaming.collector.reading import Answers, Reading, Readings
from streaming.collector.source import EveryBrokerSource
from streaming.collector.wire.connections import BrokerResponse, EncodedRequest, Versions


@dataclass(frozen=True, slots=True, eq=False)
class BrokerResponses(Reading):
    """Which brokers answered in this cycle, and when; and which Kafka each has been so far."""

    by_broker: Mapping[int, BrokerResponse]
    kafka_versions: Mapping[int, str]

    @property
    def broker_columns(self) -> Mapping[str, Mapping[int, Any]]:
        """The columns about answers; a broker that could not be asked did not answer.

        Its version stays until it is connected again: a restart may be an upgrade.
        """
        return {
            "answered": {b: r.answered for b, r in self.by_broker.items()},
            "answered_in_ms": {b: r.after_ms for b, r in self.by_broker.items()},
            "kafka_version": self.kafka_versions,
        }


class RoundTrip:
    """Sends the requests of several sources together, and splits the responses by source."""

    def __init__(self, sources: Sequence[EveryBrokerSource], readings: Readings) -> None:
        """Make the requests from these ``readings``."""
        self._sources = sources
        self._arguments = {source: readings.arguments(source.requests) for source in sources}
        self._askers: dict[int, list[tuple[EveryBrokerSource, int]]] = {}
        """Source and API key of each request, by broker, in order."""

    def requests(self, broker: int, versions: Versions) -> Sequence[EncodedRequest]:
        """The requests to one broker, those of the first source first."""
        made = [
            (source, request)
            for source in self._sources
            for request in source.requests(broker, versions, **self._arguments[source])
        ]
        self._askers[broker] = [(source, request.api_key) for source, request in made]
        return [request for _, request in made]

    def answers(
        self, responses: Mapping[int, BrokerResponse]
    ) -> Mapping[EveryBrokerSource, Answers]:
        """For each source, the responses of the brokers that answered anything."""
        answers: dict[EveryBrokerSource, dict[int, list[bytes | None]]]
        answers = {source: {} for source in self._sources}
        for broker, response in responses.items():
            if not response.answered:
                continue
            for source in self._sources:
                answers[source][broker] = []
            for (source, _), body in zip(self._askers[broker], response.bodies, strict=True):
                answers[source][broker].append(body)
        return answers

    def answered(
        self, responses: Mapping[int, BrokerResponse]
    ) -> Iterator[tuple[EveryBrokerSource, int]]:
        """Source and API key of each response."""
        for broker, response in responses.items():
            if response.bodies:
                asked = zip(self._askers[broker], response.bodies, strict=True)
                yield from (who for who, body in asked if body is not None)
