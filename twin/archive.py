"""The remote segments of a shard's partitions, kept apart from the fleet.

They change when a segment is copied or deleted, not with every cycle, and there may be thousands a
partition. So they have a message of their own, which is read and written only when an event of
theirs comes; what they come to, a row a partition, is in the fleet (``Fleet.lineage``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from twin import frames, tables
from twin.fleet import Fleet, to_arrow
from twin.frames import Frame, FrameRefused, Stamp
from twin.rows import rows_at
from twin.rules.lineage import Epochs, References, Segment, assigned, truncated_from_start
from twin.rules.tiering import Finding, finding
from twin.sparse import Lineage
from twin.tables import UNKNOWN, SegmentState

Key = tuple[bytes, int]  # topic id and partition number

CLOCKS_MS: Final = 60_000
"""A topic may be younger than the listing that lacks it, by a broker's clock that is behind: its
segments are told once and must not be dropped."""

KINDS: Final = frozenset({"segments", "epochs"})
"""Observations that change an archive and not a fleet."""


@dataclass(frozen=True, slots=True)
class Tier:
    """What is known of one partition's remote segments and leader epochs."""

    references: References = field(default_factory=References)
    epochs: Epochs = ()
    told_at_ms: int = UNKNOWN
    metadata_offset: int = UNKNOWN  # of its newest event
    epochs_at_ms: int = UNKNOWN


Archive = Mapping[Key, Tier]


def told(archive: Archive, frame: Frame) -> tuple[Archive, frozenset[Key]]:
    """The archive after a frame, and the partitions that it changed.

    Raises:
        FrameRefused: ``stamp``, ``kind``, or ``rows`` that cannot be.
    """
    rows, at_ms = frame.rows.to_pylist(), frame.stamp.observed_at_ms
    if at_ms < 0:
        raise FrameRefused("stamp", f"observed_at_ms is {at_ms}")
    match frame.stamp.kind:
        case "segments":
            return _segments_told(archive, rows, at_ms)
        case "epochs":
            return _epochs_told(archive, rows, at_ms)
    raise FrameRefused("kind", f"{frame.stamp.kind} says nothing of remote segments")


def with_findings(fleet: Fleet, archive: Archive, changed: Iterable[Key]) -> Fleet:
    """The fleet with what its partitions' remote segments come to, made anew for the changed.

    Partitions the fleet does not have are left out until it has them (``newcomers``).
    """
    rows = dict(zip(rows_at(fleet, keys := sorted(changed)).tolist(), keys, strict=True))
    rows.pop(UNKNOWN, None)
    if not rows:
        return fleet
    end = fleet.of_leader(fleet.log_end_offset)
    start = fleet.of_leader(fleet.log_start_offset)
    local = fleet.of_leader(fleet.local_log_start_offset)
    found = []
    for row in sorted(rows):
        tier = archive[rows[row]]
        # A history is told when an epoch begins; the log's start moves on meanwhile.
        epochs = truncated_from_start(tier.epochs, int(start[row]))
        found.append(finding(tier.references, epochs, int(end[row]), int(local[row])))
    columns: dict[str, Any] = {
        f.name: np.array([getattr(one, f.name) for one in found], np.int64) for f in fields(Finding)
    }
    fresh = Lineage(row=np.array(sorted(rows), np.int32), **columns)
    others = fleet.lineage.picked(~np.isin(fleet.lineage.row, fresh.row))
    return replace(fleet, lineage=others.with_rows(fresh))


def newcomers(fleet: Fleet, archive: Archive) -> list[Key]:
    """Partitions of the archive that came into the fleet after they were told of."""
    keys = list(archive)
    row = rows_at(fleet, keys)
    new = (row != UNKNOWN) & ~np.isin(row, fleet.lineage.row)
    return [keys[i] for i in np.flatnonzero(new)]


