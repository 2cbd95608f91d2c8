"""Rows of the tables of remote segments and leader epochs that people look up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from twin.arrays.columns_in_arrow import object_array
from twin.declarations.table import SparseTable
from twin.remote_log.cache import RemoteLogMetadataCache, Segment
from twin.remote_log.epoch_history import Epochs
from twin.remote_log.segment_findings import Verdicts, verdicts
from twin.rules.tiering.remote_segments import MOST_OF_PARTITION
from twin.tables.enums import SegmentVerdict

T = TypeVar("T", bound=SparseTable)


def segment_rows(
    row: int, cache: RemoteLogMetadataCache, epochs: Epochs, log_end: int
) -> list[tuple[object, ...]]:
    """Rows of ``RemoteSegments`` for a partition, at most MOST_OF_PARTITION.

    Segments that are not on the lineage come first, then those with the highest end offset.
    """
    by_segment = verdicts(cache, epochs, log_end)
    segments = [cache.segments[segment_id] for segment_id in by_segment]
    segments.sort(key=lambda segment: _place(segment, by_segment))
    return [
        (
            row,
            segment.id,
            int(by_segment[segment.id]),
            int(segment.state),
            segment.event_at_ms,
            segment.start_offset,
            segment.end_offset,
            segment.log_bytes,
            [epoch for epoch, _ in segment.epochs],
            [offset for _, offset in segment.epochs],
        )
        for segment in segments[:MOST_OF_PARTITION]
    ]


def epoch_rows(row: int, epochs: Epochs) -> list[tuple[object, ...]]:
    """Rows of ``LeaderEpochs`` for a partition: the newest MOST_OF_PARTITION."""
    return [(row, epoch, offset) for epoch, offset in epochs[-MOST_OF_PARTITION:]]


def of_rows(table: type[T], rows: Sequence[tuple[object, ...]]) -> T:
    """A table of those rows, which are in ascending order of their partitions."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(table.columns)
    return table.from_values(
        object_array(values) if declared.dtype == object else np.array(values, declared.dtype)
        for declared, values in zip(table.columns, columns, strict=True)
    )


def _place(segment: Segment, by_segment: Verdicts) -> tuple[bool, int, bytes]:
    is_plain = by_segment[segment.id] is SegmentVerdict.ON_LINEAGE
    return is_plain, -segment.end_offset, segment.id
