"""A state is the same after it was repartitioned, and the query goes on with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StreamingQuery, TwsTester

from streaming.query.buses.restarts import run_despite_passing_causes
from streaming.query.heartbeat import QueryRunsError, beating
from streaming.query.kafka_options import OUTPUT
from streaming.query.processor import Destination, TwinProcessor
from streaming.query.session import _needed
from streaming.query.state.checkpoint import CheckpointError
from streaming.query.state.repartition import RepartitionError, repartition
from streaming.query.twin_query import QueryError, _state_key
from streaming.runtime.config import BusConfig, ClusterConfig, Config, QueryConfig
from tests.simulator.shard import Shape, SimulatedShard
from tests.spark_platform.observed import Written
from tests.waiting import until
from twin.engine import frames

pytestmark = [pytest.mark.spark, pytest.mark.losses]

SHARDS = 9
START_MS = 1_800_000_000_000
INPUT = "key string, value binary, topic string, partition int, offset long, timestamp_ms long"


@pytest.fixture(scope="module")
def spark(tmp_path_factory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name, value in _needed(Config(query=QueryConfig(state_partitions=2))).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def observations_of(folder: Path) -> type[DataSource]:
    """A source that reads the files of a folder by their numbers, and repeats a batch as asked.

    Made here, so that workers get it by value. Spark's own source of files cannot be used: it does
    not start at a batch that was begun and not committed before the checkpoint was repartitioned.
    """

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
            return {"files": 0}

        def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
            return {"files": len(list(folder.glob("*.parquet")))}

        def partitions(self, start, end):
            return [InputPartition((start["files"], end["files"]))]

        def read(self, partition):
            for number in range(*partition.value):
                yield from pyarrow.parquet.read_table(folder / f"{number}.parquet").to_batches()

    class Observations(DataSource):
        @classmethod
        def name(cls) -> str:
            return "observations"

        def schema(self) -> str:
            return INPUT

        def streamReader(self, schema) -> Reader:  # noqa: N802
            return Reader()

    return Observations


class Deployment:
    """A query over files of observations: a batch a cycle, and a replay of all of them."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark, self._home = spark, home
        self._shards = [
            SimulatedShard(Shape(fetches=True), 1, "c", number, SHARDS) for number in range(SHARDS)
        ]
        self._observed = zip(*(shard.run(9, START_MS) for shard in self._shards), strict=True)
        self.sent: list[Row] = []
        (home / "observations").mkdir()
        self.config = Config(
            cluster=ClusterConfig(name="c"),
            bus=BusConfig(shards=SHARDS),
            query=QueryConfig(checkpoint=str(home / "checkpoint")),
        )

    def observe(self) -> None:
        """One cycle of all shards."""
        rows = [
            Row(f"c/{number}", frames.join(map(frames.encode, observed)), "o", 0,
                len(self.sent) + number, START_MS)
            for number, observed in enumerate(next(self._observed))
        ]  # fmt: skip
        self.sent += rows
        names = ("key", "value", "topic", "partition", "offset", "timestamp_ms")
        types = (pa.string(), pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.int64())
        schema = pa.schema(list(zip(names, types, strict=True)))
        table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema)
        number = len(list((self._home / "observations").iterdir()))
        pyarrow.parquet.write_table(table, self._home / "observations" / f"{number}.parquet")

    def run(self) -> None:
        """Everything that was observed, until nothing is left."""

        def run_once() -> None:
            try:
                assert self.started(availableNow=True).awaitTermination(600)
            except StreamingQueryException as error:
                raise QueryError(str(error)) from error

        run_despite_passing_causes(run_once)

    def started(self, **trigger: Any) -> StreamingQuery:
        """The running query."""
        self._spark.dataSource.register(observations_of(self._home / "observations"))
        output = (
            self._spark.readStream.format("observations")
            .load()
            .withColumn("state_key", _state_key([self.config]))
            .groupBy("state_key")
            .transformWithState(
                TwinProcessor({"": Destination(SHARDS, "snapshots", "events")}, ()),
                OUTPUT,
                "Append",
                "None",
            )
        )
        return (
            output.writeStream.format("noop")
            .option("checkpointLocation", self.config.query.checkpoint)
            .trigger(**trigger)
            .start()
        )

    def kill_inside_the_last_batch(self) -> None:
        """Leave the checkpoint as a driver that was killed before its commit leaves it."""
        (self._home / "checkpoint" / "heartbeat").write_text("{}")
        commits = self._home / "checkpoint" / "commits"
        last = max(int(file.name) for file in commits.glob("[0-9]*"))
        for file in (commits / str(last), commits / f".{last}.crc"):
            file.unlink(missing_ok=True)

    def stored(self) -> dict[tuple[str, str, int], tuple[int, bytes]]:
        """Partition and value of each variable of each key, at its place in the chain."""
        stored = {}
        for row in self._variable("state"):
            place = row.key.state_key, "state", 0
            stored[place] = row.partition_id, bytes(row.value.state)
        for row in self._variable("updates"):
            place = row.key.state_key, "update", row.user_map_key.number
            stored[place] = row.partition_id, bytes(row.user_map_value.update)
        for row in self._variable("version"):
            place = row.key.state_key, "version", row.value.number
            stored[place] = row.partition_id, bytes(row.value.id)
        return stored

    def _variable(self, name: str) -> list[Row]:
        reader = self._spark.read.format("statestore").option("stateVarName", name)
        return reader.load(self.config.query.checkpoint).collect()

    def by_shard(self) -> dict[int, bytes]:
        """The state of each shard, encoded as a whole."""
        written, stored = Written(), self.stored()
        for key, variable, number in sorted(stored):
            if variable == "version":  # the newest, after all that it continues
                for place in [(key, "state", 0), *((key, "update", n + 1) for n in range(number))]:
                    written.add_snapshot(stored[place][1])
        return newest_of(written)

    def replayed(self) -> dict[int, bytes]:
        """The newest snapshot of each shard as one process makes it of all observations."""
        tester, written = (
            TwsTester(TwinProcessor({"": Destination(SHARDS, "snapshots", "events")}, ())),
            Written(),
        )
        names = [field.split()[0] for field in INPUT.split(", ")]
        for row in self.sent:
            for out in tester.test(row[0], [Row(*names)(*row)]):
                if out.topic == "snapshots":
                    written.add_snapshot(bytes(out.value))
        return newest_of(written)


