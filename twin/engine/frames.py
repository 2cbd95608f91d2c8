"""Tables as bytes: Arrow IPC streams with a header, read strictly.

A frame is one table of one kind for one shard at one time. A message is one frame, or several back
to back. Encoding asserts what decoding checks again: a frame that was written can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from twin.declarations.table import UNKNOWN, Observation
from twin.tables.observations import OBSERVATIONS

MAX_FRAME_BYTES: Final = 900_000
"""Below Kafka's default max.message.bytes (1 048 588) with room for the record's own framing."""

Kinds = Mapping[str, type[Observation]]

# Arrow's thread pool costs more than it saves on tables of this size.
_WRITE: Final = {
    name: pa.ipc.IpcWriteOptions(compression=name, use_threads=False) for name in ("lz4", "zstd")
}
_READ = pa.ipc.IpcReadOptions(use_threads=False)
_NUMBERS = ("version", "shard", "shards", "observed_at_ms", "cycle", "part", "parts")


class InvalidFrame(ValueError):  # noqa: N818 - the name says what the bytes are
    """The bytes are not a usable frame. ``reason`` is one of a few words, so it can be counted."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """The metadata of a frame."""

    kind: str
    cluster: str
    shard: int
    shards: int
    observed_at_ms: int  # the cycle's own time; all frames of a cycle carry the same
    cycle: int
    part: int = 0  # a large table is sent in parts
    parts: int = 1
    complete: bool = True  # all parts together list everything there is
    version: int = 1  # of the kind's columns


@dataclass(frozen=True, slots=True)
class Frame:
    """A header and rows."""

    header: FrameHeader
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Decoded:
    """The frames of a message.

    ``unknown_kinds`` are kinds of frames that this version does not know, and skips; ``invalid``
    are frames of known kinds that cannot be used. Neither affects the other frames of the message.
    """

    frames: tuple[Frame, ...] = ()
    unknown_kinds: tuple[str, ...] = ()
    invalid: tuple[InvalidFrame, ...] = ()


def encode(frame: Frame, kinds: Kinds = OBSERVATIONS) -> bytes:
    """The frame as bytes, with the version of its kind.

    Raises:
        ValueError: the rows do not have the schema of their kind.
    """
    table = kinds[frame.header.kind]
    if not frame.rows.schema.equals(table.schema()):
        raise ValueError(f"rows of kind {table.kind} have the schema {frame.rows.schema}")
    return write(replace(frame.header, version=table.version), frame.rows)


def write(
    header: FrameHeader,
    rows: pa.Table,
    more: Mapping[str, str] | None = None,
    compression: Literal["lz4", "zstd"] = "lz4",
) -> bytes:
    """One Arrow IPC stream whose metadata are the header and ``more``."""
    metadata = {
        "kind": header.kind,
        "version": str(header.version),
        "cluster": header.cluster,
        "shard": str(header.shard),
        "shards": str(header.shards),
        "observed_at_ms": str(header.observed_at_ms),
        "cycle": str(header.cycle),
        "part": str(header.part),
        "parts": str(header.parts),
        "complete": "1" if header.complete else "0",
        **(more or {}),
    }
    # One chunk and no slice: of a slice, Arrow would also send the rows outside it.
    rows = rows.combine_chunks().replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_WRITE[compression]) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def encode_parts(
    frame: Frame, limit_bytes: int = MAX_FRAME_BYTES, kinds: Kinds = OBSERVATIONS
) -> list[bytes]:
    """The frame, split into parts below the limit, with rows in order."""
    whole = encode(frame, kinds)
    parts = 1
    while True:
        if parts == 1:
            encoded = [whole]
        else:
            step = -(-frame.rows.num_rows // parts)
            encoded = [
                encode(
                    Frame(replace(frame.header, part=i, parts=parts), _part(frame.rows, i, step)),
                    kinds,
                )
                for i in range(parts)
            ]
        largest = max(map(len, encoded))
        if largest <= limit_bytes or parts >= frame.rows.num_rows:
            return encoded
        parts = max(parts + 1, -(-parts * largest // limit_bytes))


def decode(message: bytes, kinds: Kinds = OBSERVATIONS) -> Decoded:
    """All frames of a message, in order.

    Raises:
        InvalidFrame: ``bytes``, it is not a sequence of Arrow streams; nothing of it can be used.
    """
    frames, unknown, invalid = [], [], []
    for metadata, rows in streams(message):
        try:
            header = header_of(metadata)
            if header.kind not in kinds:
                unknown.append(header.kind)
                continue
            frames.append(_checked(header, rows, kinds[header.kind]))
        except InvalidFrame as error:
            invalid.append(error)
    return Decoded(tuple(frames), tuple(unknown), tuple(invalid))


def streams(message: bytes) -> Iterator[tuple[dict[str, str], pa.Table]]:
    """Metadata and rows of each Arrow stream of a message, valid as Arrow.

    Raises:
        InvalidFrame: ``bytes``.
    """
    if not message:
        raise InvalidFrame("bytes", "the message is empty")
    source = pa.BufferReader(message)
    while source.tell() < len(message):
        try:
            with pa.ipc.open_stream(source, options=_READ) as reader:
                rows = reader.read_all()
                rows.validate(full=True)
            metadata = {k.decode(): v.decode() for k, v in (rows.schema.metadata or {}).items()}
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            # Arrow's own errors, and text that is not UTF-8 (UnicodeDecodeError is a ValueError).
            raise InvalidFrame("bytes", (str(error) or "?").splitlines()[0][:200]) from None
        yield metadata, rows.replace_schema_metadata(None)


def headers(message: bytes) -> list[tuple[FrameHeader, int]]:
    """Header and number of rows of each frame of a message, whatever its kind.

    Raises:
        InvalidFrame: ``bytes`` or ``header``.
    """
    return [(header_of(metadata), rows.num_rows) for metadata, rows in streams(message)]


def header_of(metadata: Mapping[str, str]) -> FrameHeader:
    """The header in the metadata of a stream.

    Raises:
        InvalidFrame: ``header``, an entry is missing, or is not a possible number.
    """
    try:
        header = FrameHeader(
            kind=metadata["kind"],
            cluster=metadata["cluster"],
            complete=metadata["complete"] == "1",
            **{name: int(metadata[name]) for name in _NUMBERS},
        )
    except KeyError as missing:
        raise InvalidFrame("header", f"metadata {missing} is missing") from None
    except ValueError as error:
        raise InvalidFrame("header", str(error)) from None
    # The cluster's own shard is -1: snapshots may be of it, observations may not.
    if not (UNKNOWN <= header.shard < header.shards and 0 <= header.part < header.parts):
        raise InvalidFrame(
            "header", f"shard {header.shard}/{header.shards}, part {header.part}/{header.parts}"
        )
    if header.observed_at_ms < UNKNOWN:
        raise InvalidFrame("header", f"observed_at_ms is {header.observed_at_ms}")
    return header


def join(parts: Iterable[bytes]) -> bytes:
    """Several encoded frames as one message."""
    return b"".join(parts)


def batch_messages(encoded: Sequence[bytes], limit_bytes: int = MAX_FRAME_BYTES) -> Iterator[bytes]:
    """Frames joined, in order, into as few messages as the limit allows."""
    batch: list[bytes] = []
    size = 0
    for frame in encoded:
        if batch and size + len(frame) > limit_bytes:
            yield join(batch)
            batch, size = [], 0
        batch.append(frame)
        size += len(frame)
    if batch:
        yield join(batch)


def _part(rows: pa.Table, part: int, step: int) -> pa.Table:
    """A slice that carries only the dictionary entries it uses."""
    piece = rows.slice(part * step, step)
    for i, field in enumerate(piece.schema):
        if pa.types.is_dictionary(field.type):
            entries = piece.column(i).combine_chunks()
            used, index = np.unique(entries.indices.to_numpy(), return_inverse=True)
            fewer = entries.dictionary.take(pa.array(used))
            # By entry, not by value: topics of an old broker share one id and must stay apart.
            made = pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), fewer)
            piece = piece.set_column(i, field, made)
    return piece


def _checked(header: FrameHeader, rows: pa.Table, table: type[Observation]) -> Frame:
    if header.shard < 0:
        raise InvalidFrame("header", f"shard {header.shard}/{header.shards}")
    if header.version != table.version:
        raise InvalidFrame(
            "version",
            f"{table.kind} has version {header.version}, this reader knows {table.version}",
        )
    if not rows.schema.equals(table.schema()):
        raise InvalidFrame("columns", _difference(rows.schema, table.schema()))
    return Frame(header, rows.combine_chunks())


def _difference(actual: pa.Schema, expected: pa.Schema) -> str:
    missing = sorted(set(expected.names) - set(actual.names))
    extra = sorted(set(actual.names) - set(expected.names))
    if missing or extra:
        return f"missing {missing}, unexpected {extra}"
    for theirs, ours in zip(actual, expected, strict=True):
        if not theirs.equals(ours):
            return f"column {theirs.name} is {theirs.type}, expected {ours.type}"
    return "columns are in another order"
