"""What operators ask the archive, as docs/history.md shows it: pandas, DuckDB and Spark SQL."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.pages.markdown import DOCS
from tests.archive.bus import SHARDS, Program, SimulatedBus
from twin.rules.replication.caught_up import InSync
from twin.tables.state import PartitionIndex, Partitions, Replicas

CYCLES = 20


@pytest.fixture(scope="module")
def bus() -> SimulatedBus:
    made = SimulatedBus()
    for _ in range(CYCLES):
        made.cycle()
    return made


@pytest.fixture
def archive(bus: SimulatedBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive in the working directory."""
    monkeypatch.chdir(tmp_path)
    Program(bus, tmp_path / "archive").run()
    return tmp_path


def answers(which: str, **given: Any) -> dict[str, Any]:
    """The variables after the example that imports that."""
    text = (DOCS / "history.md").read_text()
    [code] = [each for each in re.findall(r"```python\n(.*?)```", text, re.S) if which in each]
    variables = dict(given)
    exec(code, variables)
    return variables


def test_pandas_says_how_many_records_each_topic_got(archive: Path, bus: SimulatedBus) -> None:
    appended = answers("pandas")["appended"]
    found = Counter[str]()
    for (_, topic), records in appended.items():
        found[topic] += int(records)
    begin, end = bus.states[10], bus.states[16]  # the hour begins; the last half minute does
    for shard in range(SHARDS):
        before, after = begin[shard], end[shard]
        grown = {}
        for name in set(after.topic_names().tolist()):
            rows = after.topic_names() == name
            ends = []
            for state in (before, after):
                slots = leader_slots(state)
                ends.append(state[Replicas].log_end_offset[np.arange(len(slots)), slots][rows])
            grown[name] = int((ends[1] - ends[0]).sum())
        for name, records in grown.items():
            assert found[name] >= records > 0


def leader_slots(state: Any) -> Any:
    from streaming.history.archive.archive_columns import leader_slots

    return leader_slots(state)


def test_duckdb_says_when_leaders_moved(archive: Path, bus: SimulatedBus) -> None:
    expected = []
    for number in range(1, CYCLES - 1):
        if number == 10:  # the first of an hour is written whole
            continue
        before, after = (bus.states[n][0] for n in (number - 1, number))
        for row in np.flatnonzero(before[Partitions].leader != after[Partitions].leader):
            if after.topic_names()[row] == "topic-0-1":
                partition = int(after[PartitionIndex].partition[row])
                leader = int(after[Partitions].leader[row])
                expected.append((bus.at_ms(number), partition, leader))
    assert expected
    assert answers("duckdb")["moves"] == expected


@pytest.fixture
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
    }
    builder = sql.SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.spark
def test_spark_says_which_replicas_were_out_of_sync(
    archive: Path, bus: SimulatedBus, spark: Any
) -> None:
    expected = []
    for shard in range(SHARDS):
        state = bus.states[14][shard]
        for row, slot in zip(*np.nonzero(state[InSync].in_sync == 0), strict=True):
            partition = int(state[PartitionIndex].partition[row])
            expected.append((state.topic_names()[row], partition, int(slot)))
    assert expected
    assert [tuple(row) for row in answers("spark.read", spark=spark)["out_of_sync"]] == expected
