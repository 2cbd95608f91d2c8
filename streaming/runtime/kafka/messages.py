"""Reads the flexible kind of Kafka's messages, byte by byte.

Numbers are big-endian, lengths are varints plus one, and each structure ends with tagged fields.
Responses of brokers have this form, and so have the records of ``__remote_log_metadata``.

Source: KIP-482, ByteBufferAccessor and ByteUtils of Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

_CONTINUES: Final = 0x80
_LAST_SHIFT: Final = 28


class MalformedBytes(ValueError):  # noqa: N818 - what the bytes are
    """The bytes are not such a message."""


class Truncated(MalformedBytes):
    """The bytes end early."""


class OverlongVarint(MalformedBytes):
    """A varint has more than five bytes."""


class ByteReader:
    """A position in a message that moves on as it is read."""

    __slots__ = ("at", "body")

    def __init__(self, body: bytes, at: int = 0) -> None:
        self.body = body
        self.at = at

    def skip(self, count: int) -> int:
        """Move on; returns the position before.

        Raises:
            Truncated: fewer bytes are left.
        """
        before = self.at
        self.at += count
        if count < 0 or self.at > len(self.body):
            raise Truncated(f"it ends after {len(self.body)} bytes")
        return before

    def take(self, count: int) -> bytes:
        """The next bytes."""
        at = self.skip(count)
        return self.body[at : at + count]

    def number(self, width: int) -> int:
        """A signed number of that many bytes."""
        return int.from_bytes(self.take(width), "big", signed=True)

    def uvarint(self) -> int:
        """An unsigned number of one to five bytes.

        Raises:
            OverlongVarint: it has more.
        """
        value = shift = 0
        while True:
            byte = self.body[self.skip(1)]
            value |= (byte & ~_CONTINUES) << shift
            if byte < _CONTINUES:
                return value
            shift += 7
            if shift > _LAST_SHIFT:
                raise OverlongVarint("a varint has more than five bytes")

    def count(self) -> int:
        """The length of a compact array, string or byte string; 0 where it is null."""
        return max(self.uvarint() - 1, 0)

    def text(self) -> str:
        """A compact string, empty where it is null."""
        return self.take(self.count()).decode()

    def skip_tagged_fields(self) -> None:
        """The tagged fields of a structure, whatever they are."""
        for _ in range(self.uvarint()):
            self.uvarint()
            self.skip(self.uvarint())
