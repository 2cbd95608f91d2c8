"""Five offsets of every replica, from the replica itself: ListOffsets with replica id -2.

The answer to -6 has the leader epoch of that offset as well.

-1 is the end of the log, -2 its start, -4 its start on disk (v8), -5 the last offset known to be in
remote storage (v9), -6 the first one that is not (v11, Kafka 4.2). A follower answers -5 and -6
from its own state, which is up to one task interval behind the leader's (measured).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from streaming.collector.about import About, Needed
from streaming.collector.listing import Array, BrokerReplicas, ListedPlacement
from streaming.collector.problem import Problem, from_code, is_lasting
from streaming.collector.reading import Answers, Reading
from streaming.collector.source import EveryBrokerSource, Setup
from streaming.collector.wire.connections import EncodedRequest, Versions, negotiate_version
from streaming.collector.wire.layouts import (
    KeptLayouts,
    Layout,
    LayoutCursor,
    joined,
    partition_numbers,
    places,
    topic_records,
    values,
)
from twin.arrays.plain import counted
from twin.declarations.table import UNKNOWN
from twin.tables.enums import PendingUpload

OFFSETS: Final = About(
    "offsets",
    "the offsets of such replicas; their last values become stale",
    needs=(Needed(ListOffsetsRequest, "Kafka 0.10.1", lowest=1),),
)

LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -4, -5, -6

SINCE: Final = {LATEST: 1, EARLIEST: 1, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, PENDING_UPLOAD: 11}
"""First version that supports each kind. The end of the log comes first: it is compared between
brokers, so all brokers should read it at the same moment."""

DEBUGGING_REPLICA: Final = -2
"""With this replica id only, a follower answers for its own log, up to its own end."""

READ_UNCOMMITTED: Final = 0

Read = tuple[Array, Array, Array, Array]
"""[n] replicas, their error codes, offsets, and leader epochs."""

NOT_ASKED: Final = -32_768
"""In place of an error code: the broker does not support this kind."""

_UNSUPPORTED_VERSION: Final = 35
_UNSET: Final = bytes.fromhex("fffefdfcfbfaf9f8")
"""Placeholder of the kind in a request that is encoded once. Not UTF-8, so not in any name."""

_FIRST_FLEXIBLE: Final = 6
_RECORD_BYTES: Final = 27  # partition 4, error 2, timestamp 8, offset 8, leader epoch 4, tags 1
_ERROR_AT, _TIMESTAMP_AT, _OFFSET_AT, _EPOCH_AT = 4, 6, 14, 22


@dataclass(frozen=True, slots=True)
class ReplicaOffsets(Reading):
    """The replicas' own offsets. Shapes: [N] replicas of the placement."""

    answered: Array
    log_start: Array
    local_start: Array
    log_end: Array
    last_tiered: Array
    pending_upload: Array
    pending_upload_is: Array  # PendingUpload
    pending_upload_epoch: Array
    error_code: Array

    @property
    def replica_columns(self) -> Mapping[str, Array]:
        """The offsets of each replica's own log."""
        return {
            "log_start_offset": self.log_start,
            "local_log_start_offset": self.local_start,
            "log_end_offset": self.log_end,
            "last_tiered_offset": self.last_tiered,
            "pending_upload_offset": self.pending_upload,
            "pending_upload": self.pending_upload_is,
            "pending_upload_leader_epoch": self.pending_upload_epoch,
            "error_code": self.error_code,
        }

    @property
    def answered_replicas(self) -> Array:
        """[N] the replicas with a response; the others get no row, so they keep their last
        values."""
        return self.answered


