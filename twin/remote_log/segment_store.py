"""The remote segments of a shard's partitions, kept apart from the shard's state.

They change when a segment is copied or deleted, not with every cycle, and a partition may have
thousands. So they have a message of their own, which is read and written only when one of their
events comes. The table ``lineage`` of the state sums them up, one row per partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from twin.arrays.columns_in_arrow import object_array, to_arrow
from twin.declarations.table import (
    UNKNOWN,
    Int8,
    Int32,
    Int32List,
    Int64,
    Int64List,
    Observation,
    SegmentId,
    SparseTable,
    Table,
    UInt8List,
    Uuid,
    column,
)
from twin.engine import frames
from twin.engine.frames import Frame, FrameHeader, InvalidFrame
from twin.engine.rows import rows_at
from twin.engine.shard_state import ShardState
from twin.remote_log.cache import RemoteLogMetadataCache, Segment
from twin.remote_log.epoch_history import Epochs, assigned, truncated_from_start
from twin.remote_log.listed import epoch_rows, of_rows, segment_rows
from twin.remote_log.segment_findings import judge
from twin.rules.partitions.leaders import Leaders
from twin.rules.tiering.gaps import RemoteGaps
from twin.rules.tiering.lineage import Lineage
from twin.rules.tiering.remote_segments import (
    LeaderEpochs,
    RemoteSegments,
    bounded_epochs,
    bounded_segments,
)
from twin.tables.enums import SegmentState
from twin.tables.state import Topics

Key = tuple[bytes, int]  # topic id and partition number

T = TypeVar("T", bound=SparseTable)

TOPIC_AGE_SKEW_MS: Final = 60_000
"""A topic may be younger than the listing that lacks it, by a broker's clock that is behind: its
segments are reported once and must not be dropped."""

KINDS: Final = frozenset({"segments", "epochs"})
"""Observations that change a store and not a shard's state."""


class StoredPartitions(Observation, kind="archive.partitions"):
    """State of remote segments: one row a partition that has some, or a known history."""

    topic_id: Uuid = column("topic id, 16 bytes", fill=b"")
    partition: Int32 = column("partition number")
    updated_at_ms: Int64 = column("when anything of it was last observed")
    metadata_offset: Int64 = column("its last event; those up to it are repeats")
    epochs_at_ms: Int64 = column("when its history was observed")
    refused_transitions: Int64 = column("events that no segment can go through", fill=0)
    epochs: Int32List = column("its leader epochs", fill=())
    epoch_start_offsets: Int64List = column("first offset of each", fill=())
    tiered_epochs: Int32List = column("epochs of which something was copied", fill=())
    tiered_highest_offsets: Int64List = column("highest offset of each that was", fill=())


class StoredSegments(Observation, kind="archive.segments"):
    """State of remote segments: one row a segment."""

    topic_id: Uuid = column("topic id, 16 bytes", fill=b"")
    partition: Int32 = column("partition number")
    segment_id: SegmentId = column("remote log segment id", fill=b"")
    state: Int8 = column("state that it reached", enum=SegmentState)
    event_at_ms: Int64 = column("when it reached that state")
    start_offset: Int64 = column("first offset; unknown where no event described the copy")
    end_offset: Int64 = column("last offset")
    log_bytes: Int64 = column("size of its records")
    leader_epochs: Int32List = column("leader epochs of its records", fill=())
    epoch_start_offsets: Int64List = column("first offset of each", fill=())
    referred: UInt8List = column("whether each refers to it (ReferenceState)", fill=())


TABLES: Final[dict[str, type[Observation]]] = {
    table.kind: table for table in (StoredPartitions, StoredSegments)
}


@dataclass(frozen=True, slots=True)
class RemoteLogState:
    """The remote segments and leader epochs of one partition."""

    cache: RemoteLogMetadataCache = field(default_factory=RemoteLogMetadataCache)
    # Finished copies whose start is no longer in the log of metadata: nobody knows their offsets.
    undescribed: frozenset[bytes] = frozenset()
    epochs: Epochs = ()
    updated_at_ms: int = UNKNOWN
    metadata_offset: int = UNKNOWN  # of its newest event
    epochs_at_ms: int = UNKNOWN


SegmentStore = Mapping[Key, RemoteLogState]