def without_gone(archive: Archive, fleet: Fleet) -> Archive:
    """The archive less the topics that a whole listing, made since, does not have."""
    topics = set(fleet.topics.topic_id)
    stays = {
        key: tier
        for key, tier in archive.items()
        if key[0] in topics or tier.told_at_ms >= fleet.listing.whole_at_ms - CLOCKS_MS
    }
    return stays if len(stays) < len(archive) else archive


def _segments_told(
    archive: Archive, rows: list[dict[str, Any]], at_ms: int
) -> tuple[Archive, frozenset[Key]]:
    """Events up to the last one told are repeats: of a log that is read again from its start."""
    tiers = dict(archive)
    changed: set[Key] = set()
    for row in rows:
        key, offset = (row["topic_id"], row["partition"]), row["metadata_offset"]
        tier = tiers.get(key, Tier())
        if offset < 0:
            raise FrameRefused("rows", "an event of a segment has no metadata offset")
        if offset <= tier.metadata_offset:
            continue
        references = tier.references if key in changed else tier.references.copy()
        _apply(references, row)
        tiers[key] = replace(
            tier,
            references=references,
            metadata_offset=offset,
            told_at_ms=max(at_ms, tier.told_at_ms),
        )
        changed.add(key)
    return (tiers if changed else archive), frozenset(changed)


def _apply(references: References, row: dict[str, Any]) -> None:
    try:
        state = SegmentState(row["state"])
    except ValueError:
        raise FrameRefused("rows", f"a segment has the state {row['state']}") from None
    if state is not SegmentState.COPY_STARTED:
        references.update(row["segment_id"], state, row["event_at_ms"])
        return
    numbers, offsets = row["leader_epochs"], row["epoch_start_offsets"]
    if not numbers or len(numbers) != len(offsets):
        raise FrameRefused("rows", "a segment has no leader epochs, or not one offset for each")
    reached = [*offsets, row["end_offset"]]
    # An epoch in which nothing was written begins where the next one does.
    if numbers != sorted(set(numbers)) or reached != sorted(reached):
        raise FrameRefused("rows", f"a segment has the epochs {numbers} from {offsets}")
    if not 0 <= row["start_offset"] <= row["end_offset"]:
        raise FrameRefused("rows", f"a segment ends at {row['end_offset']} before it starts")
    references.add(
        Segment(
            id=row["segment_id"],
            start_offset=row["start_offset"],
            end_offset=row["end_offset"],
            epochs=tuple(zip(numbers, offsets, strict=True)),
            log_bytes=row["log_bytes"],
            state=state,
            event_at_ms=row["event_at_ms"],
        )
    )


def _epochs_told(
    archive: Archive, rows: list[dict[str, Any]], at_ms: int
) -> tuple[Archive, frozenset[Key]]:
    """The newest history of each partition holds; of two told at once, the one that is larger."""
    histories: dict[Key, Epochs] = {}
    for row in sorted(rows, key=lambda row: int(row["leader_epoch"])):
        key = row["topic_id"], row["partition"]
        if row["leader_epoch"] < 0 or row["start_offset"] < 0:
            raise FrameRefused("rows", "a leader epoch or its offset is negative")
        histories[key] = assigned(histories.get(key, ()), row["leader_epoch"], row["start_offset"])
    tiers = dict(archive)
    changed = set()
    for key, epochs in histories.items():
        known = tiers.get(key, Tier())
        if epochs != known.epochs and (at_ms, epochs) > (known.epochs_at_ms, known.epochs):
            told_at_ms = max(at_ms, known.told_at_ms)
            tiers[key] = replace(known, epochs=epochs, epochs_at_ms=at_ms, told_at_ms=told_at_ms)
            changed.add(key)
    return (tiers if changed else archive), frozenset(changed)


