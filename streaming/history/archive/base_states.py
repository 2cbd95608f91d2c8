"""The states with which a reader begins: whole ones, and updates of them.

An hour begins with a whole state. Each quarter of an hour after that, an update of it takes a third
of its bytes, and saves a reader the rows of the quarters before. Both are messages as on the bus.
What rules remember of the cycle before is left out of an update: it is that of the cycle itself, as
in every state that is rebuilt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.history.archive.row_layout import (
    HOUR_MS,
    PLACE,
    STATE,
    TABLES,
    UPDATE,
    places_of,
    rounded,
    schemas,
    times_of,
)
from streaming.history.archive.scanning import wanted_rows
from twin.declarations.table import Table
from twin.engine import codec, updates
from twin.engine.catalog import Catalog
from twin.engine.frames import MAX_FRAME_BYTES, InvalidFrame
from twin.engine.shard_state import ShardState

if TYPE_CHECKING:
    from streaming.history.archive.delta import ArchiveTables

UPDATE_EVERY_MS: Final = 900_000

COLUMNS: Final = ("at", "shard", "table", "state", PLACE)
"""Of ``tables``, what ``base_state_of`` needs."""


@dataclass(frozen=True, slots=True)
class BaseState:
    """A state of one shard in the archive."""

    at_ms: int
    whole: bytes  # all messages of the newest whole state
    update: bytes | None  # what changed since then; None if nothing was written about that

    def state(self, catalog: Catalog) -> ShardState:
        """The state at ``at_ms``.

        Raises:
            InvalidFrame: it cannot be read, or the update is one of another whole state.
        """
        decoded = codec.decode(self.whole, catalog)
        if self.update is None:
            return decoded.state
        link = updates.link_of(self.update)
        if link is None or link.since != updates.id_of([self.whole]):
            raise InvalidFrame("header", "an update of another whole state")
        return updates.applied(self.update, decoded).state


def update_of(whole: Sequence[bytes], state: ShardState) -> bytes | None:
    """The update from a whole state to a later one; None where another whole state is needed.

    Args:
        whole: all messages of the whole state.
        state: the later one, of the same shard.
    """
    before = codec.decode(b"".join(whole), state.catalog)
    if before.discarded:
        return None
    after = replace(state.with_tables(*_rounded(state)), before=before.state.before)
    update = updates.encode(before.state, after, updates.id_of(whole), 1)
    return None if update is None or len(update) > MAX_FRAME_BYTES else update


def _rounded(state: ShardState) -> Iterator[Table]:
    """The tables that have fractional numbers, with the digits that rows have of them."""
    for table in state.catalog.stored:
        if any(column.dtype.kind == "f" for column in table.columns):
            values = state[table].values()
            yield table.from_values(
                rounded(v).astype(v.dtype) if v.dtype.kind == "f" else v for v in values
            )


def is_begin() -> pc.Expression:
    """Which rows of ``tables`` have a state or an update."""
    return pc.field("table").isin(pa.array([STATE, UPDATE]))


def base_state_rows(
    tables: ArchiveTables, catalog: Catalog, hours: Sequence[str], until_ms: int,
    shards: Collection[int],
) -> dict[int, pa.Table]:  # fmt: skip
    """By shard, ``COLUMNS`` of the rows of ``tables`` with a state or an update, up to a cycle.

    Raises:
        ArchiveError: the archive cannot be read.
    """
    wanted = wanted_rows(None, until_ms, shards) & is_begin()
    schema = pa.schema([schemas(catalog)[TABLES].field(name) for name in COLUMNS])
    batches = [*tables.batches(TABLES, hours, COLUMNS, (), wanted, ())]
    if batches and PLACE not in batches[0].schema.names:  # of an older archive
        schema = schema.remove(schema.get_field_index(PLACE))
    rows = pa.Table.from_batches(batches, schema)
    return {n: rows.filter(pc.equal(rows.column("shard"), n)) for n in shards}


def base_state_of(rows: pa.Table, now_ms: int) -> BaseState | None:
    """The newest state of the hour up to a cycle; None if there is none.

    Args:
        rows: ``COLUMNS`` of the rows of one shard with a state or an update.
        now_ms: the cycle.
    """
    at = times_of(rows.column("at"))
    is_whole = pc.equal(rows.column("table"), STATE).to_numpy()
    usable = (at <= now_ms) & (at >= now_ms - now_ms % HOUR_MS)
    if not (usable & is_whole).any():
        return None
    whole_ms = int(at[usable & is_whole].max())
    messages = _messages(rows, is_whole & (at == whole_ms))
    later = np.flatnonzero(usable & ~is_whole & (at > whole_ms))
    if not len(later):
        return BaseState(whole_ms, b"".join(messages), None)
    newest_ms = int(at[later].max())
    [update] = _messages(rows, ~is_whole & (at == newest_ms))
    return BaseState(newest_ms, b"".join(messages), update)


def _messages(rows: pa.Table, mask: np.ndarray) -> list[bytes]:
    rows = rows.filter(pa.array(mask))
    in_order = pa.array(np.argsort(places_of(rows), kind="stable"))
    messages: list[bytes] = rows.column("state").take(in_order).to_pylist()
    return messages
