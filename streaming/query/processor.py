"""What Spark runs for every shard: decode the state, step it, encode it.

Knows Spark's contract and the twin's; decides nothing about Kafka. It reads no clock: time is the
observation's own, so a batch that Spark runs again says the same again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    ValueState,
)
from pyspark.sql.types import BinaryType, StructField, StructType

from streaming.query import events
from twin import archive as archives
from twin import fleet as fleets
from twin import frames
from twin.changes import Change
from twin.fleet import Fleet
from twin.frames import Frame, FrameRefused
from twin.merge import EVENTS, merge
from twin.step import step, step_archive
from twin.tables import UNKNOWN

T = TypeVar("T")

_STATE = StructType([StructField("fleet", BinaryType(), nullable=False)])
_ARCHIVE = StructType([StructField("archive", BinaryType(), nullable=False)])


class TwinProcessor(StatefulProcessor):
    """One shard a key, ``cluster/shard``; its states are the fleet, and its remote segments."""

    def __init__(self, shards: int, snapshots: str, events_topic: str) -> None:
        self._shards, self._snapshots, self._events = shards, snapshots, events_topic

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it once a task."""
        self._state = handle.getValueState("fleet", _STATE)
        self._archive = handle.getValueState("archive", _ARCHIVE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[Row], timerValues: Any  # noqa: ARG002, N803
    ) -> Iterator[Row]:  # fmt: skip
        """Rows of one shard: (key, value, topic, partition, offset, timestamp_ms) as in Kafka."""
        shard_key = key[0]
        cycles: dict[int, list[tuple[Frame, Row]]] = defaultdict(list)
        happened: list[tuple[Frame, Row]] = []  # events, which belong to no cycle
        of_segments: list[tuple[Frame, Row]] = []
        for row in rows:
            try:
                for frame in frames.decode(bytes(row.value)):
                    kind, at_ms = frame.stamp.kind, frame.stamp.observed_at_ms
                    if kind in archives.KINDS:
                        of_segments.append((frame, row))
                    elif kind in EVENTS:
                        happened.append((frame, row))
                    else:
                        cycles[at_ms].append((frame, row))
            except FrameRefused as refusal:
                yield self._event(*events.refused(shard_key, row, refusal))

        fleet = before = yield from self._decoded(shard_key, self._state, fleets.decode)
        # A step costs the same for one event as for all: they go with the newest cycle.
        if happened:
            cycles[max(cycles, default=UNKNOWN)] += happened
        for at_ms in sorted(cycles):
            stamp = cycles[at_ms][0][0].stamp
            known = fleet
            if known is None:  # a shard without partitions is known, and falsy
                known = fleets.empty(stamp.cluster, stamp.shard, self._shards)
            after, changes, refusals = _stepped(shard_key, known, cycles[at_ms])
            fleet = fleet if after is known else after
            yield from self._told(shard_key, changes, refusals)
        fleet = yield from self._with_archive(shard_key, before, fleet, of_segments)
        if fleet is None or fleet is before:
            return
        state = fleets.encode(fleet)
        self._state.update((state,))
        # State and snapshot are the same bytes, unless a message may not be that large.
        whole = len(state) <= frames.MAX_FRAME_BYTES
        for part, message in enumerate([state] if whole else fleets.encode_parts(fleet)):
            yield Row(topic=self._snapshots, key=_part_key(shard_key, part), value=message)

    def _decoded(
        self, shard_key: str, state: ValueState, decode: Callable[[bytes], T]
    ) -> Generator[Row, None, T | None]:
        """What a state holds. One of another version is told of and built anew, never fatal."""
        held = state.get()
        if held is None:
            return None
        try:
            return decode(bytes(held[0]))
        except FrameRefused as refusal:
            yield self._event(*events.state_discarded(shard_key, refusal))
            return None

    def _with_archive(
        self, shard_key: str, before: Fleet | None, fleet: Fleet | None,
        told: list[tuple[Frame, Row]],
    ) -> Generator[Row, None, Fleet | None]:  # fmt: skip
        """The fleet after events of remote segments, whose state is only touched when it must be.

        That is when such events came, or when the fleet got partitions whose segments may have been
        told of before.
        """
        # In the order in which they stand in the topic: an event up to the last one is a repeat.
        entries = sorted(
            told, key=lambda e: (e[0].stamp.observed_at_ms, e[1].partition, e[1].offset)
        )
        newcomers = fleet is not None and (before is None or len(fleet) > len(before))
        if not entries and not newcomers:
            return fleet
        kept = yield from self._decoded(shard_key, self._archive, archives.decode)
        archive = kept = {} if kept is None else kept
        usable, refusals = [], []
        for frame, row in entries:
            try:
                if frame.stamp.shards != self._shards:
                    raise FrameRefused("shard", f"{shard_key} of {frame.stamp.shards} shards")
                archives.told({}, _belongs(frame, shard_key))
                usable.append(frame)
            except FrameRefused as refusal:
                refusals.append((row, refusal))
        changes: list[Change] = []
        if fleet is None:
            for frame in usable:
                archive, _ = archives.told(archive, frame)
        else:
            fleet, archive, changes = step_archive(fleet, archive, usable)
        if archive is not kept:
            self._archive.update((archives.encode(archive),))
        yield from self._told(shard_key, changes, refusals)
        return fleet

    def _told(
        self, shard_key: str, changes: list[Change], refusals: list[tuple[Row, FrameRefused]]
    ) -> Iterator[Row]:
        for row, why in refusals:
            yield self._event(*events.refused(shard_key, row, why))
        for change in changes:
            yield self._event(*events.changed(change))

    def close(self) -> None:
        """Nothing to give back."""

    def _event(self, key: str, value: bytes) -> Row:
        return Row(topic=self._events, key=key, value=value)


def _stepped(
    shard_key: str, fleet: Fleet, entries: list[tuple[Frame, Row]]
) -> tuple[Fleet, list[Change], list[tuple[Row, FrameRefused]]]:
    """One cycle of frames; those that cannot be used are set aside, the others still count."""
    at_ms = entries[0][0].stamp.observed_at_ms
    refusals: list[tuple[Row, FrameRefused]] = []
    try:
        return *step(fleet, [_belongs(frame, shard_key) for frame, _ in entries], at_ms), refusals
    except FrameRefused:
        pass  # rare: find out which
    usable = []
    for frame, row in entries:
        try:
            merge(fleet, _belongs(frame, shard_key))
            usable.append(frame)
        except FrameRefused as refusal:
            refusals.append((row, refusal))
    return *step(fleet, usable, at_ms), refusals


def _belongs(frame: Frame, shard_key: str) -> Frame:
    """The frame, if it was sent under the key of its shard."""
    named = f"{frame.stamp.cluster}/{frame.stamp.shard}"
    if named != shard_key:
        raise FrameRefused("shard", f"a frame of {named} under the key {shard_key}")
    return frame


def _part_key(shard_key: str, part: int) -> str:
    return shard_key if part == 0 else f"{shard_key}/{part}"
