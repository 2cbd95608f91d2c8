"""One line of a broker's log: what it tells, nothing, or why it cannot be read.

Two kinds of line matter. The request log (``kafka.request.logger`` at DEBUG) has one line a
completed request: ``[time] DEBUG Completed request:{json} (kafka.request.logger)``; of these,
fetches of followers, their questions for the end of the tier, and changes of ISRs. The server log
says why a leader shrinks an ISR. All else is passed over as early as possible.
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
from msgspec import Struct

from twin.tables import UNKNOWN

FETCH: Final = 1
LIST_OFFSETS: Final = 2
ALTER_PARTITION: Final = 56

TIER_END: Final = -6
"""ListOffsets: the earliest offset that waits to be uploaded (KIP-1023)."""

METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
"""__cluster_metadata: controllers fetch it from each other, and it has no ISR."""

_REQUEST: Final = b"Completed request:"
_SHRINK: Final = b"Shrinking ISR from "
_API_KEY = re.compile(rb'"requestApiKey":(\d+)')
_STAMP: Final = len("[2026-11-20 15:37:58,809]")
_LEADER = re.compile(
    rb"\[Partition (?P<topic>\S+)-(?P<partition>\d+) broker=(?P<leader>\d+)\] "
    rb"Shrinking ISR from [\d,]* to [\d,]*\. "
    rb"Leader: \(highWatermark: (?P<hw>-?\d+), endOffset: (?P<end>-?\d+)\)\. "
    rb"Out of sync replicas: (?P<left>.*)\."
)
_LEFT = re.compile(
    rb"\(brokerId: (\d+), endOffset: (-?\d+), lastCaughtUpTimeMs: (-?\d+)\)"
)  # fmt: skip


class LineRefused(ValueError):  # noqa: N818 - what happens to the line
    """A line that should tell something and cannot be read; counted by ``reason``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FetchPlace(Struct, gc=False, rename="camel"):
    """A partition as a follower asks for it."""

    partition: int
    fetch_offset: int
    current_leader_epoch: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    partition_max_bytes: int = 1 << 20


class FetchTopic(Struct, gc=False, rename="camel"):
    """Partitions of a topic; newer versions name the topic by its id."""

    partitions: list[FetchPlace]
    topic_id: str = ""
    topic: str = ""

    @property
    def key(self) -> str:
        return self.topic_id or self.topic


class Forgotten(Struct, gc=False, rename="camel"):
    """Partitions that leave a fetch session."""

    partitions: list[int]
    topic_id: str = ""
    topic: str = ""

    @property
    def key(self) -> str:
        return self.topic_id or self.topic


class ReplicaState(Struct, gc=False, rename="camel"):
    """Who fetches."""

    replica_id: int = UNKNOWN
    replica_epoch: int = UNKNOWN


class FetchRequest(Struct, gc=False, rename="camel"):
    """What a follower asked for."""

    topics: list[FetchTopic]
    replica_state: ReplicaState | None = None
    replica_id: int = UNKNOWN
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10 << 20
    session_id: int = 0
    session_epoch: int = UNKNOWN
    forgotten_topics_data: list[Forgotten] = []


class FetchAnswer(Struct, gc=False, rename="camel"):
    """What it was told of one partition."""

    partition_index: int
    error_code: int = 0
    high_watermark: int = UNKNOWN
    records_size_in_bytes: int = 0


class FetchAnswers(Struct, gc=False, rename="camel"):
    """The answers for a topic."""

    partitions: list[FetchAnswer]
    topic_id: str = ""
    topic: str = ""

    @property
    def key(self) -> str:
        return self.topic_id or self.topic


class FetchResponse(Struct, gc=False, rename="camel"):
    """The whole answer."""

    error_code: int = 0
    session_id: int = 0
    responses: list[FetchAnswers] = []


class Header(Struct, gc=False, rename="camel"):
    """Who sent a request."""

    client_id: str | None = ""


class Fetched(Struct, gc=False, rename="camel"):
    """A completed fetch. ``request`` is empty where it was parsed before the log was on."""

    request_header: Header
    request: FetchRequest | str
    response: FetchResponse | str | None
    total_time_ms: float
    request_queue_time_ms: float = 0.0
    local_time_ms: float = 0.0
    remote_time_ms: float = 0.0
    response_queue_time_ms: float = 0.0
    send_time_ms: float = 0.0


class AskedPartition(Struct, gc=False, rename="camel"):
    """A partition of which an offset is asked."""

    partition_index: int
    timestamp: int = 0


class AskedTopic(Struct, gc=False, rename="camel"):
    """Those of a topic."""

    name: str
    partitions: list[AskedPartition]


class OffsetsRequest(Struct, gc=False, rename="camel"):
    """A question for offsets."""

    topics: list[AskedTopic]
    replica_id: int = UNKNOWN


class ToldPartition(Struct, gc=False, rename="camel"):
    """The answer for a partition."""

    partition_index: int
    error_code: int = 0
    offset: int = UNKNOWN


class ToldTopic(Struct, gc=False, rename="camel"):
    """Those of a topic."""

    name: str
    partitions: list[ToldPartition]


