"""Brokers whose uploads to remote storage fail, and go on failing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import NOW_MS, Partition, broker_metrics_frame, brokers_frame, partitions_frame
from tests.cycles import own_after
from twin.cluster_rules.upload_gauges import FailingUploads
from twin.engine.cluster_risks import ClusterRisks

SCRAPE_S = 30
NAN = float("nan")


def named(errors: Sequence[float], shards: int = 1, newest: float = 0.0) -> list[int]:
    """Brokers at risk after scrapes with those errors a second of broker 1; 2 has ``newest``."""
    cycles = []
    for number, value in enumerate([*errors]):
        at_ms = NOW_MS + number * SCRAPE_S * 1_000
        measured = {1: {"remote_copy_errors_per_s": value}}
        if number == len(errors) - 1:
            measured[2] = {"remote_copy_errors_per_s": newest}
        frames = [
            brokers_frame((1, 2, 3), at_ms),
            partitions_frame([Partition("t0")], at_ms),
            broker_metrics_frame(measured, at_ms),
        ]
        cycles.append((frames, at_ms))
    state = own_after(cycles, ["t0"], shards)
    assert set(state[FailingUploads].broker.tolist()) <= {1, 2}, "of others nothing is known"
    return state[ClusterRisks].brokers("uploads_fail")


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(
    ("errors", "found"),
    [
        pytest.param([0.1] * 20, [], id="for less than ten minutes"),
        pytest.param([0.1] * 21, [1], id="for ten minutes"),
        pytest.param([0.1, 0.0] * 11, [1], id="tried again each minute"),
        pytest.param([0.1, *[0.0] * 5] * 4, [1], id="tried again within three minutes"),
        pytest.param([0.1, *[0.0] * 7] * 4, [], id="now and then"),
        pytest.param([*[0.1] * 21, *[0.0] * 9], [], id="it is over"),
        pytest.param([0.0] * 21, [], id="never"),
        pytest.param([NAN] * 21, [], id="not measured"),
    ],
)
def test_a_broker_whose_uploads_fail_for_ten_minutes_is_named(errors, found, shards):
    assert named(errors, shards) == found


def test_one_failed_upload_is_no_risk_yet():
    assert named([0.0] * 21, newest=1.0) == []
