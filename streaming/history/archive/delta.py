"""The archive's tables as Delta tables: appended exactly once, compacted, dropped when old.

Delta's log is written by delta-rs, in this process: a commit takes 15 ms, where Spark's Delta took
0.7 s of CPU time when it had nothing to do. It knows local folders, S3, Azure, Google's storage and
HDFS. Nothing here needs a JVM.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.compute import Expression
from pyarrow.dataset import ParquetReadOptions
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from streaming.history.archive import scanning
from streaming.history.archive.row_layout import CYCLES, EVENTS, HOUR, WRITTEN_IN_ORDER, times_of
from streaming.history.archive.scanning import wanted_rows
from streaming.runtime.errors import UserError

_SETTINGS: Final = {
    "delta.dataSkippingNumIndexedCols": "4",  # hour, at and shard; statistics of 30 cost more
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
_SORTED: Final = ColumnProperties(dictionary_enabled=False, encoding="DELTA_BINARY_PACKED")
_COMPRESSED: Final = WriterProperties(
    compression="ZSTD",
    compression_level=3,
    column_properties={"partition": _SORTED},
    max_row_group_size=32_768,  # few shards in each, so that a reader of one skips the others
)

_READABLE_FOR: Final = timedelta(hours=1)
"""Files that were compacted or dropped stay for readers that have begun."""

_CODES: Final = re.compile("\x1b\\[[0-9;]*m|\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}")
_OF_SYSTEM: Final = re.compile(r'Error: Os \{.*message: "([^"]*)".*\}')
_HALF: Final = 150

_HOURS_COMPACTED: Final = 24
"""After a pause, as many hours are compacted as are likely to be asked about."""


class ArchiveError(UserError):
    """The archive cannot be read or written; one line says why."""


def _is_absence(text: str) -> bool:
    """Whether the error means that there is no table.

    delta-rs raises the same error for a scheme that it does not know, and for a folder that it may
    not enter.
    """
    return "Unknown scheme" not in text and ("Os {" not in text or "kind: NotFound" in text)


def _causes(text: str) -> str:
    """The causes in an error of delta-rs, which has them below each other, in one line.

    Of a long one the beginning and the end stay: the last cause is the innermost.
    """
    plain = _CODES.sub("", text).removeprefix("Kernel error -> ").partition(" Known schemes")[0]
    joined = ": ".join(filter(None, map(str.strip, _OF_SYSTEM.sub(r"\1", plain).splitlines())))
    return joined if len(joined) <= 2 * _HALF else f"{joined[:_HALF]} ... {joined[-_HALF:]}"


class ArchiveTables:
    """The tables of one archive."""

    def __init__(self, path: str) -> None:
        """The archive in a folder, or at a URL."""
        self._path = path
        self._base = path.rstrip("/") if "://" in path else str(Path(path).resolve())
        self._opened: dict[str, DeltaTable] = {}

    def location(self, name: str) -> str:
        """Where the table is."""
        return f"{self._base}/{name}"

    # ------------------------------------------------------------ writing

    def append(self, name: str, rows: pa.Table, writer: str, batch: int) -> bool:
        """Append rows, unless this batch of this writer was appended before; then false.

        Raises:
            ArchiveError: the table cannot be written.
        """
        with self._saying("written"):
            table = self._table(name)
            done = None if table is None else table.transaction_version(writer)
            if done is not None and done >= batch:
                return False
            once = CommitProperties(app_transactions=[Transaction(writer, batch)])
            write_deltalake(
                self.location(name) if table is None else table, rows.combine_chunks(),
                mode="append", partition_by=[HOUR], schema_mode="merge",
                configuration=_SETTINGS, writer_properties=_COMPRESSED, commit_properties=once,
            )  # fmt: skip
            return True

    def compact(self, before_hour: str) -> None:
        """Make one file of the small files of each hour that is over.

        Raises:
            ArchiveError: a table cannot be written.
        """
        ended = datetime.fromisoformat(f"{before_hour}:00")
        hours = [ended - timedelta(hours=n) for n in range(1, _HOURS_COMPACTED + 1)]
        texts = [f"{hour:%Y-%m-%dT%H}" for hour in hours]
        for table in self._tables():
            with self._saying("compacted"):
                table.optimize.compact([(HOUR, "in", texts)], writer_properties=_COMPRESSED)

    def drop(self, before_hour: str) -> None:
        """Drop the hours before that one, and files that no reader needs any more.

        Raises:
            ArchiveError: a table cannot be written.
        """
        for table in self._tables():
            with self._saying("written"):
                table.delete(f"{HOUR} < '{before_hour}'")
                table.vacuum(
                    int(_READABLE_FOR / timedelta(hours=1)),
                    dry_run=False,
                    enforce_retention_duration=False,
                )

    # ------------------------------------------------------------ reading

    def read(
        self, name: str, hours: Sequence[str] | None = None, columns: Sequence[str] | None = None,
        until_ms: int | None = None, after_ms: int | None = None,
    ) -> pa.Table | None:  # fmt: skip
        """Rows of a table; None before it was written first.

        Args:
            name: of the table.
            hours: those to read; all if None.
            columns: those to read; all if None.
            until_ms: the time of the last rows.
            after_ms: the time after which the first ones are.

        Raises:
            ArchiveError: the table cannot be read.
        """
        with self._saying("read"):
            found = self._dataset(name, hours, ())
            if found is None:
                return None
            names = None if columns is None else [c for c in columns if c in found.schema.names]
            return found.to_table(columns=names, filter=wanted_rows(after_ms, until_ms, None))

    def batches(
        self, name: str, hours: Sequence[str], columns: Sequence[str], sparse: Collection[str],
        wanted: Expression, coded: Collection[str],
    ) -> Iterator[pa.RecordBatch]:  # fmt: skip
        """Rows, some at a time; none before the table was written first.

        Args:
            name: of the table.
            hours: those to read.
            columns: those to read.
            sparse: of them, those that are left out where they have no value.
            wanted: the rows to read.
            coded: columns of few different texts, none of them null, which are read as
                dictionaries: that takes a fifth of the time.

        Raises:
            ArchiveError: the table cannot be read.
        """
        with self._saying("read"):
            found = self._dataset(name, hours, coded)
            if found is not None:
                yield from scanning.batches(found, columns, sparse, wanted)

    def open(self) -> None:
        """Read the logs of tables that are there and not open yet, before somebody waits for that.

        Raises:
            ArchiveError: a table cannot be read.
        """
        with self._saying("read"):
            for name in WRITTEN_IN_ORDER:
                if name not in self._opened:
                    self._table(name)

    def hours(self) -> list[str]:
        """The hours that the archive has, in order."""
        with self._saying("read"):
            table = self._table(CYCLES)
            return [] if table is None else sorted({each[HOUR] for each in table.partitions()})

    def bytes(self, name: str) -> int:
        """The size of the files of a table, without those that were compacted."""
        with self._saying("read"):
            table = self._table(name)
            if table is None:
                return 0
            return sum(pa.table(table.get_add_actions()).column("size_bytes").to_pylist())

    def newest_cycles(self) -> dict[int, int]:
        """The newest cycle of each shard, as a Unix time in milliseconds."""
        rows = self._newest(CYCLES, ["shard", "at"])
        if rows is None:
            return {}
        newest = rows.group_by("shard").aggregate([("at", "max")])
        pairs = zip(
            newest.column("shard").to_pylist(), times_of(newest.column("at_max")), strict=True
        )
        return {shard: int(at_ms) for shard, at_ms in pairs}

    def newest_events(self) -> list[str]:
        """Ids of the events of the newest hours."""
        rows = self._newest(EVENTS, ["id"])
        return [] if rows is None else rows.column("id").to_pylist()

    def events_known_from(self) -> str:
        """The first hour of which ``newest_events`` has ids; empty if it has those of all."""
        older = self.hours()[:-_HOURS_COMPACTED]
        return self.hours()[len(older)] if older else ""

    def _newest(self, name: str, columns: Sequence[str]) -> pa.Table | None:
        return self.read(name, self.hours()[-_HOURS_COMPACTED:], columns)

    # ------------------------------------------------------------ inside

    def _dataset(
        self, name: str, hours: Sequence[str] | None, coded: Collection[str]
    ) -> pyarrow.dataset.Dataset | None:
        table = self._table(name)
        if table is None:
            return None
        schema = pa.schema(table.schema().to_arrow())
        for each in coded:
            code = pa.field(each, pa.dictionary(pa.int32(), pa.string()))
            schema = schema.set(schema.get_field_index(each), code)
        return table.to_pyarrow_dataset(
            file_pruning_predicate=None if hours is None else [(HOUR, "in", list(hours))],
            filesystem=self._files(name),
            parquet_read_options=ParquetReadOptions(dictionary_columns=coded),
            schema=schema,
        )

    def _files(self, name: str) -> FileSystem | None:
        """Arrow's own access to the files of a table; None for delta-rs' own.

        That one is in Python. A thread of Arrow that still holds it when the interpreter ends
        aborts the process, after all was printed (apache/arrow issues 34314 and 45214).
        """
        is_local = "://" not in self._base
        return SubTreeFileSystem(self.location(name), LocalFileSystem()) if is_local else None

    def _table(self, name: str) -> DeltaTable | None:
        """The table as it is now."""
        if name in self._opened:
            self._opened[name].update_incremental()
            return self._opened[name]
        try:
            self._opened[name] = DeltaTable(self.location(name))
        except TableNotFoundError as error:
            if _is_absence(str(error)):
                return None
            raise
        return self._opened[name]

    def _tables(self) -> Iterator[Any]:
        with self._saying("read"):
            tables: Iterable[DeltaTable | None] = [self._table(name) for name in WRITTEN_IN_ORDER]
        return (table for table in tables if table is not None)

    @contextmanager
    def _saying(self, done: str) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError, pa.ArrowException) as error:
            text = f"archive.path: {self._path} cannot be {done}: {_causes(str(error))}"
            raise ArchiveError(text) from None
