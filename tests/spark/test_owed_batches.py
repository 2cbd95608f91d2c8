"""Batches that a cluster owes: kept in the checkpoint, and settled also by one that was late."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql import SparkSession

from streaming.archive.owed import Owed, OwedBatch
from streaming.query.state.folder import Folder
from tests.spark.sessions import small_session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Folder:
    return Folder(spark, str(tmp_path / "owed"))


def batch(number: int, first: int | None = None) -> OwedBatch:
    """Each batch has ten records of a topic."""
    begin = (number if first is None else first) * 10
    return OwedBatch(number, {"t": {"0": begin}}, {"t": {"0": number * 10 + 10}})


def test_what_is_owed_outlives_the_program(folder: Folder) -> None:
    owed = Owed(folder, "a")
    for number in (4, 5, 6):
        owed.add(batch(number))
    again = Owed(folder, "a")
    assert again.first(before=7, is_begun=True) == batch(4)
    assert not Owed(folder, "b")


def test_batches_of_which_no_table_has_any_are_joined_also_for_the_next_start(
    folder: Folder,
) -> None:
    owed = Owed(folder, "a")
    for number in (4, 5, 6):
        owed.add(batch(number))
    assert owed.first(before=6, is_begun=False) == batch(5, first=4)
    again = Owed(folder, "a")
    assert again.first(before=6, is_begun=True) == batch(5, first=4)
    again.settle(5)
    assert again.first(before=7, is_begun=False) == batch(6)
    again.settle(6)
    assert not again
    assert folder.names() == []


def test_one_that_was_late_and_is_written_is_not_owed(folder: Folder) -> None:
    """Otherwise each late batch would be written again before the next, which is late by that."""
    owed = Owed(folder, "a")
    owed.add(batch(4))
    owed.add(batch(5))
    owed.settle(4)
    assert owed.first(before=9, is_begun=False) == batch(5)
    owed.settle(5)
    owed.add(batch(5))  # it ended just before it was counted as late
    assert not owed
