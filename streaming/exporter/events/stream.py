"""Events as a response that does not end: server-sent events.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from streaming.bus.view import Event
from streaming.exporter.events.log import Cursor, EventLog, PulledEntries

MEDIA_TYPE: Final = "text/event-stream"

HEARTBEAT_S: Final = 15.0
"""Proxies close connections on which nothing is sent for a minute or less."""

MAX_STREAMS: Final = 100

_RETRY_MS: Final = 2_000
_GAP: Final = b'{"text":"events were missed: they are no longer kept. Read the state anew."}'


@dataclass(slots=True)
class StreamCounts:
    """Counts of streams and gaps; only touched in the event loop."""

    open: int = 0
    gaps: int = 0


class EventStream(StreamingResponse):
    """Sends the events after a cursor that a filter accepts, until one side ends the stream."""

    def __init__(
        self,
        log: EventLog,
        cursor: Cursor,
        accepts: Callable[[Event], bool],
        counts: StreamCounts,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        # Buffering proxies would hold events back.
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(self._chunks(), headers=headers, media_type=MEDIA_TYPE)
        self._log, self._cursor, self._accepts = log, cursor, accepts
        self._counts, self._heartbeat_s = counts, heartbeat_s
        self._sent_id = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client disconnects or the log closes."""
        self._counts.open += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._counts.open -= 1

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield b"retry: %d\n\n" % _RETRY_MS
        with self._log.waking() as woken:
            while True:
                pulled = self._log.pull(self._cursor)
                if chunk := self._chunk(pulled):
                    yield chunk
                if pulled.more:
                    continue
                if self._log.is_closed:
                    return
                try:
                    async with asyncio.timeout(self._heartbeat_s):
                        await woken.wait()
                except TimeoutError:
                    yield b": nothing new\n\n"
                woken.clear()

    def _chunk(self, pulled: PulledEntries) -> bytes:
        """The entries as text; for entries that are filtered out, only the id moves on."""
        blocks = []
        if pulled.missed:
            self._counts.gaps += 1
            blocks.append(self._block(_GAP, b"event: gap\n"))
        for entry in pulled.entries:
            self._cursor.pass_by(entry)
            if self._accepts(entry.event):
                blocks.append(self._block(entry.data))
        if self._cursor.id != self._sent_id:
            # Send the id without an event: a client that reconnects begins here.
            blocks.append(self._id() + b"\n")
        return b"".join(blocks)

    def _block(self, data: bytes, kind: bytes = b"") -> bytes:
        lines = b"".join(b"data: %b\n" % line for line in data.splitlines())
        return kind + self._id() + lines + b"\n"

    def _id(self) -> bytes:
        self._sent_id = self._cursor.id
        return b"id: %b\n" % self._sent_id.encode()
