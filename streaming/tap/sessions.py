"""Fetch sessions of one leader's followers, read from the lines of its request log.

After the first, full fetch of a session (KIP-227) a request names a partition only if its fetch
offset moved, and the response names one only if it has records, an error or news. So the
partitions of each session are kept here, and every fetch is evaluated for all of them:

* A fetch that waited in the purgatory found no records in any of its partitions: from its arrival
  until its completion each fetch offset was the log end offset of the leader.
* A partition without records in a response that was not full had none: the same holds for it.
* A partition whose records were there at once proves nothing about the leader's log end. If the
  response had room for more, the records probably reached the log end (a read also ends with a
  segment): the next fetch shows where they ended, and that is reported as an estimate.

Known exceptions are errors, which are reported as such, and replication throttles, which no log
shows. Of a session whose beginning was not read, a partition is unknown until it moves.

Not every fetch becomes a row: of a partition that does not move, only the last fetch counts, and
any that took long. Time is that of the log, so the same lines give the same rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streaming.tap.request_log import (
    METADATA_TOPIC_ID,
    CompletedFetch,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
)
from twin.declarations.table import UNKNOWN

REPORT_MOVED_EVERY_MS: Final = 1_000
"""How often partitions that move are reported, besides the report before each move."""

REPORT_IDLE_EVERY_MS: Final = 5_000
"""How often partitions that do not move are reported: as often as they are polled."""

SLOW_MS: Final = 1_000
"""A fetch that took this much longer than its maximum wait is reported at once, in full."""

MAX_SESSIONS: Final = 10_000
"""Ten times what the largest clusters have on one leader; the oldest are dropped beyond it."""

_INITIAL_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1

PartitionKey = tuple[str, int]  # topic id as logged, or name; partition


class FetchRow(NamedTuple):
    """One follower's fetch of one partition: a row of table ``fetches``."""

    topic: str
    partition: int
    broker: int
    broker_epoch: int
    leader_epoch: int
    arrived_at_ms: int
    completed_at_ms: int
    queue_ms: int
    local_ms: int
    remote_ms: int
    fetch_offset: int
    log_start_offset: int
    leader_end_offset: int
    leader_end_estimate_offset: int
    high_watermark: int
    error_code: int


@dataclass(slots=True)
class _FetchTiming:
    """Times of a fetch, and what it proves about the log end of the leader."""

    arrived_at_ms: int = UNKNOWN
    completed_at_ms: int = UNKNOWN
    queue_ms: int = 0
    local_ms: int = 0
    remote_ms: int = 0
    proves_leader_end: bool = False
    uncut_bytes: int = 0  # records of one partition up to this size were not cut short


@dataclass(slots=True)
class _PartitionState:
    """A partition of a session."""

    fetch_offset: int
    log_start_offset: int
    leader_epoch: int
    high_watermark: int = UNKNOWN
    reported_at_ms: int = UNKNOWN  # arrival of the last fetch of it that became a row
    moved: bool = True
    unreported: FetchRow | None = None  # a fetch with records, until the next shows their end
    had_room: bool = False  # for more records, in the response to that fetch


@dataclass(slots=True)
class _Session:
    follower: int
    follower_epoch: int
    client: str
    partitions: dict[PartitionKey, _PartitionState] = field(default_factory=dict)
    last: _FetchTiming = field(default_factory=_FetchTiming)


class FetchSessions:
    """The fetch sessions that one leader has with its followers."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[int, _Session] = OrderedDict()
        self._moved_reported_ms = UNKNOWN
        self._idle_reported_ms = UNKNOWN

    def reset(self) -> None:
        """Forget all sessions: lines were skipped, so they may be out of date."""
        self._sessions.clear()

    def apply(self, at_ms: int, line: CompletedFetch) -> Iterator[FetchRow]:
        """Rows from a completed fetch, and the rows that are due by its time."""
        request, response = line.request, line.response
        if not isinstance(request, FetchRequest) or not isinstance(response, FetchResponse):
            return
        if any(topic.key == METADATA_TOPIC_ID for topic in request.topics):
            return
        session = self._session(request, response, line.request_header.client_id or "")
        if session is None:
            return
        timing = _timing(at_ms, line, request, response)
        yield from _apply_request(session, request)
        session.last = timing
        waited = timing.remote_ms > 0 and timing.proves_leader_end
        yield from _apply_response(session, response, waited=waited)
        took_ms = timing.completed_at_ms - timing.arrived_at_ms
        # Without a session no later fetch can report this one.
        if took_ms >= request.max_wait_ms + SLOW_MS or not response.session_id:
            yield from _report_all(session)
        yield from self._due(at_ms)

    def flush(self) -> Iterator[FetchRow]:
        """All fetches that have not been reported.

        A fetch with records is reported again once the next fetch shows where they ended. It cannot
        wait for that here: a leader that hangs logs nothing, and what its followers had fetched
        before decides whether it is to blame for the ISR shrinks.
        """
        for session in self._sessions.values():
            for state in session.partitions.values():
                if state.unreported is not None:
                    yield state.unreported
            yield from _report_all(session)

    def _due(self, at_ms: int) -> Iterator[FetchRow]:
        """Rows that have to be reported by this time of the log."""
        moved = at_ms - self._moved_reported_ms >= REPORT_MOVED_EVERY_MS
        idle = at_ms - self._idle_reported_ms >= REPORT_IDLE_EVERY_MS
        if not (moved or idle):
            return
        self._moved_reported_ms = at_ms
        if idle:
            self._idle_reported_ms = at_ms
        for session in self._sessions.values():
            yield from _report_all(session, only_moved=not idle)

    def _session(
        self, request: FetchRequest, response: FetchResponse, client: str
    ) -> _Session | None:
        """The session of a fetch; None if the fetch failed or is not a follower's."""
        follower = request.replica_state.replica_id if request.replica_state else request.replica_id
        epoch = request.replica_state.replica_epoch if request.replica_state else UNKNOWN
        if follower < 0:
            return None
        if response.error_code:
            self._sessions.pop(request.session_id, None)
            return None
        if request.session_epoch in (_INITIAL_EPOCH, _FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            session = _Session(follower, epoch, client)
            if response.session_id:
                self._open(response.session_id, session)
            return session
        current = self._sessions.get(request.session_id)
        if current is None:  # its beginning was not read
            current = self._sessions[request.session_id] = _Session(follower, epoch, client)
        current.follower_epoch = epoch
        return current

    def _open(self, session_id: int, session: _Session) -> None:
        """Add a session. A fetcher thread has one at a time, so its previous session is over."""
        fetcher = session.follower, session.client
        for prev_id in [i for i, s in self._sessions.items() if (s.follower, s.client) == fetcher]:
            del self._sessions[prev_id]
        self._sessions[session_id] = session
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)


