"""What the fetches of one leader's followers tell, from the lines of its request log.

After the first, full fetch of a session (KIP-227) a partition is named only when its fetch position
moved, and answered only when there is something to say. So each session's partitions are kept, and
a fetch speaks of all of them:

* One that waited in the purgatory found nothing for any of its partitions: each fetch offset was
  the leader's log end from the arrival until it left.
* A partition without records in an answer that was not full had none: the same holds for it.
* A partition with records that were there at once tells nothing for certain of where the leader's
  log ends. Had the answer room for more, the records probably went up to it (a read also ends with
  a segment): the next fetch tells where they ended, and that is given as an estimate.

Known exceptions are errors, which are told as such, and replication throttles, which no log shows.
A session whose beginning was not seen knows nothing of its partitions until they move.

Rows are made lazily: of a partition that stays where it is only the last fetch counts, and one that
took long. Time is the log's own, so the same lines give the same rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streaming.tap.lines import METADATA_TOPIC_ID, FetchAnswer, Fetched, FetchRequest, FetchResponse
from twin.tables import UNKNOWN

MOVED_EVERY_MS: Final = 1_000
"""Partitions that move are told of this often, besides each move."""

IDLE_EVERY_MS: Final = 5_000
"""Partitions that stay where they are: as often as they are polled."""

SLOW_MS: Final = 1_000
"""A fetch that took so much longer than it meant to wait is told of at once, for all it names."""

MOST_SESSIONS: Final = 10_000
"""Ten times what the largest clusters have on one leader; what is older was evicted long ago."""

_FIRST_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1

Place = tuple[str, int]  # topic id as logged, or name; partition


class Row(NamedTuple):
    """One follower's fetch of one partition, as the table ``fetches`` has it."""

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
class _Timing:
    """When a fetch was what, and whether it proves where the leader's log ended."""

    arrived_at_ms: int = UNKNOWN
    completed_at_ms: int = UNKNOWN
    queue_ms: int = 0
    local_ms: int = 0
    remote_ms: int = 0
    proves: bool = False
    room_bytes: int = 0  # a partition's answer up to this was not cut short


@dataclass(slots=True)
class _State:
    """A partition of a session."""

    fetch_offset: int
    log_start_offset: int
    leader_epoch: int
    high_watermark: int = UNKNOWN
    told_at_ms: int = UNKNOWN  # arrival of the last fetch of it that was told of
    moved: bool = True
    answered: Row | None = None  # a fetch with records; told once it shows where they ended
    had_room: bool = False


@dataclass(slots=True)
class _Session:
    follower: int
    follower_epoch: int
    client: str
    places: dict[Place, _State] = field(default_factory=dict)
    last: _Timing = field(default_factory=_Timing)


