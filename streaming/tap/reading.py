"""All that the logs of one broker tell, line by line, as rows of observations.

Reads no clock and sends nothing: the same lines give the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple
from zoneinfo import ZoneInfo

from streaming.tap import isrs
from streaming.tap.isrs import Isrs, Move
from streaming.tap.lines import (
    TIER_END,
    Altered,
    Fetched,
    LineRefused,
    OffsetsAsked,
    OffsetsRequest,
    OffsetsResponse,
    read,
)
from streaming.tap.sessions import Row, Sessions
from twin.tables import UNKNOWN


class Start(NamedTuple):
    """A follower's question where the tier ends, as the table ``tier_starts`` has it."""

    topic: str
    partition: int
    broker: int
    at_ms: int
    pending_upload_offset: int
    error_code: int


class Reading:
    """The logs of one broker, and what they have told that nobody took yet."""

    def __init__(self, broker: int, zone: ZoneInfo | None = None) -> None:
        self.broker = broker
        self.lines = 0
        self.refused: Counter[str] = Counter()
        self.fetches: list[Row] = []
        self.moves: list[Move] = []
        self.starts: list[Start] = []
        self.at_ms = UNKNOWN  # the newest time of a line
        self._zone = zone
        self._sessions = Sessions()
        self._isrs = Isrs()

    def take(self, line: bytes) -> None:
        """One line. What cannot be read is counted by reason, and the reading goes on."""
        self.lines += 1
        try:
            found = read(line, self._zone)
        except LineRefused as refusal:
            self.refused[refusal.reason] += 1
            return
        if found is None:
            return
        at_ms, told = found
        self.at_ms = max(self.at_ms, at_ms)
        if isinstance(told, Fetched):
            self.fetches.extend(self._sessions.take(at_ms, told))
        elif isinstance(told, OffsetsAsked):
            self.starts.extend(_starts(at_ms, told))
        elif isinstance(told, Altered):
            self.moves.extend(self._isrs.altered(at_ms, told))
        else:
            self.moves.extend(isrs.shrunk(at_ms, told))

    def missed(self) -> None:
        """Lines are missing: what was derived from all of them is not known any more."""
        self._sessions.forget()
        self._isrs.forget()

    def rest(self) -> None:
        """Tell what waits for a later line: none may come for a while."""
        self.fetches.extend(self._sessions.rest())

    @property
    def waiting(self) -> int:
        """Rows that nobody took yet."""
        return len(self.fetches) + len(self.moves) + len(self.starts)


def _starts(at_ms: int, asked: OffsetsAsked) -> Iterator[Start]:
    request, response = asked.request, asked.response
    if not isinstance(request, OffsetsRequest) or not isinstance(response, OffsetsResponse):
        return
    wanted = {
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if partition.timestamp == TIER_END
    }
    for topic in response.topics:
        for told in topic.partitions:
            if (topic.name, told.partition_index) in wanted:
                yield Start(
                    topic.name, told.partition_index, request.replica_id,
                    at_ms - round(asked.total_time_ms), told.offset, told.error_code,
                )  # fmt: skip
