"""The reader of remote segments on real brokers: what it sends, and where it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import msgspec
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.lab.local_cluster import LocalCluster
from streaming.query.remote_log.outbox import Outbox
from streaming.query.remote_log.position import PositionFile
from streaming.query.remote_log.segment_reader import SegmentReader
from streaming.runtime.config import BusConfig, ClusterConfig, Config, QueryConfig
from streaming.runtime.kafka.remote_log_access import TOPIC
from tests.spark.sessions import small_session
from tests.spark.test_remote_records import FINISHED, STARTED
from tests.waiting import until
from twin.engine import frames

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

PARTITION = 3


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session


@pytest.fixture
def config(cluster: LocalCluster, tmp_path: Path) -> Config:
    made = Config(
        cluster=ClusterConfig(name="c", bootstrap=cluster.bootstrap),
        bus=BusConfig(prefix=tmp_path.name, shards=2),
        query=QueryConfig(checkpoint=str(tmp_path / "checkpoint")),
    )
    bus_topics.ensure_topics(made)
    return made


@contextmanager
def reading(config: Config, spark: SparkSession) -> Iterator[SegmentReader]:
    with closing(Outbox(config)) as outbox:
        reader = SegmentReader(config, outbox, PositionFile(spark, config.query.checkpoint, "c"))
        try:
            yield reader
        finally:
            reader.ask_to_stop()
            reader.stop(30)


def write(bootstrap: str, *values: bytes) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send(TOPIC, value, partition=PARTITION)
        producer.flush(30)


def test_records_are_sent_once_and_a_restart_goes_on_behind_them(
    config: Config, spark: SparkSession, cluster: LocalCluster
) -> None:
    states: list[int] = []
    with Reader(config, [bus_topics.topics(config).observations], "beginning") as bus:

        def has(*expected: int) -> bool:
            for record in bus.poll(200):
                for frame in frames.decode(record.value or b"").frames:
                    rows = frame.rows.to_pylist()
                    states.extend(row["state"] for row in rows if row["topic"] == "kipon")
            return states == [*expected]

        write(cluster.bootstrap, STARTED)
        with reading(config, spark) as reader:
            until(lambda: has(0))
            assert reader.is_running
        write(cluster.bootstrap, FINISHED)
        with reading(config, spark):
            until(lambda: has(0, 1))
    assert (Path(config.query.checkpoint) / "remote-segments" / "c.json").is_file()


def test_a_cluster_that_does_not_answer_is_no_running_reader(
    config: Config, spark: SparkSession
) -> None:
    away = msgspec.structs.replace(config.cluster, bootstrap="127.0.0.1:1")
    config = msgspec.structs.replace(
        config, cluster=away, bus=msgspec.structs.replace(config.bus, bootstrap="127.0.0.1:1")
    )
    with capture_logs() as logs, reading(config, spark) as reader:
        until(lambda: "no broker has described the topic" in str(logs))
        assert not reader.is_running
