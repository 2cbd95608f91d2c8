"""Which partitions a past state has, and the row of each: by topic and number in the archive."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.history.archive.row_layout import CHANGED, REMOVED, times_of
from twin.arrays import keys
from twin.arrays.columns_in_arrow import object_array, to_numpy
from twin.declarations.table import UNKNOWN, Array, Bool, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.tables.state import PartitionIndex, Topics


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The partitions of a past state.

    Times have one entry more than there are partitions, for rows that are about none of them.
    """

    topics: Topics
    index: PartitionIndex
    base: Rows  # [P] the row in the whole state, -1 for a partition that came since
    reset_ms: Int64  # [P + 1] when it was written whole since then, else UNKNOWN
    removed_ms: Int64  # [P + 1] when a partition of its name was removed since then, else UNKNOWN

    @property
    def count(self) -> int:
        """The number of partitions."""
        return len(self.base)

    @property
    def is_reset(self) -> Bool:
        """[P] it was written whole since the whole state."""
        return self.reset_ms[:-1] != UNKNOWN

    def of(self, rows: pa.Table) -> Rows:
        """[N] the partition of each row, -1 if it is gone or the row is about none."""
        if not self.count:
            return np.full(rows.num_rows, UNKNOWN, np.intp)
        place = {topic: i for i, topic in enumerate(self.topics.topic)}
        here = keys.pack(self.index.topic_index, self.index.partition)
        return keys.find_sorted(here, _keys(rows, place))


def partition_rows(base: ShardState, rows: pa.Table) -> PartitionRows:
    """The partitions after the rows of ``partitions`` that follow a whole state."""
    # Rows of partitions that were written whole, or removed: the others change no key.
    resets = rows.filter(pc.not_equal(rows.column("change"), CHANGED))
    if not resets.num_rows:
        unknown = np.full(base.partitions + 1, UNKNOWN, np.int64)
        every = np.arange(base.partitions)
        return PartitionRows(base[Topics], base[PartitionIndex], every, unknown, unknown)
    ids = dict(zip(base[Topics].topic, base[Topics].topic_id, strict=True))
    ids |= _ids(resets)
    names = sorted(ids)
    place = {topic: i for i, topic in enumerate(names)}
    old = np.array([place[topic] for topic in base[Topics].topic] + [0])
    had = keys.pack(old[base[PartitionIndex].topic_index], base[PartitionIndex].partition)
    changed, at = _keys(resets, place), times_of(resets.column("at"))
    gone = pc.equal(resets.column("change"), REMOVED).to_numpy()
    every = np.unique(np.concatenate([had, changed]))
    row = keys.find_sorted(every, changed)
    reset, removed = (_newest(len(every), row[mask], at[mask]) for mask in (~gone, gone))
    # A topic that was created again is removed and written whole in the same cycle.
    stays = np.where(removed == UNKNOWN, np.isin(every, had) | (reset != UNKNOWN), reset >= removed)
    here = every[stays]
    base_row = np.where(removed[stays] == UNKNOWN, keys.find(had, here), UNKNOWN)
    topic, number = keys.unpack(here)
    used, topic_index = np.unique(topic, return_inverse=True)
    left = [names[i] for i in used]
    return PartitionRows(
        Topics(object_array(left), object_array(ids[name] for name in left)),
        PartitionIndex(topic_index.astype(np.int32), number.astype(np.int32)),
        base_row,
        np.append(reset[stays], UNKNOWN),
        np.append(removed[stays], UNKNOWN),
    )


def _newest(count: int, row: Array, at: Array) -> Array:
    newest = np.full(count, UNKNOWN, np.int64)
    np.maximum.at(newest, row, at)
    return newest


def _ids(rows: pa.Table) -> dict[str, bytes]:
    """The id of each topic that was written whole; the last one counts."""
    named = rows.filter(pc.is_valid(rows.column("topic_id")))
    pairs = named.select(["topic", "topic_id"]).group_by(["topic", "topic_id"]).aggregate([])
    if pairs.num_rows > len(pairs.column("topic").unique()):  # created again: in order of time
        pairs = named
    texts = zip(
        pairs.column("topic").to_pylist(), pairs.column("topic_id").to_pylist(), strict=True
    )
    return {topic: base64.urlsafe_b64decode(f"{text}==") for topic, text in texts}


def _keys(rows: pa.Table, place: Mapping[str, int]) -> Array:
    """[N] a number for each partition, -1 for topics that have no place."""
    if not rows.num_rows:
        return np.zeros(0, np.int64)
    topic = rows.column("topic").combine_chunks().dictionary_encode()
    codes = [place.get(name, UNKNOWN) for name in topic.dictionary.to_pylist()]
    code = np.array([*codes, UNKNOWN], np.int64)[pc.fill_null(topic.indices, len(codes)).to_numpy()]
    number = pc.fill_null(rows.column("partition"), 0)
    return np.where(code < 0, UNKNOWN, keys.pack(code, to_numpy(number)))