def apply(store: SegmentStore, frame: Frame) -> tuple[SegmentStore, frozenset[Key]]:
    """The store after a frame, and the partitions that it changed.

    Raises:
        InvalidFrame: ``header``, ``kind``, or ``rows`` with impossible values.
    """
    rows, at_ms = frame.rows.to_pylist(), frame.header.observed_at_ms
    if at_ms < 0:
        raise InvalidFrame("header", f"observed_at_ms is {at_ms}")
    match frame.header.kind:
        case "segments":
            return _apply_segments(store, rows, at_ms)
        case "epochs":
            return _apply_epochs(store, rows, at_ms)
    raise InvalidFrame("kind", f"{frame.header.kind} is not about remote segments")


def with_findings(state: ShardState, store: SegmentStore, changed: Iterable[Key]) -> ShardState:
    """The state with the lineage of its partitions, computed again for those that changed.

    Partitions that the state does not have are left out until it has them.
    """
    rows = dict(zip(rows_at(state, listed := sorted(changed)).tolist(), listed, strict=True))
    rows.pop(UNKNOWN, None)
    if not rows:
        return state
    leaders = state[Leaders]
    findings, listed_segments, listed_epochs = [], [], []
    for row in sorted(rows):
        remote = store[rows[row]]
        # A history is reported when an epoch begins; the log's start moves on meanwhile.
        epochs = truncated_from_start(remote.epochs, int(leaders.log_start_offset[row]))
        end, local = int(leaders.log_end_offset[row]), int(leaders.local_log_start_offset[row])
        findings.append(judge(remote.cache, epochs, end, local, len(remote.undescribed)))
        listed_segments += segment_rows(row, remote.cache, epochs, end)
        listed_epochs += epoch_rows(row, epochs)
    columns: dict[str, Any] = {
        c.name: np.array([getattr(one, c.name) for one in findings], np.int64)
        for c in Lineage.columns[1:]
    }
    fresh = Lineage(row=np.array(sorted(rows), np.int32), **columns)
    by_row = zip(sorted(rows), (one.gaps for one in findings), strict=True)
    gaps = np.array([(at, *gap) for at, each in by_row for gap in each], np.int64).reshape(-1, 3).T
    return state.with_tables(
        _with_fresh(state[Lineage], fresh, fresh.row),
        _with_fresh(state[RemoteGaps], RemoteGaps(gaps[0].astype(np.int32), *gaps[1:]), fresh.row),
        bounded_segments(
            _with_fresh(state[RemoteSegments], of_rows(RemoteSegments, listed_segments), fresh.row)
        ),
        bounded_epochs(
            _with_fresh(state[LeaderEpochs], of_rows(LeaderEpochs, listed_epochs), fresh.row)
        ),
    )


def _with_fresh(table: T, fresh: T, rows: Int32) -> T:
    """The table with new rows in place of those of the partitions ``rows``."""
    return table.pick(~np.isin(table.row, rows)).with_rows(fresh)


def unjudged_partitions(state: ShardState, store: SegmentStore) -> list[Key]:
    """Partitions of the store that came into the state after their segments were reported."""
    listed = list(store)
    row = rows_at(state, listed)
    new = (row != UNKNOWN) & ~np.isin(row, state[Lineage].row)
    return [listed[i] for i in np.flatnonzero(new)]


def drop_deleted_topics(store: SegmentStore, state: ShardState) -> SegmentStore:
    """The store without topics that a whole listing, made since, does not have."""
    topics = set(state[Topics].topic_id)
    oldest_ms = state.listing.whole_at_ms - TOPIC_AGE_SKEW_MS
    stays = {
        key: remote
        for key, remote in store.items()
        if key[0] in topics or remote.updated_at_ms >= oldest_ms
    }
    return stays if len(stays) < len(store) else store


def _apply_segments(
    store: SegmentStore, rows: list[dict[str, Any]], at_ms: int
) -> tuple[SegmentStore, frozenset[Key]]:
    """Apply new events; events up to the last known one are repeats of a log that is read again."""
    updated = dict(store)
    changed: set[Key] = set()
    for row in rows:
        key, offset = (row["topic_id"], row["partition"]), row["metadata_offset"]
        remote = updated.get(key, RemoteLogState())
        if offset < 0:
            raise InvalidFrame("rows", "an event of a segment has no metadata offset")
        if offset <= remote.metadata_offset:
            continue
        cache = remote.cache if key in changed else remote.cache.copy()
        updated[key] = replace(
            remote,
            cache=cache,
            undescribed=_apply_event(cache, remote.undescribed, row),
            metadata_offset=offset,
            updated_at_ms=max(at_ms, remote.updated_at_ms),
        )
        changed.add(key)
    return (updated if changed else store), frozenset(changed)


