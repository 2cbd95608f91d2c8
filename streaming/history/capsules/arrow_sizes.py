"""Bounds what Arrow's buffers decompress to, before they are decompressed.

A message of a few kilobytes may say that it holds terabytes, and Arrow allocates what it says. Each
compressed buffer begins with its own size; where the buffers are is in the metadata of a record
batch, a flatbuffer (Arrow columnar format, Message.fbs). Only what is needed of it is read.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

from twin.engine.frames import InvalidFrame

_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_BUFFERS: Final = 2  # the field of a RecordBatch
_COMPRESSION: Final = 3
_MOST_BUFFERS: Final = 100_000


def check(message: bytes, most_bytes: int) -> None:
    """Refuse streams whose buffers are larger, together, than that.

    Raises:
        InvalidFrame: ``bytes`` or ``size``.
    """
    source, total = pa.BufferReader(message), 0
    try:
        while source.tell() < len(message):
            for each in pa.ipc.MessageReader.open_stream(source):
                total += _expanded_bytes(each)
                if total > most_bytes:
                    raise InvalidFrame("size", f"more than {most_bytes} bytes, decompressed")
    except (pa.ArrowException, OSError, struct.error, IndexError, EOFError) as error:
        raise InvalidFrame("bytes", (str(error) or "?").splitlines()[0][:200]) from None


def _expanded_bytes(message: pa.Message) -> int:
    if message.body is None or not message.body.size:
        return 0
    table = _Table.root(message.metadata.to_pybytes())
    kind, batch = table.byte(1), table.child(2)
    if kind == _DICTIONARY_BATCH:
        batch = batch.child(1)
    elif kind != _RECORD_BATCH:
        return 0
    if not batch.has(_COMPRESSION):
        return int(message.body.size)
    total, body = 0, message.body
    for offset, size in batch.pairs(_BUFFERS):
        if size == 0:
            continue
        if size < 8 or offset < 0 or offset + size > body.size:
            raise InvalidFrame("bytes", "a buffer is outside its message")
        (expanded,) = struct.unpack("<q", body.slice(offset, 8).to_pybytes())
        total += size if expanded == -1 else abs(expanded)
    return total


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        if at < 0:
            raise IndexError("a table of a message's metadata is outside it")
        self._fields = at - self._number("<i", at)

    @staticmethod
    def root(data: bytes) -> _Table:
        return _Table(data, struct.unpack_from("<I", data, 0)[0])

    def has(self, field: int) -> bool:
        return self._place(field) is not None

    def byte(self, field: int) -> int:
        place = self._place(field)
        return 0 if place is None else self._number("<B", place)

    def child(self, field: int) -> _Table:
        return _Table(self._data, self._target(field))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """A vector of structs of two whole numbers of eight bytes."""
        if self._place(field) is None:
            return []
        begin = self._target(field)
        count = self._number("<I", begin)
        if count > _MOST_BUFFERS:
            raise IndexError("a message has too many buffers")
        return [struct.unpack_from("<qq", self._data, begin + 4 + 16 * n) for n in range(count)]

    def _target(self, field: int) -> int:
        place = self._place(field)
        if place is None:
            raise IndexError("a message's metadata lack a field")
        return place + self._number("<I", place)

    def _place(self, field: int) -> int | None:
        if self._fields < 0:
            raise IndexError("a table of a message's metadata is outside it")
        if 4 + 2 * field >= self._number("<H", self._fields):
            return None
        offset = self._number("<H", self._fields + 4 + 2 * field)
        return self._at + offset if offset else None

    def _number(self, form: str, at: int) -> int:
        if at < 0:
            raise IndexError("a message's metadata point outside them")
        number: int = struct.unpack_from(form, self._data, at)[0]
        return number
