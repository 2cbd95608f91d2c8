"""Rows of the archive's tables for one cycle of one shard, in Arrow."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.bus.arrow import dictionary, numbers, texts
from streaming.history.archive.archive_columns import Columns, written
from streaming.history.archive.other_rows import to_json
from streaming.history.archive.row_layout import (
    AT,
    CHANGED,
    CYCLES,
    HOUR,
    PARTITIONS,
    PLACE,
    REMOVED,
    REPLICAS,
    STATE,
    TABLES,
    UPDATE,
    WHOLE,
    Field,
    hour_of,
    partition_fields,
    replica_fields,
    schemas,
)
from streaming.runtime.kafka.uuids import uuid_text
from twin.declarations.table import UNKNOWN, Array, Bool, SparseTable, Table
from twin.engine import codec
from twin.engine.shard_state import ShardState
from twin.tables.state import Assignment, PartitionIndex, Topics

Rows = dict[str, list[pa.Table]]
"""Rows to append, by table of the archive."""

Changed = dict[str, tuple[Bool, Array]]
"""By column: where it changed, and what is written there. Columns that did not change are left out.
"""


class Writer:
    """Collects the rows of one cycle."""

    def __init__(self, state: ShardState) -> None:
        self.rows: Rows = defaultdict(list)
        self._state = state
        self._schemas = schemas(state.catalog)

    def state(self) -> list[bytes]:
        """Add the whole state; return its messages."""
        messages = codec.encode_parts(self._state)
        self._messages(STATE, messages)
        return messages

    def update(self, update: bytes) -> None:
        """An update of the newest whole state."""
        self._messages(UPDATE, [update])

    def partitions(self, columns: Columns, changed: Changed, reset: Bool) -> None:
        """Rows of partitions.

        Args:
            columns: [P] all of them, in the form of the archive.
            changed: [P] where a column changed.
            reset: [P] all columns of the partition are written.
        """
        row = np.flatnonzero(_any(changed, reset))
        if not len(row):
            return
        ids = [uuid_text(i) for i in self._state[Topics].topic_id]
        of_topic = self._state[PartitionIndex].topic_index[row]
        topic_id = dictionary(of_topic, texts(ids)).cast(pa.string())
        values = {
            each.name: self._column(each, columns, changed, reset, row)
            for each in partition_fields(self._state.catalog)
        }
        topic_id = pc.if_else(pa.array(reset[row]), topic_id, pa.scalar(None, pa.string()))
        self._add(
            PARTITIONS, len(row), **self._of_partitions(row, reset), topic_id=topic_id, **values
        )

    def replicas(self, columns: Columns, changed: Changed, reset: Bool) -> None:
        """Rows of replicas: the same with columns [P, R]."""
        used = codec.slots_in_use(self._state)
        resets = np.broadcast_to(reset[:, None], used.shape) & used
        row, slot = np.nonzero(_any(changed, resets) & used)
        if not len(row):
            return
        broker = self._state[Assignment].broker[row, slot]
        values = {
            each.name: self._column(each, columns, changed, resets, (row, slot))
            for each in replica_fields(self._state.catalog)
        }
        self._add(
            REPLICAS, len(row), **self._of_partitions(row, reset), slot=numbers(slot, pa.int16()),
            broker=numbers(broker, pa.int32()), **values,
        )  # fmt: skip

    def removed(self, before: ShardState, row: Array) -> None:
        """A row for each partition that is gone. Its name may be that of a new one.

        Args:
            before: the state of the cycle before.
            row: [P] the row there of each partition that is here.
        """
        gone = np.setdiff1d(np.arange(before.partitions), row)
        if len(gone):
            of = Writer(before)
            keys = of._of_partitions(gone, np.ones(before.partitions, bool))
            keys["change"] = texts([REMOVED] * len(gone))
            self._add(PARTITIONS, len(gone), **keys)

    def other(self, table: Table, changed: Bool | None) -> None:
        """Rows of a table: of partitions that changed, or all of a table with keys of its own.

        A partition, or a table, that has no rows any more has one without content.
        """
        risks = self._state.catalog.risk_names
        if changed is None and not isinstance(table, SparseTable):
            lines: list[str | None] = [*to_json(table, risks)] or [None]
            self._add(TABLES, len(lines), table=texts([table.kind] * len(lines)),
                      row=pa.array(lines, pa.string()))  # fmt: skip
            return
        assert isinstance(table, SparseTable)
        here = table if changed is None else table.pick(changed[table.row])
        lines = [*to_json(here, risks)]
        row: Array = here.row
        if changed is not None:
            empty = np.setdiff1d(np.flatnonzero(changed), here.row)
            row, lines = np.concatenate([row, empty]), [*lines, *([None] * len(empty))]
        keys = self._of_partitions(row, None)
        self._add(TABLES, len(row), table=texts([table.kind] * len(row)),
                  row=pa.array(lines, pa.string()), **keys)  # fmt: skip

    def cycle(self, is_measured: bool, missing_since_ms: int, is_filled: bool) -> None:
        """Add the row of the cycle itself."""
        state = self._state
        numbers_of = {"cycle": state.cycle, "shards": state.shards, "partitions": state.partitions}
        times = {
            "previous_at": state.prev_observed_at_ms,
            "listed_at": state.listing.whole_at_ms,
            "missing_since": missing_since_ms,
        }
        self._add(
            CYCLES, 1, is_measured=pa.array([is_measured]), is_filled=pa.array([is_filled]),
            **{name: pa.array([number]) for name, number in numbers_of.items()},
            **{name: _time(at_ms) for name, at_ms in times.items()},
        )  # fmt: skip

    def _of_partitions(self, row: Array, reset: Bool | None) -> dict[str, pa.Array]:
        index, topics = self._state[PartitionIndex], self._state[Topics]
        keys = {
            "topic": dictionary(index.topic_index[row], texts(topics.topic.tolist())),
            "partition": numbers(index.partition[row], pa.int32()),
        }
        if reset is not None:
            how = dictionary(reset[row].astype(np.int32), texts([CHANGED, WHOLE]))
            keys["change"] = how
        return keys

    def _column(
        self, each: Field, columns: Columns, changed: Changed, reset: Bool, row: Any
    ) -> pa.Array:
        mask, values = changed.get(each.name, (reset, columns[each.name]))
        is_there = mask[row] | reset[row]
        if not is_there.any():
            return pa.nulls(len(is_there), each.arrow)
        values = written(each, values[row], self._state.observed_at_ms)
        return pa.array(values, each.arrow, mask=~is_there)

    def _messages(self, table: str, messages: list[bytes]) -> None:
        self._add(TABLES, len(messages), table=texts([table] * len(messages)),
                  state=pa.array(messages, pa.binary()))  # fmt: skip

    def _add(self, name: str, rows: int, **columns: pa.Array) -> None:
        at_ms, schema = self._state.observed_at_ms, self._schemas[name]
        same = {HOUR: hour_of(at_ms), "shard": self._state.shard}
        made = []
        for each in schema:
            if each.name == PLACE:
                made.append(numbers(np.arange(rows), each.type))
            elif each.name in columns:
                made.append(columns[each.name].cast(each.type))
            elif each.name == "at":
                made.append(pa.repeat(pa.scalar(at_ms * 1_000, AT), rows))
            else:
                made.append(pa.repeat(pa.scalar(same.get(each.name), each.type), rows))
        self.rows[name].append(pa.Table.from_arrays(made, schema=schema))


def _any(changed: Changed, reset: Bool) -> Bool:
    changed_rows = reset.copy()
    for mask, _ in changed.values():
        changed_rows |= mask
    return changed_rows


def _time(at_ms: int) -> pa.Array:
    return pa.array([None if at_ms == UNKNOWN else at_ms * 1_000], AT)
