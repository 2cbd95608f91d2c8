"""Shards that are archived in memory, for tests: what is written, and what was true."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from streaming.history.archive import row_layout
from streaming.history.archive.base_states import (
    COLUMNS,
    UPDATE_EVERY_MS,
    BaseState,
    base_state_of,
    is_begin,
)
from streaming.history.archive.differences import ShardArchive
from streaming.history.archive.rebuilding import ArchivedCycle, rebuilt
from streaming.history.archive.sparse_rows import SparseRows, by_shard
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.remote_log import segment_store
from twin.step import step, step_segments

INTERVAL_MS = 5_000
START_MS = 1_800_000_000_000 - 1_800_000_000_000 % 3_600_000 - 10 * INTERVAL_MS
"""Ten cycles before a new hour begins."""

BEFORE_A_QUARTER_MS = START_MS + UPDATE_EVERY_MS
"""Ten cycles before an update of a whole state."""

MEASURED_MS = 30_000


@dataclass
class Archived:
    """A simulated shard and its archive. ``states`` are the truth after each cycle."""

    simulated: SimulatedShard | None = None
    start_ms: int = START_MS
    shard: ShardArchive = field(default_factory=lambda: ShardArchive(MEASURED_MS))
    states: list[ShardState] = field(default_factory=list)
    segments: segment_store.SegmentStore = field(default_factory=dict)
    rows: dict[str, list[pa.Table]] = field(
        default_factory=lambda: {name: [] for name in row_layout.WRITTEN_IN_ORDER}
    )

    def cycle(self) -> ShardState:
        """Observe the shard, step the twin, archive the state."""
        simulated = self.simulated
        assert simulated is not None
        at_ms = self.start_ms + len(self.states) * INTERVAL_MS
        empty = ShardState.empty(CATALOG, simulated.cluster, simulated.shard, simulated.shards)
        before = self.states[-1] if self.states else empty
        sent = simulated.observe(at_ms)
        after, _ = step(
            before, [f for f in sent if f.header.kind not in segment_store.KINDS], at_ms
        )
        remote = [frame for frame in sent if frame.header.kind in segment_store.KINDS]
        after, self.segments, _ = step_segments(after, self.segments, remote)
        return self.keep(after)

    def keep(self, after: ShardState) -> ShardState:
        """SegmentStore the state."""
        self.states.append(after)
        for name, rows in self.shard.step(after).items():
            self.rows[name] += rows
        return after

    def table(self, name: str) -> pa.Table:
        """All rows of a table of the archive."""
        return pa.concat_tables([row_layout.schemas(CATALOG)[name].empty_table(), *self.rows[name]])

    def begin(self, index: int) -> BaseState:
        """The state in the archive with which a reader of that cycle begins."""
        rows = self.table(row_layout.TABLES).select(COLUMNS).filter(is_begin())
        found = base_state_of(rows, self.states[index].observed_at_ms)
        assert found is not None
        return found

    def rebuilt(self, index: int) -> ShardState:
        """The state after that cycle, out of the rows."""
        at_ms = self.states[index].observed_at_ms
        rows = {name: _between(self.table(name), UNKNOWN, at_ms) for name in self.rows}
        begin = self.begin(index)
        cycles = rows[row_layout.CYCLES].to_pylist()
        measured = max(row["at"] for row in cycles if row["is_measured"])
        of = self.states[index]
        cycle = ArchivedCycle(
            of.shard, at_ms, of.cycle, of.prev_observed_at_ms, of.listing.whole_at_ms,
            int(measured.timestamp() * 1_000),
        )  # fmt: skip
        later = {
            name: _sparse(table, name).between(begin.at_ms, at_ms) for name, table in rows.items()
        }
        return rebuilt(of.catalog, begin, cycle, later)


def an_archived(
    seed: int = 0, cycles: int = 0, start_ms: int = START_MS, **shape: int | float | bool
) -> Archived:
    """A shard with traffic and mishaps for so many cycles."""
    made = Archived(SimulatedShard(replace(Shape(), **shape), seed), start_ms)
    for _ in range(cycles):
        made.simulated.traffic(INTERVAL_MS)
        made.simulated._mishap()
        made.cycle()
    return made


def _between(table: pa.Table, after_ms: int, until_ms: int) -> pa.Table:
    at = row_layout.times_of(table.column("at"))
    return table.filter(pa.array((at > after_ms) & (at <= until_ms)))


def _sparse(table: pa.Table, name: str) -> SparseRows:
    found = by_shard(table.to_batches(), row_layout.sparse_columns(CATALOG, name))
    return next(iter(found.values()), SparseRows.empty(table.schema))
