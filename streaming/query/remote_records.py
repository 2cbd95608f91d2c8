"""Records of ``__remote_log_metadata`` as Kafka 4.3 writes them, decoded.

A value is three varints (frame version 1, api key, version 0) and a message of the flexible kind:
big-endian numbers, lengths as varints plus one, and tagged fields at the end of every struct, of
which unknown ones are skipped. There are four kinds: a segment, a change of its state, a mark of a
partition that is deleted, and a snapshot of a segment, which stands in files only.

Source: AbstractApiMessageSerde, RemoteLogSegmentMetadataRecord and its siblings, Kafka 4.3.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from twin.table import UNKNOWN
from twin.tables.enums import SegmentState

FRAME_VERSION: Final = 1
SEGMENT: Final = 0
SEGMENT_UPDATE: Final = 1
PARTITION_DELETE: Final = 2
SEGMENT_SNAPSHOT: Final = 3

_I8, _I32, _I64 = struct.Struct(">b"), struct.Struct(">i"), struct.Struct(">q")
_EPOCH = struct.Struct(">iq")
_STATES: Final = frozenset(SegmentState)


class RecordRefused(ValueError):  # noqa: N818 - what happens to the record
    """The bytes are no such record. ``reason`` is one of a few words and is counted by."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class SegmentEvent(NamedTuple):
    """What one record tells of a remote segment; an update tells no offsets and no epochs."""

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
    read = _Bytes(value)
    try:
        frame, kind, version = read.varint(), read.varint(), read.varint()
        if frame != FRAME_VERSION or version != 0:
            raise RecordRefused("version", f"frame {frame}, version {version} of type {kind}")
        event = _read(read, kind)
    except (struct.error, IndexError):
        raise RecordRefused("truncated", f"it ends after {len(value)} bytes") from None
    except UnicodeDecodeError:
        raise RecordRefused("text", "a topic name is no text") from None
    if read.at != len(value):
        raise RecordRefused("trailing", f"{len(value) - read.at} of {len(value)} bytes left over")
    return event


def _read(read: _Bytes, kind: int) -> SegmentEvent | None:
    match kind:
        case 0:
            return _segment(read)
        case 1:
            return _update(read)
        case 2:
            read.partition()
            read.take(4 + 8 + 1)  # broker, time, state
            read.tags()
            return None
        case 3:
            raise RecordRefused("type", "a snapshot record names no partition")
    raise RecordRefused("type", f"there is no type {kind}")


def _segment(read: _Bytes) -> SegmentEvent:
    topic, topic_id, partition, segment_id = read.segment()
    start, end = read.i64(), read.i64()
    read.take(4 + 8)  # broker, largest timestamp
    event_at_ms = read.i64()
    epochs, offsets = read.epochs()
    log_bytes = read.i32()
    read.skip_bytes()  # custom metadata
    state = _state(read.i8())
    read.tags()
    return SegmentEvent(
        topic, topic_id, partition, segment_id, state, event_at_ms, start, end, log_bytes,
        epochs, offsets,
    )  # fmt: skip


def _update(read: _Bytes) -> SegmentEvent:
    topic, topic_id, partition, segment_id = read.segment()
    read.take(4)  # broker
    event_at_ms = read.i64()
    read.skip_bytes()  # custom metadata
    state = _state(read.i8())
    read.tags()
    return SegmentEvent(topic, topic_id, partition, segment_id, state, event_at_ms)


def _state(number: int) -> int:
    if number not in _STATES:
        raise RecordRefused("state", f"a segment has the state {number}")
    return number


class _Bytes:
    """Reads on; beyond the end it raises IndexError or struct.error."""

    __slots__ = ("at", "value")

    def __init__(self, value: bytes) -> None:
        self.value, self.at = value, 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.value) - self.at:
            raise IndexError(count)
        taken = self.value[self.at : self.at + count]
        self.at += count
        return taken

    def varint(self) -> int:
        number = shift = 0
        while shift <= 28:
            byte = self.value[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
        raise RecordRefused("version", "a varint is longer than five bytes")

    def i8(self) -> int:
        return int(_I8.unpack(self.take(1))[0])

    def i32(self) -> int:
        return int(_I32.unpack(self.take(4))[0])

    def i64(self) -> int:
        return int(_I64.unpack(self.take(8))[0])

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    def skip_bytes(self) -> None:
        if length := self.varint():  # 0: null
            self.take(length - 1)

    def partition(self) -> tuple[str, bytes, int]:
        name = self.take(self.varint() - 1).decode()
        topic_id, number = self.take(16), self.i32()
        self.tags()
        return name, topic_id, number

    def segment(self) -> tuple[str, bytes, int, bytes]:
        name, topic_id, number = self.partition()
        segment_id = self.take(16)
        self.tags()
        return name, topic_id, number, segment_id

    def epochs(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        found = []
        for _ in range(self.varint() - 1):
            found.append(_EPOCH.unpack(self.take(12)))
            self.tags()
        return tuple(e for e, _ in found), tuple(o for _, o in found)
