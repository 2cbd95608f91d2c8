"""Which row a partition stands in: topics and rows come into the fleet, and go.

Rows are sorted by topic name, topic id and number, so that the same partitions always give the same
table, in whatever order they became known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from twin.fleet import Array, Fleet, Topics, rearranged, to_numpy
from twin.frames import FrameRefused
from twin.tables import UNKNOWN

_PARTITION_BITS = 32


def without(fleet: Fleet, gone: Array) -> Fleet:
    """The fleet without those rows, and without topics that have none left."""
    fleet = replace(fleet, **rearranged(fleet, np.flatnonzero(~gone)))
    used = np.isin(np.arange(len(fleet.topics.topic)), fleet.topic_index)
    renumbered = np.cumsum(used) - 1
    return replace(
        fleet,
        topics=Topics(fleet.topics.topic[used], fleet.topics.topic_id[used]),
        topic_index=renumbered[fleet.topic_index].astype(np.int32),
    )


def rows_of(fleet: Fleet, rows: pa.Table, create: bool = True) -> tuple[Fleet, Array]:
    """The fleet with a row for every partition named, and [N] where each stands.

    Without ``create`` unknown partitions get no row and stand at UNKNOWN.
    """
    topic, topic_id = (rows.column(n).combine_chunks() for n in ("topic", "topic_id"))
    number = topic.indices.to_numpy()
    if not np.array_equal(number, topic_id.indices.to_numpy()):
        raise FrameRefused("rows", "topic and topic_id use different dictionary entries")
    names = np.array([*topic.dictionary.to_pylist(), None], object)[:-1]
    ids = np.array([*topic_id.dictionary.to_pylist(), None], object)[:-1]
    if len(set(names)) != len(names) or len(ids) != len(names):
        raise FrameRefused("rows", "one topic has two dictionary entries")
    partition = to_numpy(rows.column("partition"))
    if (partition < 0).any():
        raise FrameRefused("rows", "a partition number is negative")

    if create:
        fleet = _with_topics(fleet, names, ids)
    at = {
        key: i for i, key in enumerate(zip(fleet.topics.topic, fleet.topics.topic_id, strict=True))
    }
    index = np.array([at.get(key, -1) for key in zip(names, ids, strict=True)] + [0], np.int64)
    wanted = _key(index[number], partition)
    present = _key(fleet.topic_index, fleet.partition)
    found, row = _find(present, wanted)
    if create and not found.all():
        fleet = _with_rows(fleet, present, np.unique(wanted[~found]))
        found, row = _find(_key(fleet.topic_index, fleet.partition), wanted)
    return fleet, np.where(found, row, UNKNOWN)


def rows_at(fleet: Fleet, keys: Sequence[tuple[bytes, int]]) -> Array:
    """[N] the row of each partition by topic id and number, UNKNOWN where there is none."""
    at = {topic_id: i for i, topic_id in enumerate(fleet.topics.topic_id)}
    topic = np.array([at.get(topic_id, UNKNOWN) for topic_id, _ in keys], np.int64)
    wanted = _key(topic, np.array([number for _, number in keys], np.int64))
    found, row = _find(_key(fleet.topic_index, fleet.partition), wanted)
    return np.where(found, row, UNKNOWN)


def _with_topics(fleet: Fleet, names: Array, ids: Array) -> Fleet:
    """The fleet with those topics; a topic of the same name and another id is gone."""
    before = list(zip(fleet.topics.topic, fleet.topics.topic_id, strict=True))
    named = dict(zip(names, ids, strict=True))
    old_ids = [topic in named and named[topic] != topic_id for topic, topic_id in before]
    if any(old_ids):
        fleet = without(fleet, np.array(old_ids)[fleet.topic_index])
        before = list(zip(fleet.topics.topic, fleet.topics.topic_id, strict=True))
    after = sorted({*before, *named.items()})
    if after == before:
        return fleet
    at = {key: i for i, key in enumerate(after)}
    moved = np.array([at[key] for key in before] + [0], np.int32)
    columns = np.array([*after, (None, None)], object)[:-1]
    return replace(
        fleet,
        topics=Topics(columns[:, 0].copy(), columns[:, 1].copy()),
        topic_index=moved[fleet.topic_index],
    )


def _with_rows(fleet: Fleet, present: Array, wanted: Array) -> Fleet:
    """The fleet with blank rows for those keys, which it does not have."""
    keys = np.concatenate([present, wanted])
    order = np.argsort(keys, kind="stable")
    rows = np.where(order < len(present), order, -1)
    keys = keys[order]
    columns = rearranged(fleet, rows)
    columns["topic_index"] = (keys >> _PARTITION_BITS).astype(np.int32)
    columns["partition"] = (keys & ((1 << _PARTITION_BITS) - 1)).astype(np.int32)
    return replace(fleet, **columns)


def _key(topic: Array, partition: Array) -> Array:
    return (topic.astype(np.int64) << _PARTITION_BITS) | partition.astype(np.int64)


def _find(present: Array, wanted: Array) -> tuple[Array, Array]:
    """Which wanted keys are present (sorted), and where."""
    if len(present) == len(wanted) and np.array_equal(present, wanted):
        return np.ones(len(wanted), bool), np.arange(len(wanted))
    row = np.minimum(np.searchsorted(present, wanted), max(len(present) - 1, 0))
    if not len(present):
        return np.zeros(len(wanted), bool), row
    return present[row] == wanted, row


def refuse_duplicates(values: Array, what: str) -> None:
    if len(set(values.tolist())) != len(values):
        raise FrameRefused("rows", f"one {what} is listed twice")


def refuse_duplicate_rows(rows: pa.Table, broker: Array | None = None) -> None:
    key = _key(
        rows.column("topic").combine_chunks().indices.to_numpy(),
        to_numpy(rows.column("partition")),
    )
    columns = (key,) if broker is None else (broker, key)
    if broker is None and (len(key) < 2 or (np.diff(key) > 0).all()):
        return
    order = np.lexsort(columns)
    same = np.ones(max(len(key) - 1, 0), bool)
    for column in columns:
        same &= np.diff(column[order]) == 0
    if same.any():
        raise FrameRefused("rows", "a row is listed twice")
