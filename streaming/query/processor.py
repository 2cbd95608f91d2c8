"""The stateful processor of every shard: decode the state, step it, encode it.

Connects Spark's interface to the twin's; has no rules about Kafka. It does not read a clock: time
comes from the observations, so a repeated batch gives the same result.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
)
from pyspark.sql.types import BinaryType, StructField, StructType

from streaming.query import event_rows
from streaming.query.state import memory
from streaming.query.state.stored_shards import ShardStates, StoredState
from streaming.query.state.worker_files import MessageFiles
from streaming.runtime.plugins import catalog
from twin.batch import sorted_frames, step_cycle, usable_remote
from twin.cluster_step import reports
from twin.engine import frames
from twin.engine.catalog import Catalog
from twin.engine.changes import Change
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.shard_state import ShardState
from twin.remote_log import segment_store
from twin.remote_log.segment_store import SegmentStore
from twin.step import count_skipped, step_segments

_ARCHIVE = StructType([StructField("archive", BinaryType(), nullable=False)])

REPORTS: Final = ""
"""In place of a topic: rows for the cluster's own shard, which go to no topic."""

Entry = tuple[Frame, Row]  # a frame and the record that contained it
Refused = list[tuple[Row, InvalidFrame]]


@dataclass(frozen=True, slots=True)
class Destination:
    """The number of shards of a cluster, and the topics of its snapshots and events."""

    shards: int
    snapshots: str
    events: str


class TwinProcessor(StatefulProcessor):
    """Keeps the state and the remote segments of each shard; a shard has one key
    (``state_keys``)."""

    def __init__(self, clusters: Mapping[str, Destination], proposals: tuple[str, ...]) -> None:
        """What is not of one of these clusters goes to the first: it says that it is refused."""
        self._clusters, self._proposals = dict(clusters), proposals
        self._to = next(iter(clusters.values()))

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once for each task; makes the catalog on the task's machine."""
        self._catalog: Catalog = catalog(self._proposals)
        files = MessageFiles.of_executor(os.environ)
        self._states = ShardStates(handle, self._catalog, files, memory.OF_THIS_PROCESS)
        self._segments = handle.getValueState("archive", _ARCHIVE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[Row], timerValues: Any  # noqa: ARG002, N803
    ) -> Iterator[Row]:  # fmt: skip
        """Rows of one shard: (key, value, topic, partition, offset, timestamp_ms) as in Kafka."""
        first = next(rows)
        shard_key = first.key
        self._to = self._destination(shard_key)
        records = ((row, bytes(row.value)) for row in chain([first], rows))
        batch = sorted_frames(records, self._catalog.observations)
        stored = yield from self._stored_state(shard_key)
        state = before = None if stored is None else stored.decoded.state
        yield from self._reported(shard_key, [], batch.refused)
        for at_ms in sorted(batch.cycles):
            header = batch.cycles[at_ms][0][0].header
            current = state or self._empty(header.cluster, header.shard)
            after, changes, refused = step_cycle(shard_key, current, batch.cycles[at_ms])
            if after is not current:
                state = after
                yield from self._to_cluster(shard_key, state)
            yield from self._reported(shard_key, changes, refused)
        state = yield from self._with_segments(shard_key, before, state, batch.remote)
        if state is not None and batch.unknown_kinds:
            state = count_skipped(state, batch.unknown_kinds)
        if state is None or state is before:
            return
        for message_key, message in self._states.store(shard_key, stored, state):
            yield Row(topic=self._to.snapshots, key=message_key, value=message)

    def close(self) -> None:
        """Nothing to give back."""

    def _destination(self, shard_key: str) -> Destination:
        first = next(iter(self._clusters.values()))
        return self._clusters.get(shard_key.rpartition("/")[0], first)

    def _empty(self, cluster: str, shard: int) -> ShardState:
        return ShardState.empty(self._catalog, cluster, shard, self._to.shards)

    def _stored_state(self, shard_key: str) -> Generator[Row, None, StoredState | None]:
        """The state stored by Spark. Unreadable parts are reported as events and are not fatal."""
        try:
            stored = self._states.load(shard_key)
        except InvalidFrame as error:
            yield self._event(*event_rows.state_discarded(shard_key, error))
            return None
        for table in () if stored is None else stored.decoded.discarded:
            yield self._event(*event_rows.state_table_discarded(shard_key, table))
        return stored

    def _stored_segments(self, shard_key: str) -> Generator[Row, None, SegmentStore]:
        stored = self._segments.get()
        if stored is None:
            return {}
        try:
            return segment_store.decode(bytes(stored[0]))
        except InvalidFrame as error:
            yield self._event(*event_rows.state_discarded(shard_key, error))
            return {}

    def _with_segments(
        self, shard_key: str, before: ShardState | None, state: ShardState | None,
        remote: list[Entry],
    ) -> Generator[Row, None, ShardState | None]:  # fmt: skip
        """The state after events of remote segments; the store of segments is read only if
        needed.

        It is needed if such events came, or if the state got partitions whose segments may have
        been reported before.
        """
        # In the order of the topic: an event at or before the last offset is a repeat.
        entries = sorted(
            remote, key=lambda e: (e[0].header.observed_at_ms, e[1].partition, e[1].offset)
        )
        had = 0 if before is None else before.partitions
        if not entries and (state is None or state.partitions <= had):
            return state
        stored = store = yield from self._stored_segments(shard_key)
        usable, refused = usable_remote(shard_key, self._to.shards, entries)
        changes: list[Change] = []
        if state is None:
            for frame in usable:
                store, _ = segment_store.apply(store, frame)
        else:
            state, store, changes = step_segments(state, store, usable)
        if store is not stored:
            self._segments.update((segment_store.encode(store),))
        yield from self._reported(shard_key, changes, refused)
        return state

    def _reported(
        self, shard_key: str, changes: Sequence[Change], refused: Refused
    ) -> Iterator[Row]:
        for row, error in refused:
            yield self._event(*event_rows.refused(shard_key, row, error))
        for change in changes:
            yield self._event(*event_rows.changed(change))

    def _to_cluster(self, shard_key: str, state: ShardState) -> Iterator[Row]:
        """The shard's report to the cluster's own shard; the driver takes it out of the batch."""
        kinds = self._catalog.cluster.observations
        encoded = [frames.encode(frame, kinds) for frame in reports(state)]
        if encoded:
            yield Row(topic=REPORTS, key=shard_key, value=frames.join(encoded))

    def _event(self, key: str, value: bytes) -> Row:
        return Row(topic=self._to.events, key=key, value=value)
