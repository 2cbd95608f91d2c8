"""Uploads against local retention."""

import numpy as np
import pytest

from tests.builders import NOW_MS, Log, Partition, a_state, replicas_frame
from twin.declarations.table import UNKNOWN
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.upload import UploadLag, lags_retention
from twin.step import step
from twin.totals import shard_totals


def test_the_lag_counts_what_lies_beyond_the_last_tiered_offset():
    parts = [
        Partition(number=0, log=Log(end=100, last_tiered=89, size_bytes=1_000)),
        Partition(number=1, log=Log(end=100, last_tiered=99)),
        Partition(number=2, log=Log(end=100, last_tiered=UNKNOWN)),
    ]
    lag = a_state(*parts)[UploadLag]
    assert lag.upload_lag_records.tolist() == [10, 0, UNKNOWN]
    assert lag.upload_lag_bytes[0] == 100
    assert np.isnan(lag.upload_lag_bytes[2])


def lag_by_broker(*parts: Partition) -> dict[tuple[str, ...], float]:
    return dict(shard_totals(a_state(*parts))["kafka_twin_broker_upload_lag_bytes"])


def test_a_broker_has_the_known_lag_of_what_it_leads_and_no_lag_where_none_is_known():
    """Before Kafka 3.9 none is: that is not the same as 0."""
    without_answer, uploading = (
        Log(last_tiered=UNKNOWN),
        Log(end=100, last_tiered=89, size_bytes=1_000),
    )
    assert lag_by_broker(Partition(log=without_answer)) == {}
    parts = [
        Partition(number=0, log=without_answer),
        Partition(number=1, log=uploading),
        Partition(number=2, replicas=(2, 1), log=Log(end=100, last_tiered=99)),
        Partition(number=3, replicas=(3, 1), log=without_answer),
    ]
    assert lag_by_broker(*parts) == {("1",): 100, ("2",): 0}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"local_retention_bytes": 1_000}, True),  # 90 records of 10 B: exactly 0.9 of it
        ({"local_retention_bytes": 1_001}, False),
        ({"local_retention_ms": 5_000}, True),  # 20 records a second: 90 are 4.5 s
        ({"local_retention_ms": 5_001}, False),
        ({"local_retention_bytes": 1_000, "remote_storage": 0}, False),
        ({}, False),
        # The segment that is written is not uploaded: no lag that fits into it is late.
        ({"local_retention_bytes": 1_000, "segment_bytes": 818}, True),  # 81.8 of 90 records
        ({"local_retention_bytes": 1_000, "segment_bytes": 819}, False),
        ({"local_retention_bytes": 1_000, "segment_bytes": 9_999, "segment_ms": 4_090}, True),
        ({"local_retention_bytes": 1_000, "segment_bytes": 9_999, "segment_ms": 4_100}, False),
        # Uploads wait, by age or by bytes, whichever comes first: 81.8 records may.
        ({"local_retention_ms": 5_000, "upload_delay_ms": 4_090}, True),
        ({"local_retention_ms": 5_000, "upload_delay_ms": 4_100}, False),
        ({"local_retention_ms": 5_000, "upload_delay_ms": 5_000, "upload_delay_bytes": 818}, True),
        ({"local_retention_ms": 5_000, "upload_delay_ms": 5_000, "upload_delay_bytes": 819}, False),
        ({"local_retention_ms": 5_000, "upload_delay_ms": 4_090, "segment_bytes": 10}, False),
        # As late as local retention lets them, and no segment ever by neither.
        ({"local_retention_bytes": 1_000, "upload_delay_bytes": 1_000}, False),
        ({"local_retention_bytes": 1_000, "upload_delay_ms": -1, "upload_delay_bytes": -1}, False),
    ],
)
def test_what_waits_for_upload_is_held_against_local_retention(config, expected):
    def log(end: int) -> Partition:
        return Partition(log=Log(end=end, last_tiered=109, size_bytes=end * 10))

    at_once = {"upload_delay_ms": 0, "upload_delay_bytes": 0}
    if config.keys() & at_once.keys():
        at_once = {"upload_delay_ms": UNKNOWN, "upload_delay_bytes": UNKNOWN}
    topics = {"t": {"remote_storage": 1} | at_once | config}
    state, _ = step(
        a_state(log(100), topics=topics),
        [replicas_frame([log(200)], NOW_MS + 5_000)],
        NOW_MS + 5_000,
    )
    lags = lags_retention(state[UploadLag], state[Growth], state[RecordSizes], state[TopicConfigs])
    assert lags.tolist() == [expected]
