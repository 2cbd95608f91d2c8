"""Writes a capsule: replays what was recorded before, and the span itself for its whole states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, LargeZipFile, ZipFile, ZipInfo

import msgspec

from streaming.history.capsules import file_format
from streaming.history.capsules.file_format import (
    Index,
    IndexedCycle,
    IndexedMessage,
    Manifest,
    Member,
)
from streaming.history.moment import MomentError, time_text
from streaming.history.stepping import States, nothing_yet, stepped
from streaming.history.timeline import Timeline, timeline_of
from streaming.runtime.errors import UserError
from twin.arrays.plain import counted
from twin.declarations.table import UNKNOWN
from twin.engine import codec
from twin.engine.catalog import Catalog
from twin.remote_log import segment_store

_NO_DATE: Final = (1980, 1, 1, 0, 0, 0)


class SaveError(UserError):
    """The capsule cannot be written; one line says why."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the bus keeps of a cluster, or a part of it.

    ``messages`` are shard and message, those of a shard in the order of the bus.
    """

    cluster: str
    shards: int
    messages: Sequence[tuple[int, bytes]]
    events: Sequence[bytes]
    proposals: tuple[str, ...] = ()
    own_topics: tuple[str, ...] = ()
    anonymized: bool = False
    left_out: int = 0


def save(recorded: Recorded, catalog: Catalog, from_ms: int, to_ms: int, file: Path) -> Manifest:
    """Write the capsule of the cycles from a moment to another; its manifest.

    Raises:
        MomentError: nothing is recorded of that span, or not from its beginning on.
        SaveError: the file cannot be written.
    """
    kinds = catalog.observations
    timeline = timeline_of(recorded.messages, recorded.cluster, recorded.shards, kinds)
    since, first, last = _span(timeline, recorded.shards, from_ms, to_ms)
    unfinished = file.with_name(f"{file.name}.unfinished")
    try:
        with ZipFile(unfinished, "w", allowZip64=False) as written:
            writer = _Writer(written)
            states = _replayed(recorded, catalog, timeline, since, last)
            whole = _write_states(writer, states, first, last)
            span = timeline.between(first, last)
            places = _write_messages(writer, span)
            cycles = tuple(
                IndexedCycle(each.at_ms, each.number, tuple(sorted(each.whole_shards)))
                for each in span.cycles
            )
            writer.add(file_format.INDEX, msgspec.json.encode(Index(cycles, places, whole)))
            events = _events_between(recorded.events, from_ms, to_ms)
            writer.add(file_format.EVENTS, b"".join(each + b"\n" for each in events))
            manifest = Manifest(
                format_version=file_format.FORMAT_VERSION,
                product_version=version("kafka-twin"),
                cluster=recorded.cluster,
                begin_ms=span.cycles[0].at_ms,
                end_ms=span.cycles[-1].at_ms,
                observed_since_ms=timeline.cycles[since].at_ms,
                shards=recorded.shards,
                proposals=recorded.proposals,
                own_topics=recorded.own_topics,
                anonymized=recorded.anonymized,
                cycles=len(cycles),
                observations=len(places),
                left_out=recorded.left_out,
                events=len(events),
                members=writer.members,
            )
            writer.add(file_format.MANIFEST, msgspec.json.encode(manifest))
        unfinished.replace(file)
    except LargeZipFile:
        raise SaveError(f"{file}: a capsule has at most 2 GiB: save a shorter span") from None
    except OSError as error:
        raise SaveError(f"{file}: {error.strerror or error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return manifest


def _span(timeline: Timeline[bytes], shards: int, from_ms: int, to_ms: int) -> tuple[int, int, int]:
    """Indices: the first cycle that all shards have, and the first and last cycle of the span."""
    cycles = timeline.cycles
    since = next((n for n, each in enumerate(cycles) if len(each.whole_shards) == shards), None)
    if since is None:
        raise MomentError("the bus keeps no observation of all shards: does the collector run?")
    kept_since = cycles[since].at_ms
    if from_ms < kept_since:
        raise MomentError(
            f"--from {time_text(from_ms)}: the bus keeps observations since "
            f"{time_text(kept_since)}; bus.observations_retention_ms says for how long"
        )
    inside = [n for n, each in enumerate(cycles) if n >= since and each.at_ms <= to_ms]
    first = max((n for n in inside if cycles[n].at_ms <= from_ms), default=since)
    last = max(inside, default=since)
    if cycles[last].at_ms < from_ms:
        raise MomentError(
            f"nothing was observed from {time_text(from_ms)} to {time_text(to_ms)}; the newest "
            f"observation is of {time_text(cycles[last].at_ms)}"
        )
    if last - first >= file_format.MOST_CYCLES:
        raise MomentError(
            f"{counted(last - first, 'cycle')}: a capsule has at most {file_format.MOST_CYCLES}"
        )
    return since, first, last


def _replayed(
    recorded: Recorded, catalog: Catalog, timeline: Timeline[bytes], since: int, last: int
) -> Iterator[tuple[int, States]]:
    states = nothing_yet(catalog, recorded.cluster, recorded.shards)
    for index in range(since, last + 1):
        states = stepped(catalog, recorded.cluster, states, timeline.messages[index])
        yield index, states


class _Writer:
    """Adds members to a zip, and notes their sizes and digests."""

    def __init__(self, file: ZipFile) -> None:
        self._file = file
        self.members: dict[str, Member] = {}

    def add(self, name: str, content: bytes) -> None:
        info = ZipInfo(name, _NO_DATE)
        info.compress_type = ZIP_DEFLATED  # in each small frame the schema is most of it
        self._file.writestr(info, content)
        self.members[name] = Member(len(content), sha256(content).hexdigest())


def _write_states(
    writer: _Writer, replayed: Iterable[tuple[int, States]], first: int, last: int
) -> tuple[int, ...]:
    """Write whole states of the first cycle, the last, and some between; their indices."""
    whole = []
    for index, states in replayed:
        place = index - first
        if index < first or (place % file_format.WHOLE_EVERY_CYCLES and index != last):
            continue
        for shard, past in states.shards.items():
            if past.state is not None:
                parts = codec.encode_parts(past.state)
                writer.add(file_format.state_name(place, shard), b"".join(parts))
            if past.segments:
                encoded = segment_store.encode(past.segments)
                writer.add(file_format.segments_name(place, shard), encoded)
        if states.cluster.observed_at_ms != UNKNOWN:
            writer.add(file_format.cluster_name(place), codec.encode(states.cluster))
        whole.append(place)
    return tuple(whole)


def _write_messages(writer: _Writer, span: Timeline[bytes]) -> tuple[IndexedMessage, ...]:
    places: list[IndexedMessage] = []
    chunk, size, number = list[bytes](), 0, 0
    for cycle, messages in enumerate(span.messages):
        if cycle == 0:
            continue  # what brought the first state is in it
        for shard, message in messages:
            places.append(IndexedMessage(cycle, shard, number, size, len(message)))
            chunk.append(message)
            size += len(message)
            if size >= file_format.CHUNK_BYTES:
                writer.add(file_format.chunk_name(number), b"".join(chunk))
                chunk, size, number = [], 0, number + 1
    if chunk:
        writer.add(file_format.chunk_name(number), b"".join(chunk))
    return tuple(places)


class _Dated(msgspec.Struct):
    at_ms: int = UNKNOWN


def _events_between(events: Sequence[bytes], from_ms: int, to_ms: int) -> list[bytes]:
    """The events of the span, in order of their times; one line each, as JSON has no newlines."""
    dated = []
    for event in events:
        try:
            at_ms = msgspec.json.decode(event, type=_Dated).at_ms
        except msgspec.MsgspecError:
            continue
        if from_ms <= at_ms <= to_ms and b"\n" not in event:
            dated.append((at_ms, event))
    return [event for _, event in sorted(dated, key=lambda each: each[0])]
