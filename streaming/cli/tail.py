"""``kafka-twin tail``: prints each frame or event of a bus topic as one readable line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.record import Record
from streaming.runtime.config import Config
from twin.arrays.plain import counted
from twin.engine import frames
from twin.engine.frames import InvalidFrame

_WAIT_MS = 500


def tail(
    config: Config,
    which: str,
    start: Literal["beginning", "end"] | str,
    limit: int | None,
    out: TextIO,
) -> None:
    """Print a bus topic from its beginning or its end on, until Ctrl-C or that many lines.

    Raises:
        BusError: the topic cannot be read.
    """
    topic: str = getattr(bus_topics.topics(config), which)
    printed = 0
    with Reader(config, [topic], "beginning" if start == "beginning" else "end") as reader:
        try:
            while limit is None or printed < limit:
                for record in reader.poll(_WAIT_MS):
                    for line in lines(record, which, time.time() * 1_000):
                        if limit is not None and printed >= limit:
                            return
                        print(line, file=out, flush=True)
                        printed += 1
        except (KeyboardInterrupt, BrokenPipeError):
            return


def lines(record: Record, which: str, now_ms: float) -> Iterator[str]:
    """The lines for one message of the bus topic ``which``."""
    place = f"{record.partition}:{record.offset}"
    if record.value is None:
        yield f"{_clock(record.timestamp_ms)} {place} {_text(record.key)} removed"
    elif which == "events":
        yield _event(record, place)
    else:
        yield from _frames(record, place, now_ms)


def _frames(record: Record, place: str, now_ms: float) -> Iterator[str]:
    assert record.value is not None
    try:
        headers = frames.headers(record.value)
    except InvalidFrame as error:
        yield f"{_clock(record.timestamp_ms)} {place} {_text(record.key)} unreadable: {error}"
        return
    for header, rows in headers:
        words = [
            _clock(header.observed_at_ms),
            place,
            f"{header.cluster}/{header.shard}",
            f"{header.kind:<16}",
            counted(rows, "row"),
            f"cycle {header.cycle}",
            f"{(now_ms - header.observed_at_ms) / 1_000:.1f} s old",
            # The size is that of the message: the sizes of single frames are not known here.
            f"{len(record.value) / 1_000:.1f} kB" + (" together" if len(headers) > 1 else ""),
        ]
        if header.parts > 1:
            words.append(f"part {header.part + 1} of {header.parts}")
        if not header.complete:
            words.append("incomplete")
        yield " ".join(words)


def _event(record: Record, place: str) -> str:
    assert record.value is not None
    try:
        event: dict[str, Any] = msgspec.json.decode(record.value, type=dict[str, Any])
        return f"{_clock(int(event['at_ms']))} {event['cluster']} {event['kind']}: {event['text']}"
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return f"{_clock(record.timestamp_ms)} {place} unreadable: {record.value[:100]!r}"


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(key: bytes | None) -> str:
    return "-" if key is None else key.decode("utf-8", "replace")
