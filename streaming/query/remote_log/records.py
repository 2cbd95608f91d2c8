"""Records of ``__remote_log_metadata`` as Kafka 4.3 writes them, decoded.

A value is three varints (frame version 1, api key, version 0) and a message of the flexible kind:
big-endian numbers, lengths as varints plus one, and tagged fields at the end of every struct, of
which unknown ones are skipped. There are four kinds: a segment, a change of its state, a mark of a
deleted partition, and a snapshot of a segment, which is only in files.

Source: AbstractApiMessageSerde, RemoteLogSegmentMetadataRecord and its siblings, Kafka 4.3.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from streaming.runtime.kafka.messages import ByteReader, OverlongVarint, Truncated
from twin.declarations.table import UNKNOWN
from twin.tables.enums import SegmentState

FRAME_VERSION: Final = 1
SEGMENT: Final = 0
SEGMENT_UPDATE: Final = 1
PARTITION_DELETE: Final = 2
SEGMENT_SNAPSHOT: Final = 3

_EPOCH = struct.Struct(">iq")
_STATES: Final = frozenset(SegmentState)


class RecordRefused(ValueError):  # noqa: N818 - what happens to the record
    """The bytes are not such a record. ``reason`` is one of a few words, used as a label of
    counts."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class SegmentEvent(NamedTuple):
    """One record about a remote segment; an update has no offsets and no epochs."""

    topic: str
    topic_id: bytes
    partition: int
    segment_id: bytes
    state: int
    event_at_ms: int
    start_offset: int = UNKNOWN
    end_offset: int = UNKNOWN
    log_bytes: int = UNKNOWN
    leader_epochs: tuple[int, ...] = ()
    epoch_start_offsets: tuple[int, ...] = ()


def decode(value: bytes) -> SegmentEvent | None:
    """The event of a record; None for a mark of a deleted partition, which names no segment.

    Raises:
        RecordRefused: with a reason of ``truncated``, ``trailing`` (bytes are left over),
            ``version`` (of the frame or the message), ``type``, ``state`` or ``text``.
    """
    read = _Reader(value)
    try:
        frame, kind, version = read.uvarint(), read.uvarint(), read.uvarint()
        if frame != FRAME_VERSION or version != 0:
            raise RecordRefused("version", f"frame {frame}, version {version} of type {kind}")
        event = _read(read, kind)
    except Truncated as error:
        raise RecordRefused("truncated", str(error)) from None
    except OverlongVarint as error:
        raise RecordRefused("version", str(error)) from None
    except UnicodeDecodeError:
        raise RecordRefused("text", "a topic name is not text") from None
    if read.at != len(value):
        raise RecordRefused("trailing", f"{len(value) - read.at} of {len(value)} bytes left over")
    return event


def _read(read: _Reader, kind: int) -> SegmentEvent | None:
    match kind:
        case 0:
            return _segment(read)
        case 1:
            return _update(read)
        case 2:
            read.partition()
            read.skip(4 + 8 + 1)  # broker, time, state
            read.skip_tagged_fields()
            return None
        case 3:
            raise RecordRefused("type", "a snapshot record names no partition")
    raise RecordRefused("type", f"there is no type {kind}")


def _segment(read: _Reader) -> SegmentEvent:
    topic, topic_id, partition, segment_id = read.segment()
    start, end = read.number(8), read.number(8)
    read.skip(4 + 8)  # broker, largest timestamp
    event_at_ms = read.number(8)
    epochs, offsets = read.epochs()
    log_bytes = read.number(4)
    read.skip_bytes()  # custom metadata
    state = _state(read.number(1))
    read.skip_tagged_fields()
    return SegmentEvent(
        topic, topic_id, partition, segment_id, state, event_at_ms, start, end, log_bytes,
        epochs, offsets,
    )  # fmt: skip


def _update(read: _Reader) -> SegmentEvent:
    topic, topic_id, partition, segment_id = read.segment()
    read.skip(4)  # broker
    event_at_ms = read.number(8)
    read.skip_bytes()  # custom metadata
    state = _state(read.number(1))
    read.skip_tagged_fields()
    return SegmentEvent(topic, topic_id, partition, segment_id, state, event_at_ms)


def _state(number: int) -> int:
    if number not in _STATES:
        raise RecordRefused("state", f"a segment has the state {number}")
    return number


class _Reader(ByteReader):
    """Reads the structures that these records share."""

    __slots__ = ()

    def skip_bytes(self) -> None:
        """Skip a compact byte string, which may be null."""
        self.skip(self.count())

    def partition(self) -> tuple[str, bytes, int]:
        """Topic name, topic id and partition number."""
        name = self.take(self.uvarint() - 1).decode()
        topic_id, number = self.take(16), self.number(4)
        self.skip_tagged_fields()
        return name, topic_id, number

    def segment(self) -> tuple[str, bytes, int, bytes]:
        """The partition, and the id of the segment."""
        name, topic_id, number = self.partition()
        segment_id = self.take(16)
        self.skip_tagged_fields()
        return name, topic_id, number, segment_id

    def epochs(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Leader epochs, and the first offset of each."""
        entries = []
        for _ in range(self.count()):
            entries.append(_EPOCH.unpack(self.take(_EPOCH.size)))
            self.skip_tagged_fields()
        return tuple(e for e, _ in entries), tuple(o for _, o in entries)
