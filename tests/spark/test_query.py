"""Settings that decide whether the query survives what happens to brokers."""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.query.kafka_options import sink_options, source_options
from streaming.query.progress import log_fields
from streaming.query.session import SMALL_UP_TO_SHARDS, TASK_TRIES, _collector, _persistent
from streaming.query.twin_query import _look_every_ms, whole_cycle_options
from streaming.runtime.config import BusConfig, ClusterConfig, Config, QueryConfig


@pytest.mark.parametrize(
    ("master", "made"),
    [
        ("local[2]", f"local[2,{TASK_TRIES}]"),
        ("local[*]", f"local[*,{TASK_TRIES}]"),
        ("local[2,3]", "local[2,3]"),
        ("local", "local"),
    ],
)
def test_a_local_master_tries_a_task_again_as_a_cluster_would(master, made):
    assert _persistent(master) == made


def test_the_source_never_waits_long_for_one_broker_and_its_limits_fit_each_other():
    for client in ({}, {"request_timeout_ms": 20_000}):
        made = source_options("b:1", client)
        request, api = (int(made[f"kafka.{n}.timeout.ms"]) for n in ("request", "default.api"))
        assert api > request
    assert int(source_options("b:1", {})["kafka.default.api.timeout.ms"]) <= 5_000
    assert int(source_options("b:1", {})["kafka.fetch.max.wait.ms"]) <= 50, (
        "or each task waits it out"
    )


def test_the_sink_never_waits_half_a_minute_for_one_broker_unless_it_is_configured_to():
    assert int(sink_options(Config())["kafka.request.timeout.ms"]) <= 5_000
    patient = Config(cluster=ClusterConfig(client={"request_timeout_ms": 20_000}))
    assert sink_options(patient)["kafka.request.timeout.ms"] == "20000"


def test_the_memory_of_rocksdb_is_not_called_the_state():
    operator = {"numRowsTotal": 4, "memoryUsedBytes": 3_500_000}
    fields = log_fields({"batchId": 7, "stateOperators": [operator]})
    assert fields["rocksdb_memory_bytes"] == 3_500_000
    assert fields["state_rows"] == 4
    assert [name for name in fields if name.endswith("_bytes")] == ["rocksdb_memory_bytes"]


def test_a_batch_begins_with_a_whole_cycle_and_events_alone_wait_no_longer_than_configured():
    config = Config(bus=BusConfig(shards=25), query=QueryConfig(trigger_ms=700))
    assert whole_cycle_options([config]) == {
        "minOffsetsPerTrigger": "25",
        "maxTriggerDelay": "700ms",
    }
    assert _look_every_ms([config]) <= 200
    assert _look_every_ms([Config(query=QueryConfig(trigger_ms=100))]) == 100


@pytest.mark.parametrize(
    ("shards", "options", "collector"),
    [
        (0, "", "-XX:+UseParallelGC"),  # a command that runs before the number was chosen
        (1, "", "-XX:+UseSerialGC"),
        (SMALL_UP_TO_SHARDS, "", "-XX:+UseSerialGC"),
        (SMALL_UP_TO_SHARDS + 1, "", "-XX:+UseParallelGC"),
        (1, "-XX:+UseG1GC", ""),
    ],
)
def test_the_jvm_of_a_small_query_saves_memory_unless_it_is_told_otherwise(
    shards, options, collector
):
    made = _collector({"JAVA_TOOL_OPTIONS": options}, shards)
    assert made.partition(" ")[0] == collector


def test_a_small_cluster_is_looked_at_less_often():
    def every_ms(shards: int, trigger_ms: int = 1_000) -> int:
        query = QueryConfig(trigger_ms=trigger_ms)
        return _look_every_ms([Config(bus=BusConfig(shards=shards), query=query)])

    assert (every_ms(1), every_ms(16), every_ms(1, 100)) == (500, 200, 100)
    assert _look_every_ms([Config(bus=BusConfig(shards=1))] * 20) == 500