def _apply_request(session: _Session, request: FetchRequest) -> Iterator[FetchRow]:
    """Take over new fetch offsets; the fetch before is reported first, with the old ones."""
    for topic in request.topics:
        for partition in topic.partitions:
            key = topic.key, partition.partition
            state = session.partitions.get(key)
            if state is None:
                session.partitions[key] = _PartitionState(
                    partition.fetch_offset,
                    partition.log_start_offset,
                    partition.current_leader_epoch,
                    reported_at_ms=session.last.arrived_at_ms,
                )
                continue
            yield from _report_end_estimate(state, partition.fetch_offset)
            yield from _report(session, key, state)
            state.fetch_offset = partition.fetch_offset
            state.log_start_offset = partition.log_start_offset
            state.leader_epoch = partition.current_leader_epoch
            state.moved = True
    for forgotten in request.forgotten_topics_data:
        for number in forgotten.partitions:
            session.partitions.pop((forgotten.key, number), None)


def _apply_response(
    session: _Session, response: FetchResponse, *, waited: bool
) -> Iterator[FetchRow]:
    """Rows of partitions that the response names because of an error or because of records."""
    for topic in response.responses:
        for result in topic.partitions:
            key = topic.key, result.partition_index
            state = session.partitions.get(key)
            if state is None:
                continue
            if result.high_watermark >= 0:
                state.high_watermark = result.high_watermark
            size = result.records_size_in_bytes
            if result.error_code or size > 0:
                row = _row(session, key, state, result, waited and not result.error_code)
                state.reported_at_ms = session.last.arrived_at_ms
                if waited or result.error_code:
                    yield row
                else:
                    state.unreported, state.had_room = row, size <= session.last.uncut_bytes


def _report_end_estimate(state: _PartitionState, next_offset: int) -> Iterator[FetchRow]:
    """The fetch with records that has not been reported; ``next_offset`` is where they ended."""
    if state.unreported is not None:
        end = next_offset if state.had_room else UNKNOWN
        yield state.unreported._replace(leader_end_estimate_offset=end)
        state.unreported = None


def _report_all(session: _Session, *, only_moved: bool = False) -> Iterator[FetchRow]:
    for key, state in session.partitions.items():
        if state.moved or not only_moved:
            yield from _report(session, key, state)
            state.moved = False


def _report(session: _Session, key: PartitionKey, state: _PartitionState) -> Iterator[FetchRow]:
    """The last fetch of a partition, unless it has been reported."""
    if state.reported_at_ms < session.last.arrived_at_ms:
        state.reported_at_ms = session.last.arrived_at_ms
        yield _row(session, key, state, None, session.last.proves_leader_end)


def _row(
    session: _Session,
    key: PartitionKey,
    state: _PartitionState,
    result: FetchResponsePartition | None,
    is_leader_end: bool,
) -> FetchRow:
    last = session.last
    return FetchRow(
        topic=key[0],
        partition=key[1],
        broker=session.follower,
        broker_epoch=session.follower_epoch,
        leader_epoch=state.leader_epoch,
        arrived_at_ms=last.arrived_at_ms,
        completed_at_ms=last.completed_at_ms,
        queue_ms=last.queue_ms,
        local_ms=last.local_ms,
        remote_ms=last.remote_ms,
        fetch_offset=state.fetch_offset,
        log_start_offset=state.log_start_offset,
        leader_end_offset=state.fetch_offset if is_leader_end else UNKNOWN,
        leader_end_estimate_offset=state.fetch_offset if is_leader_end else UNKNOWN,
        high_watermark=state.high_watermark,
        error_code=result.error_code if result else 0,
    )


def _timing(
    at_ms: int, line: CompletedFetch, request: FetchRequest, response: FetchResponse
) -> _FetchTiming:
    """Times of a fetch. Its line is written once the response has been sent."""
    after_completion_ms = line.response_queue_time_ms + line.send_time_ms
    waited = line.remote_time_ms > 0 and request.min_bytes <= 1
    sizes = [p.records_size_in_bytes for t in response.responses for p in t.partitions]
    largest = max(
        (p.partition_max_bytes for t in request.topics for p in t.partitions), default=1 << 20
    )
    had_room = sum(sizes) + largest <= request.max_bytes and request.min_bytes <= 1
    return _FetchTiming(
        arrived_at_ms=at_ms - round(line.total_time_ms),
        completed_at_ms=at_ms - round(after_completion_ms),
        queue_ms=round(line.request_queue_time_ms),
        local_ms=round(line.local_time_ms),
        remote_ms=round(line.remote_time_ms),
        proves_leader_end=waited or had_room,
        uncut_bytes=largest // 2 if had_room else 0,
    )
