"""Reads fixed-size answers with numpy instead of the codec.

An answer of a broker has the same shape from cycle to cycle: the same topics in the same order,
each partition a record of fixed size. A ``Layout`` is learnt from one answer: where its values
stand, and what all other bytes are. It fits another answer when those other bytes are the same, bit
for bit; then the values are gathered in one step, without a look at a single topic. Whatever has an
unusual shape is ``Irregular``, and the codec reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_CONTINUES: Final = 0x80


class Irregular(ValueError):  # noqa: N818 - says what the answer is
    """The answer has tagged fields or ends early: not for this reader."""


class Cursor:
    """A place in an answer that moves on as it is read. Flexible versions of Kafka's protocol."""

    __slots__ = ("at", "body")

    def __init__(self, body: bytes, at: int = 0) -> None:
        self.body = body
        self.at = at

    def skip(self, count: int) -> int:
        """Move on; returns the place before."""
        before = self.at
        self.at += count
        if count < 0 or self.at > len(self.body):
            raise Irregular("the answer ends early")
        return before

    def uvarint(self) -> int:
        """An unsigned number of one to five bytes."""
        value, shift = 0, 0
        while True:
            byte = self.body[self.skip(1)]
            value |= (byte & ~_CONTINUES) << shift
            if byte < _CONTINUES:
                return value
            shift += 7
            if shift > 28:
                raise Irregular("a length has more than five bytes")

    def count(self) -> int:
        """The number of elements of a compact array; nothing where it is null."""
        return max(self.uvarint() - 1, 0)

    def text(self) -> str:
        """A compact string, empty where it is null."""
        size = self.count()
        at = self.skip(size)
        return self.body[at : at + size].decode()

    def number(self, width: int) -> int:
        """A signed number of that many bytes."""
        at = self.skip(width)
        return int.from_bytes(self.body[at : at + width], "big", signed=True)

    def no_tags(self) -> None:
        """The end of a structure, which must not have tagged fields."""
        if self.body[self.skip(1)]:
            raise Irregular("the answer has tagged fields")

    def end(self) -> None:
        """The end of the answer."""
        self.no_tags()
        if self.at != len(self.body):
            raise Irregular("the answer is longer than its fields")


def places(at: Array | Sequence[int], offset: int, width: int) -> Array:
    """[K, width] the places of a value in K records that begin at ``at``."""
    return np.asarray(at, np.intp).reshape(-1, 1) + np.arange(offset, offset + width)


def values(body: Array, at: Array) -> Array:
    """[K] the signed numbers at these places ([K, width])."""
    width = at.shape[1]
    return body.take(at).view(f">i{width}")[:, 0].astype(f"=i{width}")


class Layout:
    """What all bytes of an answer are, except its values."""

    __slots__ = ("_fixed", "_template")

    def __init__(self, body: bytes, variable: Sequence[Array]) -> None:
        """Learn from an answer and the places of its values."""
        self._fixed = np.full(len(body), 0xFF, np.uint8)
        for at in variable:
            self._fixed[at.ravel()] = 0
        self._template = np.frombuffer(body, np.uint8) & self._fixed

    def fits(self, body: Array) -> bool:
        """This answer has its values at the same places."""
        return len(body) == len(self._template) and np.array_equal(
            body & self._fixed, self._template
        )