class OffsetSource(EveryBrokerSource):
    """Keeps the requests to each broker, and the layouts of its responses."""

    about = (OFFSETS,)
    problems: tuple[Problem, ...] = ()  # in this cycle

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read in each cycle."""
        return cls(setup.config.collector.deadline_ms, setup.client_id)

    def __init__(self, deadline_ms: int, client_id: str) -> None:
        self._deadline_ms = deadline_ms
        self._client_id = client_id
        self._brokers: dict[int, BrokerOffsets] = {}

    def requests(
        self, broker: int, versions: Versions, placement: ListedPlacement
    ) -> list[EncodedRequest]:
        """One request for each kind, for all replicas of a broker; none if it has no replica."""
        version = negotiate_version(versions, ListOffsetsRequest)
        kept = self._brokers.get(broker)
        if kept is None or kept.placement is not placement or kept.version != version:
            kept = self._brokers[broker] = BrokerOffsets(placement, broker, version)
            if version is not None and len(kept.replicas.rows):
                kept.encode(self._deadline_ms, self._client_id)
        return kept.requests

    def read(self, placement: ListedPlacement, answers: Answers) -> ReplicaOffsets:
        """Read the responses of each broker; a broker that lacks one has no rows."""
        total = len(placement.broker)
        offset = {kind: np.full(total, UNKNOWN, np.int64) for kind in SINCE}
        error = {kind: np.full(total, NOT_ASKED, np.int16) for kind in SINCE}
        epoch = np.full(total, UNKNOWN, np.int32)
        answered = np.zeros(total, bool)
        for broker, bodies in answers.items():
            kept = self._brokers[broker]
            if not kept.requests or any(body is None for body in bodies):
                continue
            for kind, body in zip(kept.kinds, bodies, strict=True):
                assert body is not None
                rows, codes, offsets, epochs = kept.read(kind, body)
                error[kind][rows] = codes
                offset[kind][rows] = np.where(codes == 0, offsets, UNKNOWN)
                if kind == LATEST:
                    answered[rows] = True
                elif kind == PENDING_UPLOAD:
                    epoch[rows] = np.where((codes == 0) & (offsets >= 0), epochs, UNKNOWN)
        replica_offsets = _combined(answered, offset, error, epoch)
        self.problems = tuple(_lasting_errors(placement, replica_offsets.error_code))
        return replica_offsets

    def forget(self, brokers: Collection[int]) -> None:
        """Drop the requests to all brokers except these."""
        for broker in self._brokers.keys() - set(brokers):
            del self._brokers[broker]


def _lasting_errors(placement: ListedPlacement, error_code: Array) -> Iterator[Problem]:
    """One problem for each broker and lasting error; retriable ones appear only in the rows."""
    failed = np.flatnonzero(error_code)
    pairs = np.stack([placement.broker[failed], error_code[failed]], axis=1)
    different, counts = np.unique(pairs, axis=0, return_counts=True)
    for (broker, code), count in zip(different.tolist(), counts.tolist(), strict=True):
        if is_lasting(code):
            yield from_code(
                OFFSETS.name, code, f"no offsets of {counted(count, 'replica')}", broker
            )


class BrokerOffsets:
    """The requests to one broker, and the layouts of its responses.

    ``replica_id`` and ``isolation_level`` are those of the requests.
    """

    replica_id = DEBUGGING_REPLICA
    isolation_level = READ_UNCOMMITTED
    since: Mapping[int, int] = SINCE

    def __init__(
        self,
        placement: ListedPlacement,
        broker: int,
        version: int | None,
        replicas: BrokerReplicas | None = None,
    ) -> None:
        """Ask about ``replicas``; None means all replicas of the broker."""
        self.placement = placement
        self.version = version
        self.replicas = placement.replicas_on(broker) if replicas is None else replicas
        self.kinds: list[int] = []
        self.requests: list[EncodedRequest] = []
        self.layouts: KeptLayouts[ListOffsetsLayout] = KeptLayouts()  # by kind

    def encode(self, deadline_ms: int, client_id: str) -> None:
        """Encode the request once; the kinds differ in one number for each partition."""
        assert self.version is not None
        self.kinds = [kind for kind, since in self.since.items() if self.version >= since]
        unset = int.from_bytes(_UNSET, "big", signed=True)
        once = EncodedRequest.encode(self.request(unset, deadline_ms), self.version, client_id)
        count = len(self.replicas.rows)
        self.requests = [
            once.replaced(_UNSET, kind.to_bytes(8, "big", signed=True), count)
            for kind in self.kinds
        ]

    def request(self, kind: int, deadline_ms: int) -> Any:
        """The request for one kind, in kafka-python's classes."""
        topic = ListOffsetsRequest.ListOffsetsTopic
        return ListOffsetsRequest(
            replica_id=self.replica_id,
            isolation_level=self.isolation_level,
            timeout_ms=deadline_ms,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.ListOffsetsPartition(
                            partition_index=p, current_leader_epoch=-1, timestamp=kind
                        )
                        for p in self.replicas.partition[start:stop].tolist()
                    ],
                )
                for name, (start, stop) in self.replicas.span.items()
            ],
        )

    def read(self, kind: int, body: bytes) -> Read:
        """[n] replicas, their error codes, offsets, and the leader epochs of these."""
        assert self.version is not None
        if self.version >= _FIRST_FLEXIBLE:
            # Usually the responses for all kinds have the same shape.
            layout = self.layouts.find(kind, body, lambda: ListOffsetsLayout(body, self.replicas))
            if layout is not None:
                return layout.read(np.frombuffer(body, np.uint8))
        return decoded(body, self.version, self.replicas)


