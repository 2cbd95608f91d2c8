"""Parses one line of a broker's log.

Two kinds of line matter, and all others are skipped as early as possible:

* The request log has one line for each completed request:
  ``[time] DEBUG Completed request:{json} (kafka.request.logger)``. Fetches and ListOffsets requests
  of followers are used, and AlterPartition requests.
* The server log of a leader states why it shrinks an ISR, when the controller has agreed, and of
  which partitions it became a follower. When a broker starts, it states where each log ends, and
  then to where it truncates the logs of which it has become a follower.
* The log of a controller states which elections were unclean, whatever took the replica out of the
  ISR before.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from streaming.tap.request_log import (
    ALTER_PARTITION,
    FETCH,
    LIST_OFFSETS,
    CompletedAlterPartition,
    CompletedFetch,
    CompletedListOffsets,
)
from twin.declarations.table import UNKNOWN

_REQUEST: Final = b"Completed request:"
_SHRINK: Final = b"Shrinking ISR from "
_UPDATE: Final = b"ISR updated to "
_FOLLOW: Final = b"Added fetcher to broker "
_LOAD: Final = b"Completed load of Log("
_TRUNCATE: Final = b"] Truncating to offset "
_UNCLEAN: Final = b" UNCLEAN partition change for "
_BEFORE_3_0: Final = b'"partitionResponses"'
"""A field of fetch responses that is called ``partitions`` since Kafka 3.0."""

KAFKA_BEFORE_3_0: Final = "kafka_before_3_0"
"""The reason why such a line is not read."""

_API_KEY: Final = re.compile(rb'"requestApiKey":(\d+)')
_API_KEY_WITHIN: Final = 200
"""The request header comes first in the JSON, with a few short fields before the API key."""

_TIME_LENGTH: Final = len("[2026-11-20 15:37:58,809]")
_PARTITION: Final = rb"\[Partition (?P<topic>\S+)-(?P<partition>\d+) broker=(?P<leader>\d+)\] "
_LEADER_UPDATE: Final = re.compile(_PARTITION + rb"ISR updated to [\d,]+ ")
_LEADER_SHRINK: Final = re.compile(
    _PARTITION + rb"Shrinking ISR from [\d,]* to [\d,]*\. "
    rb"Leader: \(highWatermark: (?P<hw>-?\d+), endOffset: (?P<end>-?\d+)\)\. "
    rb"Out of sync replicas: (?P<removed>.*)\."
)
_FOLLOWED: Final = re.compile(rb"[( ]([^\s(]+)-(\d+) -> ")
_LOADED: Final = re.compile(
    rb", topic=(?P<topic>[^\s,]+), partition=(?P<partition>\d+), "
    rb".*logEndOffset=(?P<end>\d+)\) with "
)
_TRUNCATED: Final = re.compile(
    rb"\[UnifiedLog partition=(?P<topic>\S+)-(?P<partition>\d+), dir=.*\] "
    rb"Truncating to offset (?P<to>\d+)"
)
_CHANGED: Final = re.compile(
    _UNCLEAN + rb"(?P<topic>\S+)-(?P<partition>\d+)(?: with topic ID \S+)?: (?P<changes>\w+: .*)"
)
_ELECTED: Final = re.compile(
    rb"\bleader: -?\d+ -> (?P<leader>\d+),.*\bleaderEpoch: \d+ -> (?P<epoch>\d+)"
)
_ELIGIBLE_BEFORE: Final = re.compile(rb"\b(?:isr|elr): \[([\d, ]*)\] -> ")
_REMOVED: Final = re.compile(
    rb"\(brokerId: (\d+), endOffset: (-?\d+), lastCaughtUpTimeMs: (-?\d+)\)"
)


class InvalidLineError(ValueError):
    """A line of a kind that matters cannot be parsed; such lines are counted by ``reason``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RemovedReplica:
    """A replica that a leader removes from an ISR, and the state in which the leader knew it."""

    broker: int
    log_end_offset: int
    caught_up_at_ms: int


@dataclass(frozen=True, slots=True)
class LeaderShrinkLine:
    """A leader's own statement of which replicas it wants out of an ISR, and why."""

    topic: str
    partition: int
    leader: int
    leader_end_offset: int
    removed: tuple[RemovedReplica, ...]


@dataclass(frozen=True, slots=True)
class LeaderUpdateLine:
    """A leader's statement of an ISR that the controller has agreed to."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class FollowerLine:
    """A broker's statement of the partitions that it follows from now on."""

    partitions: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class LoadedLogLine:
    """A broker's statement, at its start, of where a log ends."""

    topic: str
    partition: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class TruncationLine:
    """A broker's statement that it truncates a log."""

    topic: str
    partition: int
    to_offset: int


