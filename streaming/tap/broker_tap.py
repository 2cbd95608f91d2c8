"""The logs of one broker: reading them, parsing them, and counting what happens to the rows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import structlog

from streaming.tap.broker_log import BrokerLogParser
from streaming.tap.encode import Deployment, Resolve, RowCounts, messages
from streaming.tap.isr_changes import SETTLED_MS
from streaming.tap.log_lines import KAFKA_BEFORE_3_0
from streaming.tap.sources import LineSource

IDLE_S: Final = 1.0
"""Without a line for this long, rows that wait for a later line are sent as they are."""

MAX_ROWS: Final = 200_000
"""Rows of one table that wait to be sent; the oldest beyond this number are dropped."""

_TOO_OLD: Final = "the broker is older than Kafka 3.0: its lines about fetches cannot be read"

log = structlog.get_logger("tap")


class BrokerTap:
    """Reads the logs of one broker.

    Attributes:
        parser: makes rows of the lines.
        rows: how many rows were encoded, by table.
        sent: how many messages were given to the bus.
        dropped: what was not sent, by ``rows``, ``unknown_topic`` and ``messages``.
    """

    def __init__(
        self, parser: BrokerLogParser, sources: Sequence[LineSource], max_rows: int = MAX_ROWS
    ) -> None:
        """Let at most ``max_rows`` of a table wait; the oldest are dropped."""
        self.parser = parser
        self.sources = tuple(sources)
        self._max_rows = max_rows
        self.rows: Counter[str] = Counter()
        self.sent = 0
        self.dropped: Counter[str] = Counter()
        self._problems = [""] * len(self.sources)
        self._last_line_s = time.monotonic()
        self._is_flushed = True
        self._is_too_old = False

    @property
    def ended(self) -> bool:
        """The sources have no other line, now or later."""
        return all(source.ended for source in self.sources)

    @property
    def skipped_bytes(self) -> int:
        """Bytes of the logs that were written faster than they could be read."""
        return sum(source.skipped_bytes for source in self.sources)

    @property
    def behind_bytes(self) -> int:
        """Bytes of the logs that are written and have not been read."""
        return sum(source.behind_bytes for source in self.sources)

    def read(self) -> bool:
        """Parse the lines that there are now; false if there are none."""
        has_lines = False
        for i, source in enumerate(self.sources):
            lines = source.lines()
            if source.gap:
                source.gap = False
                self.parser.reset_sessions()
            for line in lines:
                self.parser.feed(line)
            has_lines |= bool(lines)
            what = f"{source.name} of broker {self.parser.broker}"
            log_problem(what, self._problems[i], source.problem)
            self._problems[i] = source.problem
        if self.parser.invalid_lines[KAFKA_BEFORE_3_0] and not self._is_too_old:
            self._is_too_old = True
            log_problem(f"request log of broker {self.parser.broker}", "", _TOO_OLD)
        if has_lines:
            self._last_line_s, self._is_flushed = time.monotonic(), False
        return has_lines

    def messages(
        self, deployment: Deployment, resolve: Resolve, *, flush: bool
    ) -> Iterator[tuple[int, bytes]]:
        """Shard and message of the rows so far.

        Args:
            deployment: the twin that the messages are for.
            resolve: the topic of a name or of an id; rows wait while it answers ``LATER``.
            flush: include rows that wait for a later line; done anyway after ``IDLE_S``, and after
                ``SETTLED_MS`` for shrinks that may be in vain.
        """
        parser = self.parser
        idle_s = time.monotonic() - self._last_line_s
        is_idle = idle_s >= IDLE_S
        if flush or (is_idle and not self._is_flushed):
            parser.flush()
            self._is_flushed = True
        if flush or idle_s * 1_000 >= SETTLED_MS:
            parser.settle()
        for _, rows in parser.rows_by_table():
            excess = len(rows) - self._max_rows
            if excess > 0:
                self.dropped["rows"] += excess
                del rows[:excess]
        yield from messages(deployment, parser, resolve, RowCounts(self.rows, self.dropped))

    def log_summary(self) -> None:
        """Log what has been counted since the start."""
        log.info(
            "summary",
            broker=self.parser.broker,
            lines=self.parser.lines,
            rows=dict(self.rows),
            invalid_lines=dict(self.parser.invalid_lines),
            dropped={name: count for name, count in self.dropped.items() if count},
            skipped_bytes=self.skipped_bytes,
        )


def log_problem(what: str, before: str, now: str) -> None:
    """Log a problem when it comes and when it is over, and not while it lasts."""
    if now == before:
        return
    if now:
        log.warning("unavailable", what=what, why=now)
    else:
        log.info("recovered", what=what)