class Sessions:
    """The fetch sessions that one leader has with its followers."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[int, _Session] = OrderedDict()
        self._moved_told_ms = UNKNOWN
        self._idle_told_ms = UNKNOWN

    def __len__(self) -> int:
        return len(self._sessions)

    def forget(self) -> None:
        """Lines are missing: nothing that was known can be relied on."""
        self._sessions.clear()

    def take(self, at_ms: int, fetched: Fetched) -> Iterator[Row]:
        """What a completed fetch tells, and what is due by its time."""
        request, response = fetched.request, fetched.response
        if not isinstance(request, FetchRequest) or not isinstance(response, FetchResponse):
            return
        if any(topic.key == METADATA_TOPIC_ID for topic in request.topics):
            return
        session = self._session(request, response, fetched.request_header.client_id or "")
        if session is None:
            return
        timing = _timing(at_ms, fetched, request, response)
        yield from self._asked(session, request)
        session.last = timing
        yield from _answered(session, response, waited=timing.remote_ms > 0 and timing.proves)
        took_ms = timing.completed_at_ms - timing.arrived_at_ms
        # Without a session this was the only fetch of its kind.
        if took_ms >= request.max_wait_ms + SLOW_MS or not response.session_id:
            yield from _all_of(session)
        yield from self.due(at_ms)

    def due(self, at_ms: int) -> Iterator[Row]:
        """What is to be told by that time of the log."""
        moved = at_ms - self._moved_told_ms >= MOVED_EVERY_MS
        idle = at_ms - self._idle_told_ms >= IDLE_EVERY_MS
        if not (moved or idle):
            return
        self._moved_told_ms = at_ms
        if idle:
            self._idle_told_ms = at_ms
        for session in self._sessions.values():
            yield from _all_of(session, only_moved=not idle)

    def rest(self) -> Iterator[Row]:
        """All that has not been told yet.

        A fetch with records is told again once the next one shows where they ended: a leader that
        stands still is quiet, and what its followers had by then decides who is to blame.
        """
        for session in self._sessions.values():
            for state in session.places.values():
                if state.answered is not None:
                    yield state.answered
            yield from _all_of(session)

    def _session(
        self, request: FetchRequest, response: FetchResponse, client: str
    ) -> _Session | None:
        """The session the fetch belongs to; None where it tells nothing."""
        follower = request.replica_state.replica_id if request.replica_state else request.replica_id
        epoch = request.replica_state.replica_epoch if request.replica_state else UNKNOWN
        if follower < 0:
            return None
        if response.error_code:
            self._sessions.pop(request.session_id, None)
            return None
        if request.session_epoch in (_FIRST_EPOCH, _FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            session = _Session(follower, epoch, client)
            if response.session_id:
                # The fetcher's old session is dead: it has one at a time.
                for number in [n for n, s in self._sessions.items()
                               if (s.follower, s.client) == (follower, client)]:  # fmt: skip
                    del self._sessions[number]
                self._sessions[response.session_id] = session
                if len(self._sessions) > MOST_SESSIONS:
                    self._sessions.popitem(last=False)
            return session
        known = self._sessions.get(request.session_id)
        if known is None:
            known = self._sessions[request.session_id] = _Session(follower, epoch, client)
        known.follower_epoch = epoch
        return known

    def _asked(self, session: _Session, request: FetchRequest) -> Iterator[Row]:
        """Take over the positions that moved; what was true before is told first."""
        for topic in request.topics:
            for place in topic.partitions:
                key = topic.key, place.partition
                state = session.places.get(key)
                if state is None:
                    state = session.places[key] = _State(
                        place.fetch_offset, place.log_start_offset, place.current_leader_epoch
                    )
                    state.told_at_ms = session.last.arrived_at_ms
                    continue
                yield from _with_records(state, place.fetch_offset)
                yield from _told(session, key, state)
                state.fetch_offset = place.fetch_offset
                state.log_start_offset = place.log_start_offset
                state.leader_epoch = place.current_leader_epoch
                state.moved = True
        for gone in request.forgotten_topics_data:
            for number in gone.partitions:
                session.places.pop((gone.key, number), None)


def _answered(session: _Session, response: FetchResponse, *, waited: bool) -> Iterator[Row]:
    """What the answer says of single partitions: errors, and records."""
    for topic in response.responses:
        for answer in topic.partitions:
            key = topic.key, answer.partition_index
            state = session.places.get(key)
            if state is None:
                continue
            if answer.high_watermark >= 0:
                state.high_watermark = answer.high_watermark
            size = answer.records_size_in_bytes
            if answer.error_code or size > 0:
                row = _row(session, key, state, answer, waited and not answer.error_code)
                state.told_at_ms = session.last.arrived_at_ms
                if waited or answer.error_code:
                    yield row
                else:
                    state.answered, state.had_room = row, size <= session.last.room_bytes


def _with_records(state: _State, next_offset: int) -> Iterator[Row]:
    """The fetch with records that waits to be told of, once it shows where they ended."""
    if state.answered is not None:
        ended = next_offset if state.had_room else UNKNOWN
        yield state.answered._replace(leader_end_estimate_offset=ended)
        state.answered = None


def _all_of(session: _Session, *, only_moved: bool = False) -> Iterator[Row]:
    for key, state in session.places.items():
        if state.moved or not only_moved:
            yield from _told(session, key, state)
            state.moved = False


def _told(session: _Session, key: Place, state: _State) -> Iterator[Row]:
    """The last fetch of a partition, unless it has been told of."""
    if state.told_at_ms < session.last.arrived_at_ms:
        state.told_at_ms = session.last.arrived_at_ms
        yield _row(session, key, state, None, session.last.proves)


def _row(
    session: _Session, key: Place, state: _State, answer: FetchAnswer | None, ends_here: bool
) -> Row:
    last = session.last
    return Row(
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
        leader_end_offset=state.fetch_offset if ends_here else UNKNOWN,
        leader_end_estimate_offset=state.fetch_offset if ends_here else UNKNOWN,
        high_watermark=state.high_watermark,
        error_code=answer.error_code if answer else 0,
    )


def _timing(
    at_ms: int, fetched: Fetched, request: FetchRequest, response: FetchResponse
) -> _Timing:
    """Times of a fetch. The line is written once the answer is on its way."""
    after_ms = fetched.response_queue_time_ms + fetched.send_time_ms
    waited = fetched.remote_time_ms > 0 and request.min_bytes <= 1
    sent = [p.records_size_in_bytes for t in response.responses for p in t.partitions]
    largest = max((p.partition_max_bytes for t in request.topics for p in t.partitions),
                  default=1 << 20)  # fmt: skip
    had_room = sum(sent) + largest <= request.max_bytes and request.min_bytes <= 1
    return _Timing(
        arrived_at_ms=at_ms - round(fetched.total_time_ms),
        completed_at_ms=at_ms - round(after_ms),
        queue_ms=round(fetched.request_queue_time_ms),
        local_ms=round(fetched.local_time_ms),
        remote_ms=round(fetched.remote_time_ms),
        proves=waited or had_room,
        room_bytes=largest // 2 if had_room else 0,
    )