def _apply_event(
    cache: RemoteLogMetadataCache, undescribed: frozenset[bytes], row: dict[str, Any]
) -> frozenset[bytes]:
    """Give the event to the cache; returns the finished copies that no event describes.

    Where old events are deleted or compacted (KIP-1266), the start of a copy may be missing, or
    its end may describe it.
    """
    segment_id: bytes = row["segment_id"]
    try:
        state = SegmentState(row["state"])
    except ValueError:
        raise InvalidFrame("rows", f"a segment has the state {row['state']}") from None
    if state is SegmentState.COPY_STARTED or row["end_offset"] != UNKNOWN:
        started = _started_copy(row)
        if state is SegmentState.COPY_STARTED or segment_id not in cache.segments:
            cache.add(started)
        undescribed -= {segment_id}
    if state is SegmentState.COPY_STARTED:
        return undescribed
    if segment_id in cache.segments:
        cache.update(segment_id, state, row["event_at_ms"])
    elif state is SegmentState.COPY_FINISHED:
        undescribed |= {segment_id}
    elif state is SegmentState.DELETE_FINISHED:
        undescribed -= {segment_id}
    return undescribed


def _started_copy(row: dict[str, Any]) -> Segment:
    numbers, offsets = row["leader_epochs"], row["epoch_start_offsets"]
    if not numbers or len(numbers) != len(offsets):
        raise InvalidFrame("rows", "a segment has no leader epochs, or not one offset for each")
    reached = [*offsets, row["end_offset"]]
    # An epoch in which nothing was written begins where the next one does.
    if numbers != sorted(set(numbers)) or reached != sorted(reached):
        raise InvalidFrame("rows", f"a segment has the epochs {numbers} from {offsets}")
    if not 0 <= row["start_offset"] <= row["end_offset"]:
        raise InvalidFrame("rows", f"a segment ends at {row['end_offset']} before it starts")
    return Segment(
        id=row["segment_id"],
        start_offset=row["start_offset"],
        end_offset=row["end_offset"],
        epochs=tuple(zip(numbers, offsets, strict=True)),
        log_bytes=row["log_bytes"],
        event_at_ms=row["event_at_ms"],
    )


def _apply_epochs(
    store: SegmentStore, rows: list[dict[str, Any]], at_ms: int
) -> tuple[SegmentStore, frozenset[Key]]:
    """Keep the newest history of each partition; of two from the same time, the larger one."""
    histories: dict[Key, Epochs] = {}
    for row in sorted(rows, key=lambda row: int(row["leader_epoch"])):
        key = row["topic_id"], row["partition"]
        if row["leader_epoch"] < 0 or row["start_offset"] < 0:
            raise InvalidFrame("rows", "a leader epoch or its offset is negative")
        histories[key] = assigned(histories.get(key, ()), row["leader_epoch"], row["start_offset"])
    updated = dict(store)
    changed = set()
    for key, epochs in histories.items():
        old = updated.get(key, RemoteLogState())
        if epochs != old.epochs and (at_ms, epochs) > (old.epochs_at_ms, old.epochs):
            updated_at_ms = max(at_ms, old.updated_at_ms)
            updated[key] = replace(
                old, epochs=epochs, epochs_at_ms=at_ms, updated_at_ms=updated_at_ms
            )
            changed.add(key)
    return (updated if changed else store), frozenset(changed)


