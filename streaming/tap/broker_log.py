"""Turns the log lines of one broker into rows of observations.

Reads no clock and sends nothing: the same lines give the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from streaming.tap.isr_changes import IsrChange, IsrTracker, LeaderShrinks
from streaming.tap.log_lines import (
    FollowerLine,
    InvalidLineError,
    LeaderShrinkLine,
    LoadedLogLine,
    TruncationLine,
    UncleanElectionLine,
    parse,
)
from streaming.tap.request_log import (
    EARLIEST_PENDING_UPLOAD,
    CompletedAlterPartition,
    CompletedFetch,
    CompletedListOffsets,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from streaming.tap.sessions import FetchRow, FetchSessions
from twin.declarations.table import UNKNOWN, Table
from twin.tables.observations import (
    FetchesFrame,
    IsrChangesFrame,
    LoggedUncleanElectionsFrame,
    PendingUploadLookupsFrame,
    TruncatedLogsFrame,
)


class PendingUploadLookup(NamedTuple):
    """A follower's request for the earliest pending upload offset, and its answer."""

    topic: str
    partition: int
    broker: int
    at_ms: int
    pending_upload_offset: int
    error_code: int


class TruncatedLog(NamedTuple):
    """A log that the broker truncated after it had loaded it at its start."""

    topic: str
    partition: int
    at_ms: int
    end_offset: int
    to_offset: int


class LoggedUncleanElection(NamedTuple):
    """A leader that a controller elected from outside the ISR and the ELR."""

    topic: str
    partition: int
    broker: int
    leader_epoch: int
    at_ms: int


class BrokerLogParser:
    """Parses one broker's logs, and holds the rows until the caller takes them.

    Attributes:
        broker: id of the broker whose logs they are.
        lines: how many lines were read.
        invalid_lines: how many of these could not be parsed, by reason.
        fetches, isr_changes, pending_upload_lookups, truncated_logs, unclean_elections: the rows;
            the caller empties the lists.
        at_ms: the newest time of a line.
    """

    def __init__(self, broker: int, zone: ZoneInfo | None = None) -> None:
        self.broker = broker
        self.lines = 0
        self.invalid_lines: Counter[str] = Counter()
        self.fetches: list[FetchRow] = []
        self.isr_changes: list[IsrChange] = []
        self.pending_upload_lookups: list[PendingUploadLookup] = []
        self.truncated_logs: list[TruncatedLog] = []
        self.unclean_elections: list[LoggedUncleanElection] = []
        self.at_ms = UNKNOWN
        self._zone = zone
        self._sessions = FetchSessions()
        self._isrs = IsrTracker()
        self._shrinks = LeaderShrinks()
        self._loaded: dict[tuple[str, int], int] = {}  # log ends at the start, until it follows
        self._unappended: dict[tuple[str, int], int] = {}  # the same, since it follows

    def feed(self, line: bytes) -> None:
        """Parse one line; a line that cannot be parsed is counted in ``invalid_lines``."""
        self.lines += 1
        try:
            parsed = parse(line, self._zone)
        except InvalidLineError as error:
            self.invalid_lines[error.reason] += 1
            return
        if parsed is None:
            return
        at_ms, content = parsed
        self.at_ms = max(self.at_ms, at_ms)
        if isinstance(content, CompletedFetch):
            self.fetches.extend(self._sessions.apply(at_ms, content))
        elif isinstance(content, CompletedListOffsets):
            self.pending_upload_lookups.extend(_pending_upload_lookups(at_ms, content))
        elif isinstance(content, CompletedAlterPartition):
            self.isr_changes.extend(self._isrs.apply(at_ms, content))
        elif isinstance(content, LeaderShrinkLine):
            self._shrinks.propose(at_ms, content)
        elif isinstance(content, FollowerLine):
            self._shrinks.follow(content)
            self._follow(content)
        elif isinstance(content, LoadedLogLine):
            self._loaded[content.topic, content.partition] = content.log_end_offset
        elif isinstance(content, TruncationLine):
            self._truncate(at_ms, content)
        elif isinstance(content, UncleanElectionLine):
            self.unclean_elections.append(
                LoggedUncleanElection(
                    content.topic, content.partition, content.leader, content.leader_epoch, at_ms
                )
            )
        else:
            self.isr_changes.extend(self._shrinks.agree(content))
        self.isr_changes.extend(self._shrinks.settled(at_ms))

    def _follow(self, line: FollowerLine) -> None:
        """A follower truncates before it appends; once it follows anew, it may have appended."""
        for key in line.partitions & (self._loaded.keys() | self._unappended.keys()):
            self._unappended.pop(key, None)
            if key in self._loaded:
                self._unappended[key] = self._loaded.pop(key)

    def _truncate(self, at_ms: int, line: TruncationLine) -> None:
        """Make a row of the first truncation of a log that the broker has just loaded."""
        end_offset = self._unappended.pop((line.topic, line.partition), UNKNOWN)
        if end_offset > line.to_offset:
            row = TruncatedLog(line.topic, line.partition, at_ms, end_offset, line.to_offset)
            self.truncated_logs.append(row)

    def reset_sessions(self) -> None:
        """Forget fetch sessions and ISRs: lines were skipped, so all may be out of date."""
        self._sessions.reset()
        self._isrs.reset()
        self._shrinks.reset()
        self._loaded.clear()
        self._unappended.clear()

    def flush(self) -> None:
        """Make rows of what waits for a later line: there may be none for a while."""
        self.fetches.extend(self._sessions.flush())

    def settle(self) -> None:
        """Make rows of shrinks whose outcome a later line could show: there may be none."""
        self.isr_changes.extend(self._shrinks.settled())

    def rows_by_table(self) -> Iterator[tuple[type[Table], list[Any]]]:
        """The lists of rows that were not taken yet, with the table of each."""
        yield FetchesFrame, self.fetches
        yield IsrChangesFrame, self.isr_changes
        yield PendingUploadLookupsFrame, self.pending_upload_lookups
        yield TruncatedLogsFrame, self.truncated_logs
        yield LoggedUncleanElectionsFrame, self.unclean_elections

    @property
    def row_count(self) -> int:
        """The number of rows that were not taken yet."""
        return sum(len(rows) for _, rows in self.rows_by_table())


def _pending_upload_lookups(
    at_ms: int, line: CompletedListOffsets
) -> Iterator[PendingUploadLookup]:
    request, response = line.request, line.response
    if not isinstance(request, ListOffsetsRequest) or not isinstance(response, ListOffsetsResponse):
        return
    requested = {
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if partition.timestamp == EARLIEST_PENDING_UPLOAD
    }
    for topic in response.topics:
        for result in topic.partitions:
            if (topic.name, result.partition_index) in requested:
                yield PendingUploadLookup(
                    topic.name, result.partition_index, request.replica_id,
                    at_ms - round(line.total_time_ms), result.offset, result.error_code,
                )  # fmt: skip