@pytest.fixture
def deployment(spark: SparkSession, tmp_path: Path) -> Deployment:
    made = Deployment(spark, tmp_path)
    for _ in range(2):
        made.observe()
        made.run()
    return made


def newest_of(written: Written) -> dict[int, bytes]:
    return {shard: by_time[max(by_time)] for shard, by_time in written.snapshots.items()}


def values(stored: dict[tuple[str, str, int], tuple[int, bytes]]) -> dict[Any, bytes]:
    return {key: value for key, (_, value) in stored.items()}


def test_the_state_is_the_same_elsewhere_and_the_query_goes_on_as_a_replay_does(deployment):
    before = deployment.stored()
    assert {variable for _, variable, _ in before} == {"state", "update", "version"}
    assert {partition for partition, _ in before.values()} == {0, 1}
    printed: list[str] = []
    repartition(deployment.config, 4, printed.append)
    after = deployment.stored()
    assert values(after) == values(before)
    assert {int(key[2]): partition for (key, *_), (partition, _) in after.items()} == {
        shard: shard % 4 for shard in range(SHARDS)
    }
    assert "from 2 to 4 partitions" in printed[-2]
    deployment.observe()
    deployment.run()
    assert deployment.by_shard() == deployment.replayed()


def test_a_query_that_was_killed_inside_a_batch_repeats_it_afterwards(deployment):
    deployment.kill_inside_the_last_batch()
    printed: list[str] = []
    repartition(deployment.config, 3, printed.append)
    assert "waiting 12 s for its next heartbeat" in printed[0]
    deployment.observe()
    deployment.run()
    assert deployment.by_shard() == deployment.replayed()


def test_what_makes_no_sense_is_refused_in_one_line(deployment, tmp_path):
    def refused(config: Config, partitions: int) -> str:
        with pytest.raises(RepartitionError) as error:
            repartition(config, partitions, lambda _: None)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "has 2 state partitions already" in refused(deployment.config, 2)
    assert f"there are {SHARDS} shards" in refused(deployment.config, SHARDS + 1)
    elsewhere = Config(query=QueryConfig(checkpoint=str(tmp_path / "elsewhere")))
    assert "there is no checkpoint of a query" in refused(elsewhere, 4)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("checkpoint", "why"),
    [
        ("s4a://bucket/twin", "No FileSystem for scheme"),
        ("hdfs://nowhere.invalid:1/twin", "nowhere"),
    ],
)
def test_a_checkpoint_that_hadoop_does_not_reach_is_one_line(spark, checkpoint, why):
    config = Config(query=QueryConfig(checkpoint=checkpoint))
    with pytest.raises(CheckpointError, match=f"^query.checkpoint: {checkpoint}.*: .*{why}[^\n]*$"):
        repartition(config, 4, lambda _: None)
    with pytest.raises(CheckpointError, match=why), beating(spark, checkpoint):
        pass


def test_a_checkpoint_that_cannot_be_written_is_one_line(spark, tmp_path):
    (tmp_path / "file").write_text("")
    for checkpoint in (f"{tmp_path}/file/twin", f"file://{tmp_path}/file/twin"):
        with (
            pytest.raises(
                CheckpointError, match=rf"^query.checkpoint: {tmp_path}/file[^\n]*: Not a"
            ),
            beating(spark, checkpoint),
        ):
            pass


def test_a_query_that_runs_is_not_touched_also_while_it_has_nothing_to_do(deployment, spark):
    before = deployment.stored()
    with (
        beating(spark, deployment.config.query.checkpoint),
        pytest.raises(
            QueryRunsError, match=rf"a query \(process {os.getpid()} on .* stop it first"
        ),
    ):
        repartition(deployment.config, 4, lambda _: None)
    assert deployment.stored() == before
    printed: list[str] = []
    repartition(deployment.config, 4, printed.append)
    assert not any("waiting" in line for line in printed), "the query said that it has ended"


def test_a_query_that_was_taken_for_ended_ends_and_nothing_is_lost(deployment):
    """It stood still for as long as its heartbeat is waited for."""
    query = deployment.started(processingTime="100 milliseconds")
    until(lambda: "Waiting" in query.status["message"], 60, "it has not looked for observations")
    repartition(deployment.config, 4, lambda _: None)
    deployment.observe()
    with pytest.raises(StreamingQueryException, match="CONCURRENT_STREAM_LOG_UPDATE"):
        query.awaitTermination(600)
    deployment.run()
    assert deployment.by_shard() == deployment.replayed()