class ListOffsetsLayout(Layout):
    """Positions of the numbers in responses of one shape.

    Raises:
        MalformedBytes: the response ends early or has tagged fields.
    """

    __slots__ = ("_epoch_at", "_error_at", "_offset_at", "_rows")

    def __init__(self, body: bytes, replicas: BrokerReplicas) -> None:
        cursor = LayoutCursor(body)
        throttle = cursor.skip(4)
        raw = np.frombuffer(body, np.uint8)
        topics = [*topic_records(cursor, raw, _RECORD_BYTES)]
        cursor.end()
        at = joined(at for _, at in topics)
        row = joined(replicas.find(name, partition_numbers(raw, at)) for name, at in topics)
        error_at, offset_at = places(at, _ERROR_AT, 2), places(at, _OFFSET_AT, 8)
        timestamp_at, epoch_at = places(at, _TIMESTAMP_AT, 8), places(at, _EPOCH_AT, 4)
        numbers = [places([throttle], 0, 4), error_at, timestamp_at, offset_at, epoch_at]
        super().__init__(body, numbers)
        in_request = row >= 0
        self._rows, self._error_at = row[in_request], error_at[in_request]
        self._offset_at, self._epoch_at = offset_at[in_request], epoch_at[in_request]

    def read(self, raw: Array) -> Read:
        """The numbers of a response that has this layout, as ``BrokerOffsets.read`` returns
        them."""
        return (
            self._rows,
            values(raw, self._error_at),
            values(raw, self._offset_at),
            values(raw, self._epoch_at),
        )


def decoded(body: bytes, version: int, replicas: BrokerReplicas) -> Read:
    """The same numbers, read by the codec."""
    response = ListOffsetsResponse.decode(body, version=version)
    rows, codes, offsets, epochs = [np.zeros(0, np.intp)], [], [], []
    for topic in response.topics:
        numbers = np.fromiter((p.partition_index for p in topic.partitions), np.int64)
        rows.append(replicas.find(topic.name, numbers))
        codes += [p.error_code for p in topic.partitions]
        offsets += [p.offset for p in topic.partitions]
        epochs += [p.leader_epoch for p in topic.partitions]
    row = np.concatenate(rows)
    in_request = row >= 0
    return (
        row[in_request],
        np.array(codes, np.int16)[in_request],
        np.array(offsets, np.int64)[in_request],
        np.array(epochs, np.int32)[in_request],
    )


def _combined(
    answered: Array, offset: Mapping[int, Array], error: Mapping[int, Array], epoch: Array
) -> ReplicaOffsets:
    local_start = offset[EARLIEST_LOCAL]
    error_code = np.zeros(len(answered), np.int16)
    for kind in (EARLIEST_LOCAL, EARLIEST, LATEST):  # the last value wins
        code = error[kind]
        failed = (code != NOT_ASKED) & (code != 0) & (code != _UNSUPPORTED_VERSION)
        error_code[failed] = code[failed]
    # The log end was read first. Since then the log start may have moved, but not beyond the end.
    log_end = np.where(offset[LATEST] == UNKNOWN, UNKNOWN, np.maximum(offset[LATEST], local_start))
    return ReplicaOffsets(
        answered=answered,
        log_start=offset[EARLIEST],
        local_start=local_start,
        log_end=log_end,
        last_tiered=offset[LATEST_TIERED],
        pending_upload=offset[PENDING_UPLOAD],
        pending_upload_is=pending_upload_is(
            answered=error[PENDING_UPLOAD] == 0,
            tiered_answered=error[LATEST_TIERED] == 0,
            pending=offset[PENDING_UPLOAD],
            last_tiered=offset[LATEST_TIERED],
            log_start=offset[EARLIEST],
            local_start=local_start,
            log_end=log_end,
        ),
        pending_upload_epoch=epoch,
        error_code=error_code,
    )


def pending_upload_is(
    *,
    answered: Array,
    tiered_answered: Array,
    pending: Array,
    last_tiered: Array,
    log_start: Array,
    local_start: Array,
    log_end: Array,
) -> Array:
    """[N] why the first offset not in remote storage is what it is (PendingUpload).

    ``answered`` and ``tiered_answered`` are true where -6 and -5 were answered. Kafka answers -1 to
    -6 when remote storage is off, when everything is tiered (ReplicaManager.fetchOffset suppresses
    an offset at the log end) and when the replica does not know yet what is tiered. Measured on
    4.3.1. From Kafka 3.9 on -5 alone says that nothing is tiered.
    """
    tiered = last_tiered >= 0
    # A log start above the tier moves the answer up to itself (fetchEarliestPendingUploadOffset).
    all_tiered = tiered & (np.maximum(last_tiered + 1, log_start) == log_end)
    learning = tiered | ((local_start > log_start) & (log_start != UNKNOWN))
    return np.select(
        [pending >= 0, ~tiered_answered, ~answered & learning, all_tiered, learning],
        [
            PendingUpload.KNOWN,
            PendingUpload.ABSENT,
            PendingUpload.ABSENT,
            PendingUpload.ALL_TIERED,
            PendingUpload.LEARNING,
        ],
        PendingUpload.NOTHING_TIERED,
    ).astype(np.int8)
