"""A state as what changed since the state before it: some columns in place of all tables.

After most cycles most columns are as they were, and offsets have moved by little. So most messages
of a shard are updates: each continues the message whose id it names (``since``). A chain of updates
begins with a whole state (``codec``) and is short, so whoever missed one soon has a whole state.

Frames of an update:
    update.listing        one row, as in a whole state; its metadata are the ``Link``, and the
                          tables that rules remember which are now what the state before had
                          (``copied``)
    update.per_partition  the changed columns ``<table>.<column>`` of such tables
    update.per_replica    likewise, one row a replica
    update.<table>        every other table that changed, with all its columns and rows

A column of whole numbers has the differences to its values before, in the narrowest type that holds
them: a type narrower than the declared one marks them. If replicas or partitions came or went,
rows do not correspond to those before, and there is no update.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from twin.arrays.columns_in_arrow import to_arrow, to_numpy
from twin.declarations.table import Array, Column, PartitionTable, ReplicaTable, Table
from twin.engine import codec, frames
from twin.engine.codec import DecodedState
from twin.engine.frames import MAX_FRAME_BYTES, FrameHeader, InvalidFrame
from twin.engine.shard_state import ShardState, Tables
from twin.engine.state_reader import BEFORE, StateReader, matrix, versions_of

PREFIX: Final = "update."
LISTING: Final = f"{PREFIX}listing"
PER_PARTITION: Final = f"{PREFIX}per_partition"
PER_REPLICA: Final = f"{PREFIX}per_replica"

WHOLE_EVERY_CYCLES: Final = 8
"""How often a whole state begins a new chain: so long waits a reader that missed a message."""

MOST_UPDATES: Final = 63
"""Of one chain: taps write between cycles, and a restart applies all of them."""

_ID_BYTES: Final = 16
_NARROWER: Final = (np.int8, np.int16, np.int32)


class Version(NamedTuple):
    """Where a chain of messages ends."""

    id: bytes  # of the newest message
    number: int  # updates since the whole state
    whole_cycle: int  # the cycle of the whole state


@dataclass(frozen=True, slots=True)
class Link:
    """What an update continues. Header and link are read without its rows."""

    header: FrameHeader
    since: bytes  # the id of the message before it
    number: int  # updates since the whole state, this one included


def is_whole_due(last_cycle: int, cycle: int, shard: int) -> bool:
    """Whether the shard should send a whole state, after its last one in that cycle.

    Shards differ in the cycle in which they do, so that all cycles cost the same.
    """
    last, now = ((each + shard) // WHOLE_EVERY_CYCLES for each in (last_cycle, cycle))
    return last != now


def id_of(messages: Iterable[bytes]) -> bytes:
    """The id of an update, or of a whole state with all its parts in order."""
    digest = blake2b(digest_size=_ID_BYTES)
    for message in messages:
        digest.update(message)
    return digest.digest()


# ---------------------------------------------------------------- encode


def messages_for(
    state: ShardState, version: Version | None, before: DecodedState | None
) -> tuple[Version, list[bytes]]:
    """The messages that bring readers to a state: an update, or a whole state in parts.

    Args:
        state: the state to send.
        version: where the chain ends; None if there is no chain yet.
        before: the state there; None if it cannot be read.
    """
    update = None if version is None or before is None else _update(state, version, before)
    if version is None or update is None:
        messages = codec.encode_parts(state)
        return Version(id_of(messages), 0, state.cycle), messages
    return Version(id_of([update]), version.number + 1, version.whole_cycle), [update]


def place(number: int, part: int) -> str:
    """What the key of a message has after the name of the shard.

    Each place in the chain has a key of its own, so a compacted topic has the newest chain in full.
    """
    if number:
        return f"@{number}"
    return f"/{part}" if part else ""


def _update(state: ShardState, version: Version, before: DecodedState) -> bytes | None:
    """The update to the state; None where a whole state is due."""
    if before.discarded or version.number >= MOST_UPDATES:
        return None
    if is_whole_due(version.whole_cycle, state.cycle, state.shard):
        return None
    update = encode(before.state, state, version.id, version.number + 1)
    return None if update is None or len(update) > MAX_FRAME_BYTES else update


def encode(before: ShardState, after: ShardState, since: bytes, number: int) -> bytes | None:
    """The update from one state to the next; None if there cannot be one.

    Args:
        before: the state as the message with the id ``since`` has it.
        after: the state to send.
        since: the id of the message before.
        number: updates since the whole state, this one included.
    """
    used, used_before = codec.slots_in_use(after), codec.slots_in_use(before)
    if not np.array_equal(used.sum(axis=1), used_before.sum(axis=1)):
        return None
    return frames.join(_Encoder(before, after, used, used_before).streams(since, number))


class _Encoder:
    def __init__(
        self, before: ShardState, after: ShardState, used: Array, used_before: Array
    ) -> None:
        self._before, self._after = before, after
        self._used, self._used_before = used, used_before
        self._all_used = bool(used.all() and used_before.all())

    def streams(self, since: bytes, number: int) -> Iterator[bytes]:
        before = dict(codec.stored_tables(self._before))
        copied: list[str] = []
        wide: dict[str, dict[str, pa.Array]] = {PER_PARTITION: {}, PER_REPLICA: {}}
        versions: dict[str, list[str]] = {PER_PARTITION: [], PER_REPLICA: []}
        others: list[bytes] = []
        for name, table in codec.stored_tables(self._after):
            # A remembered table usually is the table object of the state before: not compared.
            if name.startswith(BEFORE) and table is before.get(name.removeprefix(BEFORE)):
                copied.append(name)
                continue
            changed = list(self._changed(before[name], table))
            if not changed:
                continue
            if name.startswith(BEFORE) and self._is_copy(before, name, table):
                copied.append(name)
            elif isinstance(table, PartitionTable | ReplicaTable):
                kind = PER_PARTITION if isinstance(table, PartitionTable) else PER_REPLICA
                versions[kind].append(f"{name}={table.version}")
                wide[kind] |= {f"{name}.{c.name}": _difference(c, *v) for c, *v in changed}
            else:
                rows = codec.table_rows(table, self._after.catalog.risk_names)
                header = self._header(f"{PREFIX}{name}", table.version)
                others.append(codec.write_frame(header, rows))
        link = {"since": since.hex(), "number": str(number), "copied": ",".join(copied)}
        yield codec.write_frame(self._header(LISTING), codec.listing_rows(self._after), link)
        yield from others
        for kind, columns in wide.items():
            if columns:
                listed = {"tables": ",".join(versions[kind])}
                yield codec.write_frame(self._header(kind), codec.wide_rows(columns), listed)

    def _header(self, kind: str, version: int = 1) -> FrameHeader:
        state = self._after
        return FrameHeader(
            kind, state.cluster, state.shard, state.shards, state.observed_at_ms, state.cycle,
            version=version,
        )  # fmt: skip

    def _is_copy(self, before: Mapping[str, Table], name: str, table: Table) -> bool:
        """Whether a rule remembers now what the state before had; computed tables are not sent."""
        source = before.get(name.removeprefix(BEFORE))
        return source is not None and not any(self._changed(source, table))

    def _changed(self, old: Table, new: Table) -> Iterator[tuple[Column, Array, Array]]:
        """The columns that differ, with their values before and after, of replicas in a row."""
        if old is new:
            return
        by_slot = isinstance(new, ReplicaTable)
        for (declared, mine), theirs in zip(codec.columns_of(new), old.values(), strict=True):
            after, before = (v.astype(declared.dtype, copy=False) for v in (mine, theirs))
            if _same(before, after):
                continue
            if by_slot and self._all_used:
                after, before = after.ravel(), before.ravel()
            elif by_slot:  # slots without a replica are not sent, so they make no difference
                after, before = after[self._used], before[self._used_before]
                if _same(before, after):
                    continue
            yield declared, before, after


def _same(one: Array, other: Array) -> bool:
    """Whether both have the same values to the bit: not a number equals itself.

    Arrow compares bytes in a quarter of the time that numpy takes for columns out of the cache.
    """
    if one is other:
        return True
    if one.shape != other.shape:
        return False
    if one.dtype == object:
        return bool(one.tolist() == other.tolist())
    bits, others = (pa.py_buffer(np.ascontiguousarray(values)) for values in (one, other))
    return bits.equals(others)


def _difference(declared: Column, before: Array, after: Array) -> pa.Array:
    """The differences in a narrower type; the values themselves where they do not fit."""
    if after.dtype.kind == "i" and len(after):
        moved = after - before  # modulo 2^64, as it is added again
        least, most = moved.min(), moved.max()
        for narrow in _NARROWER:
            limits = np.iinfo(narrow)
            if limits.bits < 8 * after.itemsize and limits.min <= least and most <= limits.max:
                return pa.array(moved.astype(narrow))
    return to_arrow(declared, after)


# ---------------------------------------------------------------- decode


def link_of(message: bytes) -> Link | None:
    """What the message continues; None for every message that is not an update.

    Raises:
        InvalidFrame: ``bytes`` or ``header``.
    """
    try:
        with pa.ipc.open_stream(message) as reader:
            found = reader.schema.metadata or {}
            metadata = {k.decode(): v.decode() for k, v in found.items()}
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise InvalidFrame("bytes", (str(error) or "?").splitlines()[0][:200]) from None
    if metadata.get("kind") != LISTING:
        return None
    header = frames.header_of(metadata)
    try:
        return Link(header, bytes.fromhex(metadata["since"]), int(metadata["number"]))
    except (KeyError, ValueError) as error:
        raise InvalidFrame("header", f"an update without a link: {error}") from None


def applied(update: bytes, before: DecodedState) -> DecodedState:
    """The state after an update.

    Args:
        update: a message with a ``Link``.
        before: the state of the message that it continues.

    Raises:
        InvalidFrame: ``bytes`` or ``header``; ``kind``, another kind of message; ``rows`` or
            ``columns``, they do not fit the state.
    """
    (header, metadata, listing), *others = _frames_of(update)
    decoder = _Decoder(before)
    decoder.take_copies(metadata.get("copied", ""))
    for its_header, its_metadata, rows in others:
        decoder.take(its_header, its_metadata, rows)
    tables, remembered, discarded = decoder.result()
    progress, prev_ms = codec.read_listing(listing)
    after = replace(
        before.state,
        observed_at_ms=header.observed_at_ms,
        prev_observed_at_ms=prev_ms,
        cycle=header.cycle,
        listing=progress,
        judged_at_ms=header.observed_at_ms,
        tables=tables,
        before=remembered,
        _on_demand={},
    )
    return DecodedState(after, tuple(dict.fromkeys((*before.discarded, *discarded))))


def _frames_of(update: bytes) -> list[tuple[FrameHeader, dict[str, str], pa.Table]]:
    found = [
        (frames.header_of(metadata), metadata, rows) for metadata, rows in frames.streams(update)
    ]
    if found[0][0].kind != LISTING:
        raise InvalidFrame("kind", f"an update begins with {LISTING}; got {found[0][0].kind}")
    return found


class _Decoder:
    """The tables of the state before, replaced one after the other."""

    def __init__(self, before: DecodedState) -> None:
        self._state, self._without = before.state, before.without
        self._used = codec.slots_in_use(before.state)
        self._counts, self._all_used = self._used.sum(axis=1), bool(self._used.all())
        self._reader = StateReader(before.state.catalog, self._counts, before.without)
        self._reader.tables = dict(before.state.tables)
        self._reader.before = dict(before.state.before)

    def result(self) -> tuple[Tables, Tables, list[str]]:
        """The tables, those that rules remember, and a sentence for each that was discarded."""
        self._reader.drop_dependent()
        return self._reader.tables, self._reader.before, self._reader.discarded

    def take_copies(self, names: str) -> None:
        """What rules remember is now what the state before had."""
        remembered = {f"{BEFORE}{table.kind}": table for table in self._state.catalog.remembered}
        for name in names.split(","):
            if name in remembered and not {name, remembered[name].kind} & self._without:
                self._reader.put(name, self._state[remembered[name]])

    def take(self, header: FrameHeader, metadata: Mapping[str, str], rows: pa.Table) -> None:
        """The table or tables of one frame."""
        if header.kind in (PER_PARTITION, PER_REPLICA):
            for name, version in versions_of(metadata):
                if (table := self._reader.usable(name, version)) is not None:
                    self._reader.put(name, self._with_columns(name, table, rows))
        else:
            name = header.kind.removeprefix(PREFIX)
            self._reader.take_table(name, str(header.version), rows)

    def _with_columns(self, name: str, table: type[Table], rows: pa.Table) -> Table:
        """The table with the columns of the frame in place of those before."""
        state = self._state
        old = state.of_before(table) if name.startswith(BEFORE) else state[table]
        sent = set(rows.column_names)
        return table.from_values(
            self._column(declared, values, rows.column(column)) if column in sent else values
            for declared, values in codec.columns_of(old)
            for column in (f"{name}.{declared.name}",)
        )

    def _column(self, declared: Column, before: Array, sent: pa.ChunkedArray) -> Array:
        by_slot = before.ndim > 1
        flat = (before.ravel() if self._all_used else before[self._used]) if by_slot else before
        if len(sent) != len(flat):
            raise InvalidFrame("rows", f"{declared.name}: {len(sent)} rows follow {len(flat)}")
        if sent.type == declared.arrow:
            flat = to_numpy(sent)
        elif declared.dtype.kind == "i" and pa.types.is_signed_integer(sent.type):
            flat = flat + to_numpy(sent)
        else:
            raise InvalidFrame("columns", f"{declared.name} is {sent.type}: {declared.arrow}")
        if not by_slot:
            return flat
        return matrix(flat, self._counts, before.shape[1], declared)
