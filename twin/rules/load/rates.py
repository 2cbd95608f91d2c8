"""Bytes a second that producers append to each partition, and that each group reads of it.

Both are records a second times the mean size of a record on the leader's disk, so as large as they
are on the wire if brokers do not compress records anew.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import rule
from twin.declarations.table import UNKNOWN, Float64, PartitionTable, SparseTable, column
from twin.rules.groups.moves import GroupMoves
from twin.rules.partitions.growth import Growth, RecordSizes


class AppendedBytes(
    PartitionTable, kind="appended_bytes", on_demand="a product of stored rates and sizes"
):
    """[P] how many bytes a second are appended to each partition."""

    appended_bytes_per_s: Float64 = column(
        "bytes that producers append a second; NaN if unknown", fill=float("nan")
    )


class GroupBytes(SparseTable, kind="group_bytes", on_demand="a product of stored rates and sizes"):
    """[N] how many bytes a second each group reads, in the order of ``group_offsets``."""

    read_bytes_per_s: Float64 = column(
        "bytes that the group reads of the partition a second; NaN if unknown", fill=float("nan")
    )


@rule
def appended_bytes(growth: Growth, sizes: RecordSizes) -> AppendedBytes:
    """Unknown before two samples, and where records are written whose size is not known."""
    return AppendedBytes(_bytes(growth.appended_records_per_s, sizes.bytes_per_record))


@rule
def group_bytes(moves: GroupMoves, sizes: RecordSizes) -> GroupBytes:
    """Unknown before the offsets of the group were read twice."""
    size = sizes.bytes_per_record[moves.row.astype(np.intp)]
    return GroupBytes(moves.row, _bytes(moves.records_per_s, size))


def _bytes(records_per_s: Float64, size: Float64) -> Float64:
    """[N] bytes a second in whole bytes, so that sums do not depend on the order of shards."""
    known = np.where(records_per_s == UNKNOWN, np.nan, records_per_s)
    return np.where(known == 0, 0.0, np.rint(known * size))
