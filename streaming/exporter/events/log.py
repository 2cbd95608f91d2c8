"""The newest events, in memory, for clients that follow them over HTTP.

One thread writes events that it reads from the bus; streams in the web server's event loop read
them. A ``Position`` has the next offset of each partition of the events topic, so it is valid for
every exporter of the bus, also after a restart. Only so many events are kept: a stream that falls
behind them gets an event that names the gap.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from streaming.bus.record import Record
from streaming.bus.view import Event
from twin.declarations.table import UNKNOWN

KEPT: Final = 10_000
KEPT_BYTES: Final = 16 << 20
"""An event is some 500 bytes; a message of the bus may have a megabyte."""

PULL_BYTES: Final = 64 << 10
"""About as much as a connection buffers, which bounds the memory for a slow reader."""

Position = dict[int, int]
"""The next offset of each partition of the events topic."""


def position_text(position: Position) -> str:
    """A position as the id of an event, e.g. ``0:17,1:4``."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(position.items()))


def position_of(text: str) -> Position:
    """The position for an id, which must have the right form."""
    pairs = (pair.split(":") for pair in text.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


@dataclass(frozen=True, slots=True)
class Entry:
    """An event and its place in the topic."""

    partition: int
    offset: int
    event: Event
    data: bytes  # its JSON, unchanged from the bus


@dataclass(slots=True)
class Cursor:
    """The place of a stream; without a position it begins with the next event."""

    position: Position | None = None
    number: int = 0  # number of the next entry, counted from the first one
    topics: int = UNKNOWN  # position of the log when the cursor moved last

    @property
    def id(self) -> str:
        """The id of the last entry passed; empty before the cursor has a place."""
        return position_text(self.position or {})

    def pass_by(self, entry: Entry) -> None:
        """Move behind an entry that was sent or filtered out."""
        assert self.position is not None
        self.position[entry.partition] = entry.offset + 1


@dataclass(frozen=True, slots=True)
class PulledEntries:
    """The entries that follow a cursor's old place; the cursor has moved behind them."""

    entries: Sequence[Entry] = ()
    missed: bool = False  # entries before these are missing
    more: bool = False  # there are more entries


class EventLog:
    """Keeps the newest events. ``begin``, ``take`` and ``publish`` belong to the reading thread."""

    def __init__(self, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept, self._kept_bytes = kept, kept_bytes
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._first = 0  # number of the first entry
        self._next: Position = {}  # what the thread reads next
        self._floor: Position = {}  # all events from there on are kept
        self._topics = 0
        self.is_ready = False
        self._wakers: set[Callable[[], object]] = set()
        self.is_closed = False

    # ------------------------------------------------------------ the reading thread

    def begin(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        """Note that reading begins at the first of these offsets, and that the topic ends at the
        second."""
        with self._lock:
            if any(self._next.get(p, 0) > end for p, (_, end) in ranges.items()):
                # The topic was recreated: its offsets have another meaning.
                self._first += len(self._entries)
                self._entries.clear()
                self._bytes, self._next, self._floor = 0, {}, {}
                self._topics += 1
            share = max(self._kept // max(len(ranges), 1), 1)
            for partition, (start, end) in ranges.items():
                if partition not in self._next:
                    self._next[partition] = start
                    self._floor[partition] = max(start, end - share)
                elif start > self._next[partition]:
                    self._next[partition] = self._floor[partition] = start

    def take(self, record: Record, event: Event | None) -> None:
        """Take a record of the topic; ``event`` is None for repeats and other clusters' events."""
        partition, offset = record.partition, record.offset
        with self._lock:
            is_known = offset < self._next.get(partition, 0)  # it is read again
            self._next[partition] = max(self._next.get(partition, 0), offset + 1)
            if event is None or is_known or offset < self._floor.setdefault(partition, 0):
                return
            self._entries.append(Entry(partition, offset, event, record.value or b""))
            self._bytes += len(self._entries[-1].data)
            while len(self._entries) > self._kept or self._bytes > self._kept_bytes:
                gone = self._entries.popleft()
                self._first += 1
                self._bytes -= len(gone.data)
                self._floor[gone.partition] = gone.offset + 1

    def publish(self, *, is_ready: bool = True) -> None:
        """Wake the streams. None begins before the topic has been read to its end."""
        self.is_ready = self.is_ready or is_ready
        self._wake()

    # ------------------------------------------------------------ streams

    def pull(self, cursor: Cursor) -> PulledEntries:
        """The next entries, about PULL_BYTES of them."""
        if not self.is_ready:
            return PulledEntries()
        with self._lock:
            if cursor.position is None:
                cursor.position = dict(self._next)
                cursor.number, cursor.topics = self._end, self._topics
                return PulledEntries()
            missed = self._catch_up(cursor, cursor.position)
            taken: list[Entry] = []
            size = 0
            for entry in islice(self._entries, cursor.number - self._first, None):
                if size > PULL_BYTES:
                    break
                cursor.number += 1
                if entry.offset >= cursor.position.get(entry.partition, 0):
                    taken.append(entry)
                    size += len(entry.data)
            return PulledEntries(taken, missed, cursor.number < self._end)

    def _catch_up(self, cursor: Cursor, position: Position) -> bool:
        """Move the cursor to the first kept entry; true if it missed some."""
        cursor.number = max(cursor.number, self._first)
        is_another_topic = cursor.topics not in (UNKNOWN, self._topics)
        cursor.topics = self._topics
        missed = False
        for partition, floor in self._floor.items():
            at = position.get(partition, 0)
            if is_another_topic or at < floor or at > self._next[partition]:
                missed, position[partition] = True, floor
        return missed

    @property
    def _end(self) -> int:
        return self._first + len(self._entries)

    def close(self) -> None:
        """End all present and future streams. May be called by a signal handler."""
        self.is_closed = True
        self._wake()

    def _wake(self) -> None:
        for waker in tuple(self._wakers):
            with suppress(RuntimeError):  # the loop has ended
                waker()

    @contextmanager
    def waking(self) -> Iterator[asyncio.Event]:
        """An event of the running loop that is set when there is more, or when the log closes."""
        woken, loop = asyncio.Event(), asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(woken.set)

        self._wakers.add(wake)
        try:
            yield woken
        finally:
            self._wakers.discard(wake)
