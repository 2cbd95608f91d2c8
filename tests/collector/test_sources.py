"""What the collector asks of its sources: their order, and whose answer is whose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Self

import pytest

from streaming.collector.cycle.round_trip import RoundTrip
from streaming.collector.problem import timeout
from streaming.collector.reading import Readings
from streaming.collector.source import EveryBrokerSource, Setup
from streaming.collector.sources import ABOUT, SOURCES
from streaming.collector.sources.offsets import OffsetSource
from streaming.collector.wire.connections import BrokerResponse, EncodedRequest

REQUEST = EncodedRequest(1, 0, bytes(20), flexible=False, throttled=False)


class Asking(EveryBrokerSource):
    """Asks each broker as often as it is told."""

    def __init__(self, times: dict[int, int]) -> None:
        self._times = times

    @classmethod
    def make(cls, setup: Setup) -> Self:
        del setup
        return cls({})

    def requests(self, broker: int, versions: object) -> Sequence[EncodedRequest]:
        return [REQUEST] * self._times[broker]


def test_sources_that_ask_every_broker_are_neighbours() -> None:
    kinds = [kind for kind, _ in groupby(issubclass(s, EveryBrokerSource) for s in SOURCES)]
    assert Counter(kinds)[True] == 1


def test_a_name_has_one_meaning() -> None:
    for source in SOURCES:
        for about in source.about:
            assert ABOUT[about.name] is about


def test_a_reading_that_no_source_makes_is_said_with_who_needs_it() -> None:
    text = "OffsetSource.read reads ListedPlacement, which no source before it makes"
    with pytest.raises(LookupError, match=text):
        Readings().arguments(OffsetSource(1_000, "test").read)


def test_each_answer_goes_to_the_source_that_asked() -> None:
    one, other = Asking({1: 2, 2: 1, 3: 0, 4: 1}), Asking({1: 1, 2: 0, 3: 0, 4: 1})
    trip = RoundTrip([one, other], Readings())
    counts = [len(trip.requests(broker, {})) for broker in (1, 2, 3, 4)]
    assert counts == [3, 1, 0, 2]
    late = timeout("broker", 4)
    answers = trip.answers(
        {
            1: BrokerResponse([b"a", b"b", None], timeout("broker", 1), 5),
            2: BrokerResponse([b"c"], None, 5),
            3: BrokerResponse([], None, 5),
            4: BrokerResponse([None, None], late, 5),
            5: BrokerResponse([], timeout("broker", 5), -1),  # it could not be reached
        }
    )
    assert answers == {
        one: {1: [b"a", b"b"], 2: [b"c"], 3: []},
        other: {1: [None], 2: [], 3: []},
    }