class OffsetsResponse(Struct, gc=False, rename="camel"):
    """The whole answer."""

    topics: list[ToldTopic]


class OffsetsAsked(Struct, gc=False, rename="camel"):
    """A completed question for offsets."""

    request: OffsetsRequest | str
    response: OffsetsResponse | str | None
    total_time_ms: float


class AlteredPartition(Struct, gc=False, rename="camel"):
    """An ISR as its leader wants it; the epoch is that of the state it knew."""

    partition_index: int
    leader_epoch: int = UNKNOWN
    partition_epoch: int = UNKNOWN


class AlteredTopic(Struct, gc=False, rename="camel"):
    """Those of a topic."""

    partitions: list[AlteredPartition]
    topic_id: str = ""


class AlterRequest(Struct, gc=False, rename="camel"):
    """What a leader wants."""

    broker_id: int
    topics: list[AlteredTopic]


class AgreedPartition(Struct, gc=False, rename="camel"):
    """The ISR as the controller has it now."""

    partition_index: int
    error_code: int = 0
    isr: list[int] = []
    partition_epoch: int = UNKNOWN


class AgreedTopic(Struct, gc=False, rename="camel"):
    """Those of a topic."""

    partitions: list[AgreedPartition]
    topic_id: str = ""


class AlterResponse(Struct, gc=False, rename="camel"):
    """The controller's answer."""

    error_code: int = 0
    topics: list[AgreedTopic] = []


class Altered(Struct, gc=False, rename="camel"):
    """A completed change of ISRs, of the active controller's log."""

    request: AlterRequest | str
    response: AlterResponse | str | None
    total_time_ms: float


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A leader's own word on replicas that it throws out: (broker, log end, caught up at ms)."""

    topic: str
    partition: int
    leader: int
    leader_end_offset: int
    left: tuple[tuple[int, int, int], ...]


Told = Fetched | OffsetsAsked | Altered | Shrunk

_KINDS: Final[dict[int, msgspec.json.Decoder[Any]]] = {
    FETCH: msgspec.json.Decoder(Fetched),
    LIST_OFFSETS: msgspec.json.Decoder(OffsetsAsked),
    ALTER_PARTITION: msgspec.json.Decoder(Altered),
}
_FOLLOWERS_ONLY: Final = (FETCH, LIST_OFFSETS)


def read(line: bytes, zone: ZoneInfo | None = None) -> tuple[int, Told] | None:
    """When the line was logged (ms) and what it tells; None if it is of no interest.

    Args:
        line: without its line end.
        zone: of the broker's clock, this machine's if None.

    Raises:
        LineRefused: with a reason of ``request`` (not logged: parsed before the log was on),
            ``json``, ``timestamp`` or ``shrink``.
    """
    at = line.find(_REQUEST)
    if at >= 0:
        return _request(line, at + len(_REQUEST), zone)
    if line.find(_SHRINK) >= 0:
        return _at_ms(line, zone), _shrunk(line)
    return None


def _request(line: bytes, start: int, zone: ZoneInfo | None) -> tuple[int, Told] | None:
    # The header is at the beginning; a few fields of it come before the key.
    key = _API_KEY.search(line, start, start + 200)
    api = int(key[1]) if key else UNKNOWN
    decoder = _KINDS.get(api)
    if decoder is None:
        if key is None and not line.startswith(b"{", start):
            raise LineRefused("json")
        return None
    if api in _FOLLOWERS_ONLY and line.find(b'"replicaId":-', start) >= 0:
        return None  # consumers, and tools that ask for offsets
    end = line.rfind(b"}") + 1
    try:
        told: Fetched | OffsetsAsked | Altered = decoder.decode(line[start:end])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise LineRefused("json") from None
    if isinstance(told.request, str):
        raise LineRefused("request")
    return _at_ms(line, zone), told


def _shrunk(line: bytes) -> Shrunk:
    found = _LEADER.search(line)
    left = [tuple(map(int, one)) for one in _LEFT.findall(found["left"])] if found else []
    if found is None or not left:
        raise LineRefused("shrink")
    return Shrunk(
        topic=found["topic"].decode("ascii", "replace"),
        partition=int(found["partition"]),
        leader=int(found["leader"]),
        leader_end_offset=int(found["end"]),
        left=tuple((broker, end, at_ms) for broker, end, at_ms in left),
    )


def _at_ms(line: bytes, zone: ZoneInfo | None) -> int:
    """The time at the line's beginning, as log4j's %d writes it: local, with milliseconds."""
    stamp = line[:_STAMP]
    try:
        return _second_ms(stamp[1:20], zone) + int(stamp[21:24])
    except ValueError:
        raise LineRefused("timestamp") from None


@lru_cache(maxsize=64)
def _second_ms(text: bytes, zone: ZoneInfo | None) -> int:
    """A second since the epoch, in ms; a thousand lines share one."""
    when = datetime.strptime(text.decode("ascii"), "%Y-%m-%d %H:%M:%S")
    if zone is None:
        return int(time.mktime(when.timetuple())) * 1_000
    return int(when.replace(tzinfo=zone).timestamp()) * 1_000
