"""Shards are spread evenly over the tasks of a batch, whatever their number."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

from streaming.query.state.state_keys import _BITS, _block_between, _mixed, _undo_finish, state_keys
from streaming.query.twin_query import _state_key
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from tests.spark.sessions import small_session

SHARDS = 70


@pytest.fixture(scope="module")
def spark():
    with small_session() as session:
        yield session


@given(state=st.integers(0, _BITS), block=st.binary(min_size=4, max_size=4))
def test_a_step_of_the_hash_can_be_undone(state, block):
    assert _block_between(state, _mixed(state, block)) == block


@settings(max_examples=20)
@given(cluster=st.text(min_size=1, max_size=20), shards=st.integers(1, 30))
def test_keys_say_their_shard_and_are_text_of_whole_blocks(cluster, shards):
    cluster = cluster.encode(errors="replace").decode()
    keys = state_keys(cluster, shards)
    assert list(keys) == [f"{cluster}/{shard}" for shard in range(shards)]
    assert all(key.startswith(f"{name}#") for name, key in keys.items())
    assert all(len(key.encode()) % 4 == 0 for key in keys.values())


def test_the_last_step_of_the_hash_can_be_undone():
    def finish(state: int, length: int) -> int:
        """The last step of a hash, as in Spark's Murmur3_x86_32.fmix."""
        state ^= length
        state ^= state >> 16
        state = state * 0x85EBCA6B & _BITS
        state ^= state >> 13
        state = state * 0xC2B2AE35 & _BITS
        return state ^ state >> 16

    for state in (0, 1, 0x7FFFFFFF, 0x80000000, 0xDEADBEEF, _BITS):
        assert _undo_finish(finish(state, 20), 20) == state


@pytest.mark.spark
@pytest.mark.parametrize("cluster", ["kafka", "käse/1", "a"])
def test_spark_spreads_the_keys_evenly_over_any_number_of_partitions(spark, cluster):
    ours = [f"{cluster}/{shard}" for shard in range(SHARDS)]
    config = Config(cluster=ClusterConfig(name=cluster), bus=BusConfig(shards=SHARDS))
    rows = spark.createDataFrame([(key,) for key in ours], "key string")
    placed = rows.withColumn("state_key", _state_key([config]))
    hashes = {row.key: row.hash for row in placed.withColumn("hash", F.hash("state_key")).collect()}
    assert [hashes[key] for key in ours] == list(range(SHARDS))
    for partitions in (2, 4, 7, 16):
        numbers = placed.repartition(partitions, "state_key").select(F.spark_partition_id())
        counts = Counter(number for (number,) in numbers.collect())
        assert len(counts) == partitions
        assert max(counts.values()) <= 1.15 * SHARDS / partitions


@pytest.mark.spark
def test_a_key_of_no_shard_of_ours_stays_as_it_is(spark):
    others = ["other/3", "kafka/16", "kafka", ""]
    rows = spark.createDataFrame([(key,) for key in others], "key string")
    assert [row[0] for row in rows.select(_state_key([Config()])).collect()] == others