def encode(archive: Archive) -> bytes:
    """The archive as one message: a frame for each of its tables."""
    keys = sorted(archive)
    of_partitions: dict[str, list[Any]] = {c.name: [] for c in tables.ARCHIVE_PARTITIONS.columns}
    of_segments: dict[str, list[Any]] = {c.name: [] for c in tables.ARCHIVE_SEGMENTS.columns}
    for key in keys:
        tier = archive[key]
        tiered = tier.references.tiered_epochs()
        _add(of_partitions, key, told_at_ms=tier.told_at_ms,
             metadata_offset=tier.metadata_offset, epochs_at_ms=tier.epochs_at_ms,
             refused_transitions=tier.references.refused_transitions,
             epochs=[e for e, _ in tier.epochs], epoch_start_offsets=[o for _, o in tier.epochs],
             tiered_epochs=[e for e, _ in tiered],
             tiered_highest_offsets=[o for _, o in tiered])  # fmt: skip
        for segment in sorted(tier.references.segments.values(), key=lambda s: s.id):
            _add(of_segments, key, segment_id=segment.id, state=int(segment.state),
                 event_at_ms=segment.event_at_ms, start_offset=segment.start_offset,
                 end_offset=segment.end_offset, log_bytes=segment.log_bytes,
                 leader_epochs=[e for e, _ in segment.epochs],
                 epoch_start_offsets=[o for _, o in segment.epochs],
                 referred=tier.references.referred(segment))  # fmt: skip
    return frames.join(
        frames.encode(Frame(Stamp(table.kind, "", 0, 1, 0, 0), _arrow(table, columns)))
        for table, columns in (
            (tables.ARCHIVE_PARTITIONS, of_partitions),
            (tables.ARCHIVE_SEGMENTS, of_segments),
        )
    )


def decode(message: bytes) -> Archive:
    """The archive of a message.

    Raises:
        FrameRefused: as ``frames.decode``, or ``rows`` when the tables do not fit each other.
    """
    by_kind = {frame.stamp.kind: frame.rows.to_pylist() for frame in frames.decode(message)}
    if by_kind.keys() != tables.ARCHIVE.keys():
        raise FrameRefused("kind", f"an archive has {sorted(tables.ARCHIVE)}")
    segments: dict[Key, list[tuple[Segment, list[int]]]] = defaultdict(list)
    try:
        for row in by_kind["archive.segments"]:
            segments[row["topic_id"], row["partition"]].append((_segment(row), row["referred"]))
        archive = {
            (key := (row["topic_id"], row["partition"])): _tier(row, segments.pop(key, []))
            for row in by_kind["archive.partitions"]
        }
    except ValueError as error:  # a state that is none, or lists that do not go together
        raise FrameRefused("rows", str(error)) from None
    if segments:
        raise FrameRefused("rows", "a segment belongs to a partition that is not there")
    return archive


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


def _tier(row: dict[str, Any], segments: list[tuple[Segment, list[int]]]) -> Tier:
    tiered = zip(row["tiered_epochs"], row["tiered_highest_offsets"], strict=True)
    return Tier(
        references=References.restored(segments, tiered, row["refused_transitions"]),
        epochs=tuple(zip(row["epochs"], row["epoch_start_offsets"], strict=True)),
        told_at_ms=row["told_at_ms"],
        metadata_offset=row["metadata_offset"],
        epochs_at_ms=row["epochs_at_ms"],
    )


def _add(columns: dict[str, list[Any]], key: Key, **values: Any) -> None:
    for name, value in {"topic_id": key[0], "partition": key[1], **values}.items():
        columns[name].append(value)


def _arrow(table: tables.Table, columns: dict[str, list[Any]]) -> pa.Table:
    arrays = []
    for column in table.columns:
        values = columns[column.name]
        if pa.types.is_dictionary(column.dtype):
            arrays.append(to_arrow(column, np.array([*values, None], object)[:-1]))
        else:
            arrays.append(pa.array(values, column.dtype))
    return pa.table(arrays, schema=table.schema)
