"""The stateful processor of every shard: decode the state, step it, encode it.

Connects Spark's interface to the twin's; has no rules about Kafka. It does not read a clock: time
comes from the observations, so a repeated batch gives the same result.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
)
from pyspark.sql.types import BinaryType, StructField, StructType

from streaming.query import events
from streaming.query.state import memory
from streaming.query.state.files import MessageFiles
from streaming.query.state.shards import ShardStates
from streaming.runtime.plugins import catalog
from twin.cluster import reports
from twin.declarations.table import UNKNOWN
from twin.engine import frames
from twin.engine.catalog import Catalog
from twin.engine.changes import Change
from twin.engine.codec import DecodedState
from twin.engine.frames import Frame, InvalidFrame
from twin.engine.merge import merge
from twin.engine.state import ShardState
from twin.remote_log import archive as archives
from twin.remote_log.archive import Archive
from twin.step import count_skipped, step, step_archive

_ARCHIVE = StructType([StructField("archive", BinaryType(), nullable=False)])

REPORTS: Final = ""
"""In place of a topic: rows for the cluster's own shard, which go to no topic."""

Entry = tuple[Frame, Row]  # a frame and the record that contained it
Refused = list[tuple[Row, InvalidFrame]]


@dataclass(slots=True)
class _Batch:
    """The frames of a batch, by the function that processes them."""

    cycles: dict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    remote: list[Entry] = field(default_factory=list)
    unknown_kinds: list[str] = field(default_factory=list)
    refused: Refused = field(default_factory=list)


