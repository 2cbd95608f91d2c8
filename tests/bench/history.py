"""The archive: bytes of a replica and minute, CPU beside the twin's own steps, and cold reads.

60 % of the partitions are written all the time, the others never. The oldest and the tiered records
move by segments, as Kafka's do. Once with a mishap of a broker, a leader or an ISR every 17 s.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.bus.record import Record, key
from streaming.history.archive.archive_past import ArchivePast
from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.feed import Feed
from streaming.history.archive.row_layout import (
    AT,
    CYCLES,
    HOUR,
    HOUR_MS,
    WRITTEN_IN_ORDER,
    hour_of,
    times_of,
)
from tests.bench import figure
from tests.simulator.shard import MS_PER_RECORD, RECORD_BYTES, Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.table import Array, Table
from twin.engine import updates
from twin.engine.codec import DecodedState
from twin.engine.shard_state import ShardState
from twin.engine.updates import Version
from twin.step import step

SHAPE: Final = Shape(topics=20, partitions=667, replication=3, brokers=60)
REPLICAS: Final = 20 * 667 * 3
CALM_MINUTES: Final = 55
"""Nearly the hour that the whole states begin; it is compacted, as the program does."""
MISHAP_MINUTES: Final = 6
"""Not compacted."""
CYCLES_A_MINUTE: Final = 12
INTERVAL_MS: Final = 5_000
START_MS: Final = 1_800_000_000_000 - 1_800_000_000_000 % 3_600_000
LARGE: Final = 300_000
"""Replicas of the cluster of which a month is said."""
MINUTES_A_MONTH: Final = 30 * 24 * 60
SEGMENT_RECORDS: Final = 100_000
COPIES: Final = (2, 8, 25)
"""Shards of clusters of 80 040, 320 160 and a million replicas, for the reads."""
HOURS: Final = 24
"""Of an archive that is read. Of all hours but the last, the cycles of all shards are there, which
each reader looks at, and the other rows of one shard, which are files that no reader needs."""


class SegmentedShard(SimulatedShard):
    """A shard of which the same partitions are written all the time, and tails move by segments."""

    has_mishaps = True

    def traffic(self, elapsed_ms: int) -> None:
        """Producers write to three of five partitions."""
        truth = self._truth
        busy = (np.arange(len(truth.end)) % 5 < 3)[:, None]
        written = self._random.poisson(elapsed_ms / MS_PER_RECORD, busy.shape) * busy
        follows = truth.isr & self.alive[truth.broker]
        truth.end = truth.end + np.where(follows & (truth.leader > 0)[:, None], written, 0)

    def _mishap(self) -> None:
        if self.has_mishaps:
            super()._mishap()

    def _replicas(self, at_ms: int) -> tuple[type[Table], pa.Table]:
        table, rows = super()._replicas(at_ms)
        end = rows.column("log_end_offset").to_numpy()
        local = _segment(end - 300_000)
        tiered = np.maximum(_segment(end - 50_000), 0)
        columns = {
            "local_log_start_offset": local,
            "last_tiered_offset": tiered - 1,
            "pending_upload_offset": tiered,
            "local_log_bytes": (end - local) * RECORD_BYTES,
            "local_start_timestamp_ms": START_MS + local * MS_PER_RECORD,
        }
        for name, values in columns.items():
            rows = rows.set_column(
                rows.schema.get_field_index(name), rows.schema.field(name), pa.array(values)
            )
        return table, rows


def _segment(offset: Array) -> Array:
    return np.maximum(offset // SEGMENT_RECORDS * SEGMENT_RECORDS, 0)


def main() -> None:
    """Archive a shard, and read the last of its minutes."""
    with tempfile.TemporaryDirectory() as folder:
        tables = ArchiveTables(folder)
        for calm in (True, False):
            _figures(calm, tables if calm else ArchiveTables(f"{folder}/mishaps"))
        _read(tables, Path(folder) / "copies")


def _figures(calm: bool, tables: ArchiveTables) -> None:
    whole, minute, share = _archived(tables, calm)
    if calm:
        tables.compact(_after(tables))
        minute = (_bytes(tables) - whole) / CALM_MINUTES
    about = {"replicas": REPLICAS, "written_share": 0.6, "mishaps": not calm, "compacted": calm}
    figure("archive_whole_bytes_per_replica", whole / REPLICAS, "B, once an hour", **about)
    figure("archive_minute_bytes_per_replica", minute / REPLICAS, "B", **about)
    figure("archive_bytes_per_replica_and_minute", (minute + whole / 60) / REPLICAS, "B", **about)
    month = (minute + whole / 60) / REPLICAS * LARGE * MINUTES_A_MONTH
    figure("archive_month_gigabytes", month / 1e9, "GB", **{**about, "replicas": LARGE})
    figure("archive_cpu_share", share, "of twin.step with its updates", **about)


def _archived(tables: ArchiveTables, calm: bool) -> tuple[float, float, float]:
    """Bytes of whole states, bytes of the median minute after them, and the share of CPU time."""
    shard = SegmentedShard(SHAPE, seed=1)
    shard.has_mishaps = not calm
    feed = Feed(CATALOG, "sim", 1, 60_000, {})
    feed.take([], [])  # the second batch is the last one that begins anew
    state = ShardState.empty(CATALOG, "sim", 0, 1)
    sent: tuple[Version, DecodedState] | None = None
    records, sizes, stepping, archiving = [], [], 0.0, 0.0
    minutes = CALM_MINUTES if calm else MISHAP_MINUTES
    shard.traffic(HOUR_MS)  # partitions differ, as they do on a cluster that has run for a while
    cycles = shard.run(minutes * CYCLES_A_MINUTE + 1, START_MS)
    for number, frames in enumerate(cycles):
        at_ms, began = frames[0].header.observed_at_ms, time.process_time()
        state, _ = step(state, frames, at_ms)
        version, messages = updates.messages_for(state, *(sent or (None, None)))
        stepping += time.process_time() - began
        sent = version, DecodedState(replace(state, judged_at_ms=at_ms))
        place = updates.place(version.number, 0).encode()
        if version.number == 0:
            parts = enumerate(messages)
            keys = [key("sim", 0) + updates.place(0, part).encode() for part, _ in parts]
        else:
            keys = [key("sim", 0) + place]
        records += [
            Record("snapshots", 0, number, its_key, message, at_ms)
            for its_key, message in zip(keys, messages, strict=True)
        ]
        if number % CYCLES_A_MINUTE == 0:
            began, before = time.process_time(), _bytes(tables)
            for name, rows in feed.take(records, []).items():
                tables.append(name, rows, "bench", number)
            archiving += time.process_time() - began
            sizes.append(_bytes(tables) - before)
            records = []
    # The first batch ends with the first cycle, which is given out by the second.
    whole, *later = [size for size in sizes if size]
    return whole - float(np.median(later)), float(np.median(later)), archiving / stepping


def _bytes(tables: ArchiveTables) -> int:
    return sum(tables.bytes(name) for name in WRITTEN_IN_ORDER)


def _after(tables: ArchiveTables) -> str:
    """The hour after the newest of the archive."""
    day, _, hour = tables.hours()[-1].partition("T")
    return f"{day}T{int(hour) + 1:02}"


def _read(tables: ArchiveTables, folder: Path) -> None:
    """Cold reads of the same rows as those of several shards, with the minutes of an hour."""
    for copies in COPIES:
        here = folder / str(copies)
        _add_hours(tables, ArchiveTables(str(here)), copies)
        made = copied(tables, here, copies)
        for compacted in (False, True):
            if compacted:
                made.compact(_after(made))
            about = {"replicas": REPLICAS * copies, "hours": HOURS, "compacted": compacted}
            for what, topic in (("view", None), ("partition", "topic-0-1")):
                past = ArchivePast(ArchiveTables(str(here)), CATALOG, "sim", INTERVAL_MS)
                past.look()  # as the exporter does again and again
                began, began_cpu = time.perf_counter(), time.process_time()
                found = past.view(past.span.end_ms, topic)
                figure(f"archive_{what}_seconds", time.perf_counter() - began, "s", **about)
                figure(f"archive_{what}_cpu_seconds", time.process_time() - began_cpu, "s", **about)
                assert len(found.view.shards) == (copies if topic is None else 1)


def _add_hours(tables: ArchiveTables, made: ArchiveTables, copies: int) -> None:
    """Append the same rows for the hours before."""
    for name in WRITTEN_IN_ORDER:
        rows = tables.read(name)
        if rows is None:
            continue
        for number in range(HOURS - 1, 0, -1):
            before = _earlier(rows, number)
            for shard in range(copies if name == CYCLES else 1):
                made.append(name, _of_shard(before, shard, copies), f"hour {number} {shard}", 0)


def _earlier(rows: pa.Table, hours: int) -> pa.Table:
    """The rows as they were so many hours before."""
    for i, each in enumerate(rows.schema):
        if each.type == AT:
            moved = pc.subtract(rows.column(i), pa.scalar(timedelta(hours=hours)))
            rows = rows.set_column(i, each, moved)
    hour = hour_of(START_MS - hours * HOUR_MS)
    at = rows.schema.get_field_index(HOUR)
    return rows.set_column(at, rows.schema.field(at), pa.repeat(hour, rows.num_rows))


def _of_shard(rows: pa.Table, shard: int, shards: int) -> pa.Table:
    for name, value in (("shard", shard), ("shards", shards)):
        if name in rows.schema.names:
            column = pa.repeat(pa.scalar(value, pa.int32()), rows.num_rows)
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows


def copied(tables: ArchiveTables, folder: Path, copies: int) -> ArchiveTables:
    """The same rows as those of several shards, in batches of a minute as the program appends."""
    made = ArchiveTables(str(folder))
    for name in WRITTEN_IN_ORDER:
        rows = tables.read(name)
        if rows is None:
            continue
        minute = times_of(rows.column("at")) // 60_000
        for number, of in enumerate(np.unique(minute).tolist()):
            batch = rows.filter(pa.array(minute == of))
            shards = [_of_shard(batch, n, copies) for n in range(copies)]
            made.append(name, pa.concat_tables(shards), "copies", number)
    return made


if __name__ == "__main__":
    main()