@dataclass(frozen=True, slots=True)
class UncleanElectionLine:
    """A controller's statement that it elected a leader that was neither in the ISR nor in the ELR.

    Kafka 4.1 also calls each later change of the partition UNCLEAN until the leader has recovered,
    and Kafka 3.9 an election from the ELR. So the leader, the ISR and the ELR in the line decide.
    Some releases leave out the topic id.
    Source: PartitionRegistration.maybeLogPartitionChange, Kafka 3.9.1, 4.1.2 and 4.4.0.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int


CompletedRequest = CompletedFetch | CompletedListOffsets | CompletedAlterPartition
LogLine = (
    CompletedRequest
    | LeaderShrinkLine
    | LeaderUpdateLine
    | FollowerLine
    | LoadedLogLine
    | TruncationLine
    | UncleanElectionLine
)

_DECODERS: Final[dict[int, msgspec.json.Decoder[Any]]] = {
    FETCH: msgspec.json.Decoder(CompletedFetch),
    LIST_OFFSETS: msgspec.json.Decoder(CompletedListOffsets),
    ALTER_PARTITION: msgspec.json.Decoder(CompletedAlterPartition),
}
_FOLLOWERS_ONLY: Final = (FETCH, LIST_OFFSETS)


def parse(line: bytes, zone: ZoneInfo | None = None) -> tuple[int, LogLine] | None:
    """The time at which the line was logged (ms) and its content; None for a line to skip.

    Args:
        line: without its line end.
        zone: time zone of the broker's log; None for that of this machine.

    Raises:
        InvalidLineError: the reason is ``request`` (the broker parsed the request before its log
            was enabled, so it is not logged), ``kafka_before_3_0``, ``json``, ``timestamp``,
            ``shrink``, ``isr``, ``load``, ``truncation`` or ``election``.
    """
    at = line.find(_REQUEST)
    if at >= 0:
        return _completed_request(line, at + len(_REQUEST), zone)
    if line.find(_SHRINK) >= 0:
        return _logged_at_ms(line, zone), _leader_shrink(line)
    if line.find(_UPDATE) >= 0:
        return _logged_at_ms(line, zone), _leader_update(line)
    if line.find(_FOLLOW) >= 0:
        followed = _FOLLOWED.findall(line)
        partitions = frozenset((topic.decode("ascii", "replace"), int(n)) for topic, n in followed)
        return _logged_at_ms(line, zone), FollowerLine(partitions)
    if line.find(_LOAD) >= 0:
        return _logged_at_ms(line, zone), _loaded_log(line)
    if line.find(_TRUNCATE) >= 0:
        return _logged_at_ms(line, zone), _truncation(line)
    if line.find(_UNCLEAN) >= 0:
        election = _unclean_election(line)
        return None if election is None else (_logged_at_ms(line, zone), election)
    return None


def _completed_request(
    line: bytes, start: int, zone: ZoneInfo | None
) -> tuple[int, CompletedRequest] | None:
    key = _API_KEY.search(line, start, start + _API_KEY_WITHIN)
    api = int(key[1]) if key else UNKNOWN
    decoder = _DECODERS.get(api)
    if decoder is None:
        if key is None and not line.startswith(b"{", start):
            raise InvalidLineError("json")
        return None
    if api in _FOLLOWERS_ONLY and line.find(b'"replicaId":-', start) >= 0:
        return None  # consumers, and tools that ask for offsets
    end = line.rfind(b"}") + 1
    try:
        request: CompletedRequest = decoder.decode(line[start:end])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        is_old = line.find(_BEFORE_3_0, start) >= 0
        raise InvalidLineError(KAFKA_BEFORE_3_0 if is_old else "json") from None
    if isinstance(request.request, str):
        raise InvalidLineError("request")
    return _logged_at_ms(line, zone), request


def _leader_shrink(line: bytes) -> LeaderShrinkLine:
    match = _LEADER_SHRINK.search(line)
    removed = (
        [RemovedReplica(*map(int, r)) for r in _REMOVED.findall(match["removed"])] if match else []
    )
    if match is None or not removed:
        raise InvalidLineError("shrink")
    return LeaderShrinkLine(
        topic=match["topic"].decode("ascii", "replace"),
        partition=int(match["partition"]),
        leader=int(match["leader"]),
        leader_end_offset=int(match["end"]),
        removed=tuple(removed),
    )


def _leader_update(line: bytes) -> LeaderUpdateLine:
    match = _LEADER_UPDATE.search(line)
    if match is None:
        raise InvalidLineError("isr")
    return LeaderUpdateLine(
        topic=match["topic"].decode("ascii", "replace"),
        partition=int(match["partition"]),
    )


def _loaded_log(line: bytes) -> LoadedLogLine:
    match = _LOADED.search(line)
    if match is None:
        raise InvalidLineError("load")
    return LoadedLogLine(
        topic=match["topic"].decode("ascii", "replace"),
        partition=int(match["partition"]),
        log_end_offset=int(match["end"]),
    )


def _truncation(line: bytes) -> TruncationLine:
    match = _TRUNCATED.search(line)
    if match is None:
        raise InvalidLineError("truncation")
    return TruncationLine(
        topic=match["topic"].decode("ascii", "replace"),
        partition=int(match["partition"]),
        to_offset=int(match["to"]),
    )


def _unclean_election(line: bytes) -> UncleanElectionLine | None:
    match = _CHANGED.search(line)
    if match is None:
        raise InvalidLineError("election")
    elected = _ELECTED.search(match["changes"])
    changed = _ELIGIBLE_BEFORE.findall(match["changes"])
    # An unclean election makes the new leader the ISR, so the line states what the ISR was before.
    if elected is None or not changed:
        return None
    if any(elected["leader"] in members.split(b", ") for members in changed):
        return None
    return UncleanElectionLine(
        topic=match["topic"].decode("ascii", "replace"),
        partition=int(match["partition"]),
        leader=int(elected["leader"]),
        leader_epoch=int(elected["epoch"]),
    )


def _logged_at_ms(line: bytes, zone: ZoneInfo | None) -> int:
    """The time at the beginning of a line, as log4j's %d writes it: local, with milliseconds."""
    text = line[:_TIME_LENGTH]
    try:
        return _second_to_ms(text[1:20], zone) + int(text[21:24])
    except ValueError:
        raise InvalidLineError("timestamp") from None


@lru_cache(maxsize=64)
def _second_to_ms(text: bytes, zone: ZoneInfo | None) -> int:
    """A date and time in ms since the epoch. Cached: a thousand lines share a second."""
    when = datetime.strptime(text.decode("ascii"), "%Y-%m-%d %H:%M:%S")
    if zone is None:
        return int(time.mktime(when.timetuple())) * 1_000
    return int(when.replace(tzinfo=zone).timestamp()) * 1_000
