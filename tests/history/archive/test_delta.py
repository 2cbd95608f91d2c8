"""The tables of the archive on a disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from streaming.history.archive.delta import ArchiveError, ArchiveTables
from streaming.history.archive.row_layout import CYCLES, PARTITIONS, WRITTEN_IN_ORDER, schemas
from tests.history.archive.archived import Archived, an_archived
from twin.builtin import CATALOG


def some_rows(archived: Archived, name: str = CYCLES) -> pa.Table:
    return archived.table(name)


def test_a_batch_that_is_appended_again_adds_nothing(tmp_path: Path):
    tables, rows = ArchiveTables(str(tmp_path)), some_rows(an_archived(cycles=3))
    assert tables.append(CYCLES, rows, "query", 0)
    assert not tables.append(CYCLES, rows, "query", 0)
    assert tables.append(CYCLES, rows, "another query", 0)
    found = ArchiveTables(str(tmp_path)).read(CYCLES)
    assert found is not None
    assert found.num_rows == 2 * rows.num_rows


def test_every_table_is_read_as_it_was_written(tmp_path: Path):
    tables, archived = ArchiveTables(str(tmp_path)), an_archived(cycles=3, groups=2)
    for name in WRITTEN_IN_ORDER:
        tables.append(name, archived.table(name), "query", 0)
        found = tables.read(name)
        assert found is not None
        written, found = archived.table(name), found.select(schemas(CATALOG)[name].names)
        assert found.schema == written.schema
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, written.to_pylist()))
    newest_ms = archived.states[-1].observed_at_ms
    assert tables.newest_cycles() == {0: newest_ms}
    earlier = tables.read(CYCLES, until_ms=archived.states[1].observed_at_ms)
    assert earlier is not None
    assert earlier.num_rows == 2


def test_a_new_column_is_null_in_older_rows(tmp_path: Path):
    tables, rows = ArchiveTables(str(tmp_path)), some_rows(an_archived(cycles=2), PARTITIONS)
    tables.append(PARTITIONS, rows.drop_columns(["leader"]), "query", 0)
    tables.append(PARTITIONS, rows, "query", 1)
    found = tables.read(PARTITIONS)
    assert found is not None
    assert found.column("leader").null_count >= rows.num_rows


def test_hours_that_are_over_become_one_file_each_and_old_ones_are_dropped(tmp_path: Path):
    tables, archived = ArchiveTables(str(tmp_path)), an_archived(cycles=14)
    rows = archived.table(CYCLES)
    for number in range(rows.num_rows):
        tables.append(CYCLES, rows.slice(number, 1), "query", number)
    first, second = tables.hours()
    files = tmp_path / CYCLES / f"hour={first}"
    assert len(list(files.glob("*.parquet"))) == 10
    tables.compact(second)
    assert tables.read(CYCLES) is not None
    tables.drop(second)
    assert tables.hours() == [second]


def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path):
    log = tmp_path / CYCLES / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("no json")
    with pytest.raises(ArchiveError, match=r"^archive\.path: .* cannot be read: ") as error:
        ArchiveTables(str(tmp_path)).read(CYCLES)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere://bucket/past", "nowhere://bucket/past cannot be read: Unknown scheme: nowhere."),
        ("hdfs://127.0.0.1:1/past", "IO error occurred while communicating with HDFS: "),
    ],
)
def test_a_store_that_cannot_be_asked_is_no_empty_archive(path: str, why: str):
    with pytest.raises(ArchiveError) as error:
        ArchiveTables(path).read(CYCLES)
    assert why in str(error.value)
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)


def test_a_folder_that_may_not_be_entered_is_no_empty_archive(tmp_path: Path):
    with as_nobody(tmp_path), pytest.raises(ArchiveError, match=r"cannot be read: .*denied"):
        ArchiveTables(str(tmp_path / "closed")).read(CYCLES)
    assert ArchiveTables(str(tmp_path / "closed")).read(CYCLES) is None


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """A folder ``closed`` that this process may not enter; root may enter all, so it is another
    user meanwhile."""
    closed = folder / "closed"
    closed.mkdir()
    for parent in folder.parents[:-1]:
        parent.chmod(parent.stat().st_mode | 0o011)
    folder.chmod(0o755)
    closed.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        closed.chmod(0o700)


BATCHES = 60

WRITE = f"""
import sys
from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.row_layout import CYCLES, PARTITIONS
from tests.history.archive.archived import an_archived
archived = an_archived(cycles=2)
tables = ArchiveTables(sys.argv[1])
done = [tables.read(name, columns=["at"]) for name in (PARTITIONS, CYCLES)]
print("ready", flush=True)
for batch in range({BATCHES}):
    for name in (PARTITIONS, CYCLES):
        tables.append(name, archived.table(name), "query", batch)
"""


def test_a_writer_that_is_killed_and_repeats_its_batches_writes_nothing_twice(tmp_path: Path):
    for after_s in (0.2, 0.4, 0.05, 0.3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITE, str(tmp_path)], stdout=subprocess.PIPE, cwd=os.getcwd()
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(after_s)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
    archived, tables = an_archived(cycles=2), ArchiveTables(str(tmp_path))
    for name in (PARTITIONS, CYCLES):
        rows = archived.table(name)
        for batch in range(BATCHES):
            tables.append(name, rows, "query", batch)
        found = tables.read(name, columns=["at"])
        assert found is not None
        assert found.num_rows == BATCHES * rows.num_rows
