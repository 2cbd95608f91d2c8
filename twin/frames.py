"""Tables as bytes: Arrow IPC streams that say what they are, and refuse what is not exactly that.

A frame is one table of one kind for one shard at one time. A message is one frame, or several back
to back. Encoding asserts what decoding checks again: a frame that left us is one that can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from twin.tables import ALL, UNKNOWN

MAX_FRAME_BYTES: Final = 900_000
"""Below Kafka's default max.message.bytes (1 048 588) with room for the record's own framing."""

# Arrow's thread pool costs more than it saves on tables of this size.
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_NUMBERS = ("version", "shard", "shards", "observed_at_ms", "cycle", "part", "parts")


class FrameRefused(ValueError):  # noqa: N818 - what happens to the frame, in the words of the docs
    """The bytes are not a frame we may use. ``reason`` is one of a few words and is counted by."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Stamp:
    """What every frame says of itself beside its rows."""

    kind: str
    cluster: str
    shard: int
    shards: int
    observed_at_ms: int  # the cycle's own time; all frames of a cycle carry the same
    cycle: int
    part: int = 0  # a large table is sent in parts
    parts: int = 1
    complete: bool = True  # all parts together list everything there is


@dataclass(frozen=True, slots=True)
class Frame:
    """A stamp and the rows it speaks of."""

    stamp: Stamp
    rows: pa.Table


def encode(frame: Frame) -> bytes:
    """The frame as bytes. The rows must have the schema of their kind."""
    stamp = frame.stamp
    table = ALL[stamp.kind]
    if not frame.rows.schema.equals(table.schema):
        raise ValueError(f"rows of kind {stamp.kind} have the schema {frame.rows.schema}")
    header = {
        "kind": stamp.kind,
        "version": str(table.version),
        "cluster": stamp.cluster,
        "shard": str(stamp.shard),
        "shards": str(stamp.shards),
        "observed_at_ms": str(stamp.observed_at_ms),
        "cycle": str(stamp.cycle),
        "part": str(stamp.part),
        "parts": str(stamp.parts),
        "complete": "1" if stamp.complete else "0",
    }
    # One chunk and no slice, or Arrow would send what is not shown.
    rows = frame.rows.combine_chunks().replace_schema_metadata(header)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_WRITE) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def encode_parts(frame: Frame, limit_bytes: int = MAX_FRAME_BYTES) -> list[bytes]:
    """The frame in as many parts as keep each below the limit, rows in order."""
    whole = encode(frame)
    parts = 1
    while True:
        if parts == 1:
            encoded = [whole]
        else:
            step = -(-frame.rows.num_rows // parts)
            encoded = [
                encode(Frame(replace(frame.stamp, part=i, parts=parts), _part(frame.rows, i, step)))
                for i in range(parts)
            ]
        largest = max(map(len, encoded))
        if largest <= limit_bytes or parts >= frame.rows.num_rows:
            return encoded
        parts = max(parts + 1, -(-parts * largest // limit_bytes))


def decode(message: bytes) -> list[Frame]:
    """All frames of a message, in order.

    Raises:
        FrameRefused: with a reason of ``bytes`` (no Arrow stream), ``stamp`` (metadata missing or
            not a number), ``kind``, ``version`` (unknown to this reader), ``columns`` (not the
            kind's schema).
    """
    source = pa.BufferReader(message)
    frames = []
    while source.tell() < len(message):
        try:
            with pa.ipc.open_stream(source) as reader:
                rows = reader.read_all()
                rows.validate(full=True)
            frames.append(_checked(rows))
        except FrameRefused:
            raise
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            # Arrow's own refusals, and text that is no text (UnicodeDecodeError is a ValueError).
            raise FrameRefused("bytes", (str(error) or "?").splitlines()[0][:200]) from None
    if not frames:
        raise FrameRefused("bytes", "the message is empty")
    return frames


def join(parts: Iterable[bytes]) -> bytes:
    """Several encoded frames as one message."""
    return b"".join(parts)


def packed(encoded: Sequence[bytes], limit_bytes: int = MAX_FRAME_BYTES) -> Iterator[bytes]:
    """Frames joined to as few messages as keep each below the limit, in order."""
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
            # By entry and not by value: topics of an old broker share one id, and must not merge.
            made = pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), fewer)
            piece = piece.set_column(i, field, made)
    return piece


def _checked(rows: pa.Table) -> Frame:
    metadata = {k.decode(): v.decode() for k, v in (rows.schema.metadata or {}).items()}
    stamp, version = _stamp(metadata)
    table = ALL.get(stamp.kind)
    if table is None:
        raise FrameRefused("kind", f"no table is called {stamp.kind!r}")
    if version != table.version:
        raise FrameRefused(
            "version", f"{stamp.kind} has version {version}, this reader knows {table.version}"
        )
    rows = rows.replace_schema_metadata(None)
    if not rows.schema.equals(table.schema):
        raise FrameRefused("columns", _difference(rows.schema, table.schema))
    return Frame(stamp, rows.combine_chunks())


def _stamp(metadata: Mapping[str, str]) -> tuple[Stamp, int]:
    try:
        number = {name: int(metadata[name]) for name in _NUMBERS}
        version = number.pop("version")
        stamp = Stamp(
            kind=metadata["kind"],
            cluster=metadata["cluster"],
            complete=metadata["complete"] == "1",
            **number,
        )
    except KeyError as missing:
        raise FrameRefused("stamp", f"metadata {missing} is missing") from None
    except ValueError as error:
        raise FrameRefused("stamp", str(error)) from None
    if not (0 <= stamp.shard < stamp.shards and 0 <= stamp.part < stamp.parts):
        raise FrameRefused(
            "stamp", f"shard {stamp.shard}/{stamp.shards}, part {stamp.part}/{stamp.parts}"
        )
    if stamp.observed_at_ms < UNKNOWN:
        raise FrameRefused("stamp", f"observed_at_ms is {stamp.observed_at_ms}")
    return stamp, version


def _difference(got: pa.Schema, wanted: pa.Schema) -> str:
    missing = sorted(set(wanted.names) - set(got.names))
    extra = sorted(set(got.names) - set(wanted.names))
    if missing or extra:
        return f"missing {missing}, unexpected {extra}"
    for theirs, ours in zip(got, wanted, strict=True):
        if not theirs.equals(ours):
            return f"column {theirs.name} is {theirs.type}, expected {ours.type}"
    return "columns stand in another order"
