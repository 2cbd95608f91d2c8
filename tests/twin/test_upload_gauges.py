"""Brokers' own gauges of bytes to upload against offsets, over any number of shards."""

from __future__ import annotations

import pytest

from tests.builders import NOW_MS, Log, Partition, broker_metrics_frame, configs_frame
from tests.cycles import cycle_frames, own_after
from twin.tables.state import STALE_METRICS_MS
from twin.totals import Samples, shard_totals

TOPICS = ["a", "b"]
TIERED = {"remote_storage": 1, "copies_disabled": 0, "segment_bytes": 200}


def metrics(gauges: dict[int, float], shards: int = 1, age_ms: int = 0) -> dict[str, Samples]:
    """The metrics of a cluster in which broker 1 leads two partitions with 500 bytes to upload."""
    log = Log(end=200, size_bytes=1_000, last_tiered=99, pending_upload=100)
    parts = [Partition(topic, 0, (1, 2), log=log) for topic in TOPICS]
    measured = {broker: {"remote_copy_lag_bytes": value} for broker, value in gauges.items()}
    frames = [
        *cycle_frames(parts, ids=(1, 2)),
        configs_frame(dict.fromkeys(TOPICS, TIERED), NOW_MS),
        broker_metrics_frame(measured, NOW_MS - age_ms),
    ]
    state = own_after([(frames, NOW_MS)], TOPICS, shards, lambda frames: frames[::-1])
    return dict(shard_totals(state).samples)


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_the_difference_is_the_twins_value_minus_the_brokers(shards):
    found = metrics({1: 400.0}, shards)
    assert found["kafka_twin_broker_metric_difference"] == {("1", "upload_lag_bytes"): 600}


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(
    ("gauge", "error"),
    [(0, "too_low"), (545, "too_low"), (546, None), (1_100, None), (1_101, "too_high")],
)
def test_a_gauge_that_offsets_contradict_is_not_believed(gauge, error, shards):
    """1 000 bytes are not uploaded, of which open segments have 400 at most."""
    found = metrics({1: float(gauge)}, shards)["kafka_twin_broker_metric_contradicted"]
    assert found == ({("1", "remote_copy_lag_bytes", error): 1} if error else {})


def test_a_broker_without_a_recent_gauge_or_a_known_lag_has_no_series():
    assert metrics({2: 400.0})["kafka_twin_broker_metric_difference"] == {}
    old = metrics({1: 400.0}, age_ms=STALE_METRICS_MS + 1)
    assert old["kafka_twin_broker_metric_difference"] == {}
    assert old["kafka_twin_broker_metric_contradicted"] == {}
