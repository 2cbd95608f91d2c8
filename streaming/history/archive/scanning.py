"""Reads only the wanted rows and columns of the archive's files.

Most columns of most rows are null, and Parquet notes of each group of rows how many, and which
times and shards there are. So the whole rows at the beginning of an hour, other shards, and columns
without a value are not decoded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset, Fragment

from streaming.history.archive.row_layout import AT

_LITTLE_AHEAD: Final = {"batch_size": 65_536, "batch_readahead": 2, "fragment_readahead": 2}
"""Batches that a scan reads ahead. By default PyArrow holds whole files in memory."""

_FOOTERS_AT_ONCE: Final = 8
"""Files whose metadata are fetched together, as each takes a round trip where they are far."""


def wanted_rows(
    after_ms: int | None, until_ms: int | None, shards: Collection[int] | None
) -> pc.Expression | None:
    """Which rows are wanted: after a moment, up to another, of some shards; None for all."""
    wanted = []
    if after_ms is not None:
        wanted.append(pc.field("at") > pa.scalar(after_ms * 1_000, AT))
    if until_ms is not None:
        wanted.append(pc.field("at") <= pa.scalar(until_ms * 1_000, AT))
    if shards is not None:
        wanted.append(pc.field("shard").isin(pa.array(sorted(shards), pa.int32())))
    both = None
    for each in wanted:
        both = each if both is None else both & each
    return both


def batches(
    found: Dataset,
    names: Sequence[str],
    sparse: Collection[str],
    wanted: pc.Expression,
) -> Iterator[pa.RecordBatch]:
    """The wanted rows of a dataset, some at a time.

    Args:
        found: Parquet files, each with the columns of a table of the archive.
        names: the columns to read, as far as the dataset has them.
        sparse: of them, those that are left out of batches in which no row has a value of them.
        wanted: the rows.
    """
    fragments = [*found.get_fragments(wanted)]  # by what Delta's log says of times and shards
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        [*pool.map(lambda each: each.ensure_complete_metadata(), fragments)]
    for fragment in fragments:
        kept = fragment.subset(filter=wanted, schema=found.schema)
        for groups, empty in _alike(fragment, [each.id for each in kept.row_groups], sparse):
            columns = [each for each in names if each in found.schema.names and each not in empty]
            scanner = fragment.subset(row_group_ids=groups).scanner(
                schema=found.schema, columns=columns, filter=wanted, **_LITTLE_AHEAD
            )
            yield from scanner.to_batches()


def _alike(
    fragment: Fragment, groups: Sequence[int], sparse: Collection[str]
) -> Iterator[tuple[list[int], frozenset[str]]]:
    """Groups of rows that follow each other and lack the same columns, and these columns."""
    names = {n: name for n, name in enumerate(fragment.metadata.schema.names) if name in sparse}

    def empty(group: int) -> frozenset[str]:
        of = fragment.metadata.row_group(group)
        statistics = ((name, of.column(n).statistics) for n, name in names.items())
        return frozenset(
            name for name, its in statistics if its is not None and its.null_count == of.num_rows
        )

    for columns, same in groupby(groups, empty):
        yield [*same], columns
