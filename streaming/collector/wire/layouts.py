"""Reads responses that consist of fixed-size records, with numpy instead of the codec.

The response of a broker has the same shape from cycle to cycle: the same topics in the same order,
each partition a record of fixed size. A ``Layout`` is made from one response: the positions of its
values, and all other bytes. It fits another response when those other bytes are the same, bit for
bit; then the values are read in one step, without parsing any topic. ``KeptLayouts``
keeps them from one cycle to the next. A response of an unusual shape is ``Irregular``, and the
codec reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streaming.runtime.kafka.messages import ByteReader, MalformedBytes

Array = NDArray[Any]


class Irregular(MalformedBytes):
    """The response has a structure that these readers do not know: the codec reads it."""


class LayoutCursor(ByteReader):
    """Reads a response that must not have tagged fields."""

    __slots__ = ()

    def no_tags(self) -> None:
        """Move to the end of a structure.

        Raises:
            Irregular: the structure has tagged fields.
        """
        if self.body[self.skip(1)]:
            raise Irregular("the response has tagged fields")

    def end(self) -> None:
        """Check that the response ends here.

        Raises:
            Irregular: bytes are left over.
        """
        self.no_tags()
        if self.at != len(self.body):
            raise Irregular("the response is longer than its fields")


def places(at: Array | Sequence[int], offset: int, width: int) -> Array:
    """[K, width] the positions of a value's bytes in K records that begin at ``at``."""
    return np.asarray(at, np.intp).reshape(-1, 1) + np.arange(offset, offset + width)


def values(body: Array, at: Array) -> Array:
    """[K] the signed numbers at these positions ([K, width])."""
    width = at.shape[1]
    return body.take(at).view(f">i{width}")[:, 0].astype(f"=i{width}")


class Layout:
    """All bytes of a response except its values."""

    __slots__ = ("_fixed", "_template")

    def __init__(self, body: bytes, variable: Sequence[Array]) -> None:
        """Take a response, and the positions of its values."""
        self._fixed = np.full(len(body), 0xFF, np.uint8)
        for at in variable:
            self._fixed[at.ravel()] = 0
        self._template = np.frombuffer(body, np.uint8) & self._fixed

    def fits(self, body: Array) -> bool:
        """Whether a response has its values at the same positions."""
        return len(body) == len(self._template) and np.array_equal(
            body & self._fixed, self._template
        )


L = TypeVar("L", bound=Layout)


class KeptLayouts(dict[int, L]):
    """Layouts of the responses to requests about the same things, by request."""

    def find(self, request: int, body: bytes, make: Callable[[], L]) -> L | None:
        """The kept layout, else that of another request if it fits, else a new one.

        None if the response is irregular: only the codec can read it.
        """
        raw = np.frombuffer(body, np.uint8)
        for layout in (self.get(request), *self.values()):
            if layout is not None and layout.fits(raw):
                self[request] = layout
                return layout
        try:
            self[request] = made = make()
        except MalformedBytes:
            return None
        return made


def topic_records(
    cursor: LayoutCursor, raw: Array, record_bytes: int
) -> Iterator[tuple[str, Array]]:
    """The topics of a list, each with the positions of the records of its partitions.

    A record begins with the partition's number and ends with tagged fields, which must be empty.

    Raises:
        MalformedBytes: the response ends early, or a record has tagged fields.
    """
    for _ in range(cursor.count()):
        name = cursor.text()
        count = cursor.count()
        at = cursor.skip(count * record_bytes) + record_bytes * np.arange(count)
        if raw[at + record_bytes - 1].any():
            raise Irregular("a partition has tagged fields")
        yield name, at
        cursor.no_tags()


def partition_numbers(raw: Array, at: Array) -> Array:
    """[K] the numbers with which the records at these positions begin."""
    return values(raw, places(at, 0, 4))


def joined(arrays: Iterable[Array]) -> Array:
    """The positions or rows of several topics, one after the other."""
    return np.concatenate([np.zeros(0, np.intp), *arrays])
