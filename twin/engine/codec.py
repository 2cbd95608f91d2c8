"""A state as bytes: what Spark keeps and what consumers of the bus read.

Frames of a state (all are Arrow streams, see ``frames``):
    state.listing         one row: how far the listing of partitions is
    state.per_partition   one row a partition; columns ``<table>.<column>`` of all such tables
    state.per_replica     one row a replica, in the order of partitions and slots, likewise
    state.<table>         every other table that is stored, and not empty

Columns and frames of ``before.<table>`` hold what rules remember of the previous cycle. The wide
frames list their tables with versions in the metadata entry ``tables``: if a table has
another version, only that table is discarded; it is blank until the next cycle computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from twin.arrays.columns_in_arrow import object_array, to_arrow, to_numpy
from twin.declarations.table import (
    NO_BROKER,
    Array,
    Blob,
    Column,
    Int64,
    KeyedTable,
    PartitionTable,
    ReplicaTable,
    Table,
    column,
)
from twin.engine import frames
from twin.engine.catalog import Catalog
from twin.engine.frames import MAX_FRAME_BYTES, FrameHeader, InvalidFrame
from twin.engine.shard_state import Listing, ShardState, concatenated, most_rows, row_slice
from twin.engine.state_reader import BEFORE, StateReader, versions_of
from twin.tables.state import Assignment, PartitionIndex, Topics

PREFIX: Final = "state."
PER_PARTITION: Final = f"{PREFIX}per_partition"
PER_REPLICA: Final = f"{PREFIX}per_replica"
SLOTS_USED: Final = "slots_used"
SPINE: Final = (Topics, PartitionIndex, Assignment)


class ListingProgress(KeyedTable, kind="listing"):
    """[1] how far the listing of the newest cycle is."""

    listed_at_ms: Int64 = column("cycle whose partitions are being listed")
    listed_parts: Blob = column("a bit for each part of the listing that arrived", fill=b"")
    listing_whole_at_ms: Int64 = column("newest cycle whose listing was complete")
    prev_observed_at_ms: Int64 = column("the cycle before the newest")


_LONG_COLUMN_BYTES: Final = 1_024
"""Of a column on average, from which on zstd is worth it: to begin with one column takes zstd 15
microseconds, ten times what lz4 takes, and it saves 4 % of a state of 12 partitions."""

_ENCODED_SHARE: Final = 0.12
"""Bytes of a message for each byte in memory: a first guess at how many parts a state needs."""


Streams = dict[str, tuple[FrameHeader, dict[str, str], pa.Table]]
"""Frames of a part, by kind."""


@dataclass(frozen=True, slots=True)
class DecodedState:
    """A state, and a sentence for each table of the message that was discarded."""

    state: ShardState
    discarded: tuple[str, ...] = ()

    @property
    def without(self) -> frozenset[str]:
        """The names of the discarded tables."""
        return frozenset(sentence.partition(":")[0] for sentence in self.discarded)


# ---------------------------------------------------------------- encode


def encode(state: ShardState, part: int = 0, parts: int = 1) -> bytes:
    """The state as one message."""
    return frames.join(_streams(state, part, parts))


def encode_parts(state: ShardState, limit_bytes: int = MAX_FRAME_BYTES) -> list[bytes]:
    """The state, split into messages below the limit, each with different rows.

    A topic's rows may be in two parts; brokers, topics and configs are repeated in each. The number
    of parts depends only on the state, so that a replay gives the same messages.
    """
    parts = 1 + int(state.nbytes() * _ENCODED_SHARE) // limit_bytes
    most = state.partitions or most_rows(state)
    while True:
        parts = max(1, min(parts, most))
        encoded = [encode(each, i, parts) for i, each in enumerate(_cut(state, parts))]
        largest = max(map(len, encoded))
        if largest <= limit_bytes or parts >= most:
            return encoded
        parts = max(parts + 1, -(-parts * largest // limit_bytes))


def _cut(state: ShardState, parts: int) -> Iterator[ShardState]:
    """That many parts of a state: its partitions, or the rows of all tables if it has none."""
    if parts == 1:
        yield state
    elif state.partitions:
        for rows in np.array_split(np.arange(state.partitions), parts):
            yield state.take(rows)
    else:
        for part in range(parts):
            yield row_slice(state, part, parts)


def _streams(state: ShardState, part: int, parts: int) -> Iterator[bytes]:
    def header(kind: str, version: int = 1) -> FrameHeader:
        return FrameHeader(
            kind, state.cluster, state.shard, state.shards, state.observed_at_ms, state.cycle,
            part, parts, version=version,
        )  # fmt: skip

    yield write_frame(header(f"{PREFIX}listing"), listing_rows(state))
    used = slots_in_use(state)
    names = state.catalog.risk_names
    per_partition: list[tuple[str, Table]] = []
    per_replica: list[tuple[str, Table]] = []
    for name, table in stored_tables(state):
        if isinstance(table, PartitionTable):
            per_partition.append((name, table))
        elif isinstance(table, ReplicaTable):
            per_replica.append((name, table))
        elif isinstance(table, Topics) or len(table.values()[0]):
            yield write_frame(header(f"{PREFIX}{name}", table.version), table_rows(table, names))
    counts = {SLOTS_USED: pa.array(used.sum(axis=1).astype(np.uint8))}
    yield _wide(header(PER_PARTITION), per_partition, counts, lambda values: values)
    all_used = bool(used.all())
    yield _wide(header(PER_REPLICA), per_replica, {}, lambda v: v.ravel() if all_used else v[used])


def slots_in_use(state: ShardState) -> Array:
    """[P, R] a replica is in that slot; the slots of a row are used from the first on."""
    return state[Assignment].broker != NO_BROKER


def stored_tables(state: ShardState) -> Iterator[tuple[str, Table]]:
    """All tables of a message by their names there."""
    for table in state.catalog.stored:
        yield table.kind, state[table]
    for table in state.catalog.remembered:
        yield f"{BEFORE}{table.kind}", state.of_before(table)


def _wide(
    header: FrameHeader, tables: Iterable[tuple[str, Table]], more: dict[str, pa.Array], flat: Any
) -> bytes:
    columns, versions = dict(more), []
    for name, table in tables:
        versions.append(f"{name}={table.version}")
        for declared, values in columns_of(table):
            columns[f"{name}.{declared.name}"] = to_arrow(declared, flat(values))
    return write_frame(header, wide_rows(columns), {"tables": ",".join(versions)})


def wide_rows(columns: Mapping[str, pa.Array]) -> pa.Table:
    """The rows of a wide frame."""
    schema = pa.schema([pa.field(n, array.type, nullable=False) for n, array in columns.items()])
    return pa.table(list(columns.values()), schema=schema)


def table_rows(table: Table, risk_names: tuple[str, ...]) -> pa.Table:
    """The rows of a table with a frame of its own."""
    arrays = [risks_to_arrow(c, v, risk_names) for c, v in columns_of(table)]
    return pa.table(arrays, schema=table.schema())


def write_frame(
    header: FrameHeader, rows: pa.Table, more: Mapping[str, str] | None = None
) -> bytes:
    """A frame of a state: written rarely, kept for long, so in the smaller compression."""
    is_long = rows.nbytes >= _LONG_COLUMN_BYTES * rows.num_columns
    return frames.write(header, rows, more, "zstd" if is_long else "lz4")


def columns_of(table: Table) -> Iterator[tuple[Column, Array]]:
    """The columns of a table as declared, each with its values."""
    return zip(table.columns, table.values(), strict=True)


def listing_rows(state: ShardState) -> pa.Table:
    """The row of the frame about the listing."""
    listing = state.listing
    bits = sum(1 << part for part in listing.parts_seen)
    values = (
        np.array([listing.at_ms], np.int64),
        object_array([bits.to_bytes((bits.bit_length() + 7) // 8, "little")]),
        np.array([listing.whole_at_ms], np.int64),
        np.array([state.prev_observed_at_ms], np.int64),
    )
    table = ListingProgress(*values)
    return pa.table([to_arrow(c, v) for c, v in columns_of(table)], schema=table.schema())


def risks_to_arrow(declared: Column, values: Array, names: tuple[str, ...]) -> pa.Array:
    """Risks are written by name, since another catalog may number them differently."""
    if pa.types.is_dictionary(declared.arrow) and declared.dtype != object:
        index = pa.array(values.astype(np.int32))
        return pa.DictionaryArray.from_arrays(index, pa.array(names, pa.string()))
    return to_arrow(declared, values)


# ---------------------------------------------------------------- decode


def decode(message: bytes, catalog: Catalog) -> DecodedState:
    """The state of a message: one part, or all parts of a state back to back.

    Raises:
        InvalidFrame: ``bytes`` or ``header``; ``version``, the spine has another one; ``kind``, a
            frame that every state has is missing; ``rows``, the tables do not fit each other;
            ``parts``, some of them are missing.
    """
    by_part: dict[tuple[int, int], Streams] = {}
    for metadata, rows in frames.streams(message):
        header = frames.header_of(metadata)
        streams = by_part.setdefault((header.parts, header.part), {})
        streams[header.kind] = header, metadata, rows
    decoded = [_decode_part(by_part[part], catalog) for part in sorted(by_part)]
    if len(decoded) == 1:
        return decoded[0]
    parts, _ = next(iter(by_part))
    if sorted(by_part) != [(parts, part) for part in range(parts)]:
        raise InvalidFrame("parts", f"of {parts} there are {sorted(by_part)}")
    topics = {len(part.state[Topics].topic) for part in decoded}
    if len(topics) > 1:
        raise InvalidFrame("rows", f"the parts have {sorted(topics)} topics")
    discarded = dict.fromkeys(each for part in decoded for each in part.discarded)
    return DecodedState(concatenated([part.state for part in decoded]), tuple(discarded))


def _decode_part(streams: Streams, catalog: Catalog) -> DecodedState:
    for kind in (PER_PARTITION, PER_REPLICA, f"{PREFIX}{Topics.kind}", f"{PREFIX}listing"):
        if kind not in streams:
            raise InvalidFrame("kind", f"a state has a frame {kind}; got {sorted(streams)}")
    header, _, wide = streams[PER_PARTITION]
    used = _slots_used(wide, streams[PER_REPLICA][2])
    reader = StateReader(catalog, used)
    for kind, (its_header, metadata, rows) in streams.items():
        if kind in (PER_PARTITION, PER_REPLICA):
            for name, version in versions_of(metadata):
                reader.take_table(name, version, rows, f"{name}.")
        elif kind.startswith(PREFIX) and kind != f"{PREFIX}listing":
            reader.take_table(kind.removeprefix(PREFIX), str(its_header.version), rows)
    reader.drop_dependent()
    for table in SPINE:
        if table not in reader.tables:
            raise InvalidFrame("version", "; ".join(reader.discarded) or f"no {table.kind}")
    listing, prev_ms = read_listing(streams[f"{PREFIX}listing"][2])
    state = ShardState(
        catalog=catalog,
        cluster=header.cluster,
        shard=header.shard,
        shards=header.shards,
        observed_at_ms=header.observed_at_ms,
        prev_observed_at_ms=prev_ms,
        cycle=header.cycle,
        listing=listing,
        judged_at_ms=header.observed_at_ms,
        tables=reader.tables,
        before=reader.before,
    )
    topic = state[PartitionIndex].topic_index
    if ((topic < 0) | (topic >= len(state[Topics].topic))).any():
        raise InvalidFrame("rows", "a partition belongs to a topic that is not there")
    return DecodedState(state, tuple(reader.discarded))


def _slots_used(per_partition: pa.Table, per_replica: pa.Table) -> Array:
    if SLOTS_USED not in per_partition.column_names:
        raise InvalidFrame("columns", f"{PER_PARTITION} has no column {SLOTS_USED}")
    used = to_numpy(per_partition.column(SLOTS_USED))
    if int(used.sum(dtype=np.int64)) != per_replica.num_rows:
        raise InvalidFrame(
            "rows", f"{int(used.sum())} replicas are announced, {per_replica.num_rows} are there"
        )
    return used


def read_listing(rows: pa.Table) -> tuple[Listing, int]:
    """The listing, and the time of the cycle before the newest."""
    if not rows.schema.equals(ListingProgress.schema()) or rows.num_rows != 1:
        raise InvalidFrame("rows", "state.listing is one row of its own columns")
    at_ms, parts, whole_at_ms, prev_ms = (rows.column(i)[0].as_py() for i in range(4))
    bits = int.from_bytes(parts, "little")
    parts_seen = frozenset(i for i in range(bits.bit_length()) if bits >> i & 1)
    return Listing(at_ms, parts_seen, whole_at_ms), prev_ms