def encode(store: SegmentStore) -> bytes:
    """The store as one message: a frame for each of its tables."""
    keys = sorted(store)
    of_partitions: dict[str, list[Any]] = {c.name: [] for c in StoredPartitions.columns}
    of_segments: dict[str, list[Any]] = {c.name: [] for c in StoredSegments.columns}
    for key in keys:
        remote = store[key]
        tiered = remote.cache.tiered_epochs()
        _add(of_partitions, key, updated_at_ms=remote.updated_at_ms,
             metadata_offset=remote.metadata_offset, epochs_at_ms=remote.epochs_at_ms,
             refused_transitions=remote.cache.refused_transitions,
             epochs=[e for e, _ in remote.epochs],
             epoch_start_offsets=[o for _, o in remote.epochs],
             tiered_epochs=[e for e, _ in tiered],
             tiered_highest_offsets=[o for _, o in tiered])  # fmt: skip
        for segment in sorted(remote.cache.segments.values(), key=lambda s: s.id):
            _add(of_segments, key, segment_id=segment.id, state=int(segment.state),
                 event_at_ms=segment.event_at_ms, start_offset=segment.start_offset,
                 end_offset=segment.end_offset, log_bytes=segment.log_bytes,
                 leader_epochs=[e for e, _ in segment.epochs],
                 epoch_start_offsets=[o for _, o in segment.epochs],
                 referred=remote.cache.referred(segment))  # fmt: skip
        for segment_id in sorted(remote.undescribed):
            _add(of_segments, key, segment_id=segment_id, state=int(SegmentState.COPY_FINISHED),
                 event_at_ms=UNKNOWN, start_offset=UNKNOWN, end_offset=UNKNOWN, log_bytes=UNKNOWN,
                 leader_epochs=[], epoch_start_offsets=[], referred=[])  # fmt: skip
    return frames.join(
        frames.encode(
            Frame(FrameHeader(table.kind, "", 0, 1, 0, 0), _arrow(table, columns)), TABLES
        )
        for table, columns in (
            (StoredPartitions, of_partitions),
            (StoredSegments, of_segments),
        )
    )


def decode(message: bytes) -> SegmentStore:
    """The store of a message.

    Raises:
        InvalidFrame: as ``frames.decode``, or ``rows`` when the tables do not fit each other.
    """
    decoded = frames.decode(message, TABLES)
    if decoded.invalid:
        raise decoded.invalid[0]
    by_kind = {frame.header.kind: frame.rows.to_pylist() for frame in decoded.frames}
    if by_kind.keys() != TABLES.keys():
        raise InvalidFrame("kind", f"an store has {sorted(TABLES)}")
    segments: dict[Key, list[tuple[Segment, list[int]]]] = defaultdict(list)
    try:
        for row in by_kind["archive.segments"]:
            segments[row["topic_id"], row["partition"]].append((_segment(row), row["referred"]))
        store = {
            (key := (row["topic_id"], row["partition"])): _remote(row, segments.pop(key, []))
            for row in by_kind["archive.partitions"]
        }
    except ValueError as error:  # not a valid state, or lists that do not fit together
        raise InvalidFrame("rows", str(error)) from None
    if segments:
        raise InvalidFrame("rows", "a segment belongs to a partition that is not there")
    return store


def _segment(row: dict[str, Any]) -> Segment:
    return Segment(
        id=row["segment_id"],
        start_offset=row["start_offset"],
        end_offset=row["end_offset"],
        epochs=tuple(zip(row["leader_epochs"], row["epoch_start_offsets"], strict=True)),
        log_bytes=row["log_bytes"],
        state=SegmentState(row["state"]),
        event_at_ms=row["event_at_ms"],
    )


def _remote(row: dict[str, Any], segments: list[tuple[Segment, list[int]]]) -> RemoteLogState:
    tiered = zip(row["tiered_epochs"], row["tiered_highest_offsets"], strict=True)
    described = [one for one in segments if one[0].start_offset != UNKNOWN]
    return RemoteLogState(
        cache=RemoteLogMetadataCache.restored(described, tiered, row["refused_transitions"]),
        undescribed=frozenset(s.id for s, _ in segments if s.start_offset == UNKNOWN),
        epochs=tuple(zip(row["epochs"], row["epoch_start_offsets"], strict=True)),
        updated_at_ms=row["updated_at_ms"],
        metadata_offset=row["metadata_offset"],
        epochs_at_ms=row["epochs_at_ms"],
    )


def _add(columns: dict[str, list[Any]], key: Key, **values: Any) -> None:
    for name, value in {"topic_id": key[0], "partition": key[1], **values}.items():
        columns[name].append(value)


def _arrow(table: type[Table], columns: dict[str, list[Any]]) -> pa.Table:
    arrays = []
    for declared in table.columns:
        values = columns[declared.name]
        if pa.types.is_dictionary(declared.arrow):
            arrays.append(to_arrow(declared, object_array(values)))
        else:
            arrays.append(pa.array(values, declared.arrow))
    return pa.table(arrays, schema=table.schema())
