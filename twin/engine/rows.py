"""Assign rows to partitions: add topics and rows to a state, and remove them.

Rows are sorted by topic name, topic id and number, so that the same partitions always give the same
tables, in whatever order they became known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from twin.arrays import keys
from twin.arrays.columns_in_arrow import object_array, to_numpy
from twin.declarations.table import UNKNOWN, Array, Bool, Rows
from twin.engine.former_offsets import with_former_offsets
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.tables.state import PartitionIndex, Topics

_REPLICAS_COMPARED: Final = 8
"""Rows of a partition that are compared one by one; sorting costs more where there are fewer."""


def without(state: ShardState, gone: Bool) -> ShardState:
    """The state without those rows, and without topics that have none left."""
    state = with_former_offsets(state, gone)
    state = state.take(np.flatnonzero(~gone))
    index, topics = state[PartitionIndex], state[Topics]
    used = np.isin(np.arange(len(topics.topic)), index.topic_index)
    renumbered = np.cumsum(used) - 1
    return state.with_tables(
        topics.pick(used),
        PartitionIndex(renumbered[index.topic_index].astype(np.int32), index.partition),
    )


def rows_of(state: ShardState, rows: pa.Table, create: bool = True) -> tuple[ShardState, Rows]:
    """The state with a row for every partition in the frame, and [N] the row of each.

    Without ``create``, the row of an unknown partition is UNKNOWN.

    Raises:
        InvalidFrame: ``rows``, topics or numbers contradict each other.
    """
    topic, topic_id = (rows.column(n).combine_chunks() for n in ("topic", "topic_id"))
    number = topic.indices.to_numpy()
    if not np.array_equal(number, topic_id.indices.to_numpy()):
        raise InvalidFrame("rows", "topic and topic_id use different dictionary entries")
    names, ids = (object_array(c.dictionary.to_pylist()) for c in (topic, topic_id))
    if len(set(names)) != len(names) or len(ids) != len(names):
        raise InvalidFrame("rows", "one topic has two dictionary entries")
    partition = to_numpy(rows.column("partition"))
    if (partition < 0).any():
        raise InvalidFrame("rows", "a partition number is negative")

    topics = state[Topics]
    if not (np.array_equal(names, topics.topic) and np.array_equal(ids, topics.topic_id)):
        if create:
            state = _with_topics(state, names, ids)
        number = _index_of(state[Topics], names, ids).take(number)
    row = _find(state, number, partition)
    if create and (is_new := row == UNKNOWN).any():
        new_keys = np.unique(keys.pack(number[is_new], partition[is_new]))
        state = _with_rows(state, _keys(state), new_keys)
        row = _find(state, number, partition)
    return state, row


def _find(state: ShardState, topic: Array, partition: Array) -> Rows:
    """[N] the row of each partition, by the index of its topic; UNKNOWN where there is none.

    Mostly a topic has all its partitions from 0 on, so a partition is as far below the first of its
    topic as its number says. Only the others are searched.
    """
    present, targets = _keys(state), keys.pack(topic, partition)
    if not len(present):
        return np.full(len(targets), UNKNOWN, np.intp)
    topics = np.arange(len(state[Topics].topic))
    begins = np.searchsorted(present, keys.pack(topics, np.zeros_like(topics)))
    row = np.minimum(begins.take(topic, mode="clip") + partition, len(present) - 1)
    elsewhere = np.flatnonzero(present.take(row) != targets)
    if len(elsewhere):
        row[elsewhere] = keys.find_sorted(present, targets[elsewhere])
    return row


def _index_of(topics: Topics, names: Array, ids: Array) -> Array:
    """The place of each of those topics, UNKNOWN where it is missing; plus one unused entry."""
    place = {key: i for i, key in enumerate(zip(topics.topic, topics.topic_id, strict=True))}
    places = [place.get(key, UNKNOWN) for key in zip(names, ids, strict=True)]
    return np.array([*places, 0], np.int64)


def rows_at(state: ShardState, partitions: Sequence[tuple[bytes, int]]) -> Rows:
    """[N] the row of each partition by topic id and number, UNKNOWN where there is none."""
    place = {topic_id: i for i, topic_id in enumerate(state[Topics].topic_id)}
    topic = np.array([place.get(topic_id, UNKNOWN) for topic_id, _ in partitions], np.int64)
    partition_keys = keys.pack(topic, np.array([number for _, number in partitions], np.int64))
    return keys.find_sorted(_keys(state), partition_keys)


def common_rows(before: ShardState, after: ShardState) -> Rows:
    """[P of after] the row that each partition had before, -1 where it is new."""
    was, now = before[PartitionIndex], after[PartitionIndex]
    if (
        np.array_equal(before[Topics].topic_id, after[Topics].topic_id)
        and np.array_equal(was.topic_index, now.topic_index)
        and np.array_equal(was.partition, now.partition)
    ):
        return np.arange(after.partitions)
    place = {topic_id: i for i, topic_id in enumerate(after[Topics].topic_id)}
    moved = np.array([place.get(i, UNKNOWN) for i in before[Topics].topic_id] + [0], np.int64)
    return keys.find(keys.pack(moved[was.topic_index], was.partition), _keys(after))


def refuse_duplicates(values: Array, what: str) -> None:
    """Raises InvalidFrame (``rows``) if a value occurs twice."""
    if len(set(values.tolist())) != len(values):
        raise InvalidFrame("rows", f"one {what} is listed twice")


def refuse_duplicate_rows(rows: pa.Table, broker: Array | None = None) -> None:
    """Raises InvalidFrame (``rows``) if a partition, or a replica of it, is listed twice."""
    key = keys.pack(
        rows.column("topic").combine_chunks().indices.to_numpy(),
        to_numpy(rows.column("partition")),
    )
    other = np.zeros(len(key), np.int8) if broker is None else broker
    if (np.diff(key) < 0).any():
        order = np.argsort(key, kind="stable")
        key, other = key[order], other[order]
    if _is_any_listed_twice(key, other):
        raise InvalidFrame("rows", "a row is listed twice")


def _is_any_listed_twice(key: Array, broker: Array) -> bool:
    """A pair occurs twice. Keys ascend and few rows share one, so neighbours are compared."""
    for apart in range(1, _REPLICAS_COMPARED):
        same = key[apart:] == key[:-apart]
        if not same.any():
            return False
        if (same & (broker[apart:] == broker[:-apart])).any():
            return True
    order = np.lexsort((broker, key))
    return bool(((np.diff(key[order]) == 0) & (np.diff(broker[order]) == 0)).any())


def _with_topics(state: ShardState, names: Array, ids: Array) -> ShardState:
    """The state with those topics; a topic of the same name and another id is removed."""
    topics = state[Topics]
    before = list(zip(topics.topic, topics.topic_id, strict=True))
    named = dict(zip(names, ids, strict=True))
    old_ids = [topic in named and named[topic] != topic_id for topic, topic_id in before]
    if any(old_ids):
        state = without(state, np.array(old_ids)[state[PartitionIndex].topic_index])
        topics = state[Topics]
        before = list(zip(topics.topic, topics.topic_id, strict=True))
    after = sorted({*before, *named.items()})
    if after == before:
        return state
    place = {key: i for i, key in enumerate(after)}
    moved = np.array([place[key] for key in before] + [0], np.int32)
    index = state[PartitionIndex]
    return state.with_tables(
        Topics(object_array(name for name, _ in after), object_array(i for _, i in after)),
        PartitionIndex(moved[index.topic_index], index.partition),
    )


def _with_rows(state: ShardState, present: Array, new_keys: Array) -> ShardState:
    """The state with blank rows for those keys, which must be new."""
    joined = np.concatenate([present, new_keys])
    order = np.argsort(joined, kind="stable")
    taken = state.take(np.where(order < len(present), order, -1))
    topic, partition = keys.unpack(joined[order])
    return taken.with_tables(PartitionIndex(topic, partition))


def _keys(state: ShardState) -> Array:
    """[P] one number per partition, ascending."""
    index = state[PartitionIndex]
    return keys.pack(index.topic_index, index.partition)