class TwinProcessor(StatefulProcessor):
    """Keeps the state and the remote segments of each shard; a shard has one key
    (``state_keys``)."""

    def __init__(
        self, shards: int, snapshots: str, events_topic: str, proposals: tuple[str, ...]
    ) -> None:
        self._shards, self._snapshots, self._events = shards, snapshots, events_topic
        self._proposals = proposals

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once for each task; makes the catalog on the task's machine."""
        self._catalog: Catalog = catalog(self._proposals)
        files = MessageFiles.of_executor(os.environ)
        self._states = ShardStates(handle, self._catalog, files, memory.OF_THIS_PROCESS)
        self._archive = handle.getValueState("archive", _ARCHIVE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[Row], timerValues: Any  # noqa: ARG002, N803
    ) -> Iterator[Row]:  # fmt: skip
        """Rows of one shard: (key, value, topic, partition, offset, timestamp_ms) as in Kafka."""
        first = next(rows)
        shard_key = first.key
        batch = self._decoded(chain([first], rows))
        stored = yield from self._stored_state(shard_key)
        state = before = None if stored is None else stored.state
        yield from self._reported(shard_key, [], batch.refused)
        for at_ms in sorted(batch.cycles):
            header = batch.cycles[at_ms][0][0].header
            current = state or self._empty(header.cluster, header.shard)
            after, changes, refused = _stepped(shard_key, current, batch.cycles[at_ms])
            if after is not current:
                state = after
                yield from self._to_cluster(shard_key, state)
            yield from self._reported(shard_key, changes, refused)
        state = yield from self._with_archive(shard_key, before, state, batch.remote)
        if state is not None and batch.unknown_kinds:
            state = count_skipped(state, batch.unknown_kinds)
        if state is None or state is before:
            return
        for message_key, message in self._states.store(shard_key, stored, state):
            yield Row(topic=self._snapshots, key=message_key, value=message)

    def close(self) -> None:
        """Nothing to give back."""

    def _decoded(self, rows: Iterator[Row]) -> _Batch:
        batch = _Batch()
        logged: list[Entry] = []  # events, which do not belong to a cycle
        kinds = self._catalog.observations
        for row in rows:
            try:
                decoded = frames.decode(bytes(row.value), kinds)
            except InvalidFrame as error:
                batch.refused.append((row, error))
                continue
            batch.refused += [(row, error) for error in decoded.invalid]
            batch.unknown_kinds += decoded.unknown_kinds
            for frame in decoded.frames:
                kind, at_ms = frame.header.kind, frame.header.observed_at_ms
                if kind in archives.KINDS:
                    batch.remote.append((frame, row))
                elif kinds[kind].event:
                    logged.append((frame, row))
                else:
                    batch.cycles[at_ms].append((frame, row))
        # A step costs the same for one event as for all, so they join the newest cycle.
        if logged:
            batch.cycles[max(batch.cycles, default=UNKNOWN)] += logged
        return batch

    def _empty(self, cluster: str, shard: int) -> ShardState:
        return ShardState.empty(self._catalog, cluster, shard, self._shards)

    def _stored_state(self, shard_key: str) -> Generator[Row, None, DecodedState | None]:
        """The state stored by Spark. Unreadable parts are reported as events and are not fatal."""
        try:
            stored = self._states.load(shard_key)
        except InvalidFrame as error:
            yield self._event(*events.state_discarded(shard_key, error))
            return None
        for table in () if stored is None else stored.discarded:
            yield self._event(*events.state_table_discarded(shard_key, table))
        return stored

    def _held_archive(self, shard_key: str) -> Generator[Row, None, Archive]:
        stored = self._archive.get()
        if stored is None:
            return {}
        try:
            return archives.decode(bytes(stored[0]))
        except InvalidFrame as error:
            yield self._event(*events.state_discarded(shard_key, error))
            return {}

    def _with_archive(
        self, shard_key: str, before: ShardState | None, state: ShardState | None,
        remote: list[Entry],
    ) -> Generator[Row, None, ShardState | None]:  # fmt: skip
        """The state after events of remote segments; the archive of segments is read only if
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
        stored = archive = yield from self._held_archive(shard_key)
        usable, refused = self._usable(shard_key, entries)
        changes: list[Change] = []
        if state is None:
            for frame in usable:
                archive, _ = archives.apply(archive, frame)
        else:
            state, archive, changes = step_archive(state, archive, usable)
        if archive is not stored:
            self._archive.update((archives.encode(archive),))
        yield from self._reported(shard_key, changes, refused)
        return state

    def _usable(self, shard_key: str, entries: list[Entry]) -> tuple[list[Frame], Refused]:
        usable: list[Frame] = []
        refused: Refused = []
        for frame, row in entries:
            try:
                if frame.header.shards != self._shards:
                    raise InvalidFrame("shard", f"{shard_key} of {frame.header.shards} shards")
                archives.apply({}, _belongs(frame, shard_key))
                usable.append(frame)
            except InvalidFrame as error:
                refused.append((row, error))
        return usable, refused

    def _reported(
        self, shard_key: str, changes: Sequence[Change], refused: Refused
    ) -> Iterator[Row]:
        for row, error in refused:
            yield self._event(*events.refused(shard_key, row, error))
        for change in changes:
            yield self._event(*events.changed(change))

    def _to_cluster(self, shard_key: str, state: ShardState) -> Iterator[Row]:
        """The shard's report to the cluster's own shard; the driver takes it out of the batch."""
        kinds = self._catalog.cluster.observations
        encoded = [frames.encode(frame, kinds) for frame in reports(state)]
        if encoded:
            yield Row(topic=REPORTS, key=shard_key, value=frames.join(encoded))

    def _event(self, key: str, value: bytes) -> Row:
        return Row(topic=self._events, key=key, value=value)


def _stepped(
    shard_key: str, state: ShardState, entries: list[Entry]
) -> tuple[ShardState, list[Change], Refused]:
    """Step the state by one cycle of frames; unusable ones are refused, the others are used."""
    at_ms = entries[0][0].header.observed_at_ms
    refused: Refused = []
    try:
        return *step(state, [_belongs(frame, shard_key) for frame, _ in entries], at_ms), refused
    except InvalidFrame:
        pass  # rare: find the frame that fails
    usable = []
    for frame, row in entries:
        try:
            merge(state, _belongs(frame, shard_key))
            usable.append(frame)
        except InvalidFrame as error:
            refused.append((row, error))
    return *step(state, usable, at_ms), refused


def _belongs(frame: Frame, shard_key: str) -> Frame:
    """Return the frame if it was sent under the key of its shard, else refuse it."""
    named = f"{frame.header.cluster}/{frame.header.shard}"
    if named != shard_key:
        raise InvalidFrame("shard", f"a frame of {named} under the key {shard_key}")
    return frame
