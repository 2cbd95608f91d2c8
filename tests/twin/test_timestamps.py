"""First timestamps that cannot be true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders import NOW_MS, Log, Partition, a_state
from twin.declarations.table import UNKNOWN
from twin.rules.tiering.timestamps import SuspectTimestamps

KEPT = {"remote_storage": 1, "compacted": 0, "copies_disabled": 0, "retention_ms": -1,
        "segment_ms": 3_600_000, "local_retention_ms": 6 * 3_600_000}  # fmt: skip
UPLOADED = Log(end=100_000, local_start=50, last_tiered=99_000, started_ms=NOW_MS - 7_200_000)
DAY_MS = 86_400_000


def suspects(logs: dict[int, Log], **config: int) -> list[bool]:
    """Which timestamps are suspect, of replicas 1 to 3; of others they are UPLOADED."""
    state = a_state(Partition(log=UPLOADED, logs=logs), topics={"t": KEPT | config})
    return state[SuspectTimestamps].timestamp_suspect[0].tolist()


@pytest.mark.parametrize(
    ("config", "log", "suspect"),
    [
        pytest.param({}, {}, True, id="uploaded, 12 years ago, local retention of 6 h"),
        pytest.param({}, {"last_tiered": 10}, False, id="not uploaded: it stays on disk"),
        pytest.param({"local_retention_ms": -1}, {}, False, id="local retention is unlimited"),
        pytest.param({"local_retention_ms": -2}, {}, False, id="local retention is unknown"),
        pytest.param({"remote_storage": 0}, {}, False, id="not tiered, retention is unlimited"),
    ],
)
def test_a_record_that_local_retention_would_have_deleted_is_dated_by_a_producer(
    config, log, suspect
):
    """All three of 2015; the topic's retention is unlimited."""
    odd = replace(UPLOADED, started_ms=NOW_MS - 12 * 365 * DAY_MS, **log)
    assert suspects({1: odd, 2: odd, 3: odd}, **config) == [suspect] * 3


def test_an_earlier_record_that_is_dated_later_on_another_replica_proves_that_one_is_odd():
    unlimited = {"local_retention_ms": -1}
    later = replace(UPLOADED, local_start=95_000)
    for started_ms, expected in (
        (NOW_MS - 7_200_000, [False, False, False]),  # one batch
        (NOW_MS - 7_200_000 - 750_000, [False, False, False]),  # producers are not in step
        (NOW_MS - 7_200_000 - 900_000, [True, True, True]),
        (NOW_MS - 7_000_000, [False, False, False]),
    ):
        assert suspects({1: replace(later, started_ms=started_ms)}, **unlimited) == expected
    empty_log = Log(end=100_000, local_start=100_000, size_bytes=0, started_ms=UNKNOWN)
    assert suspects({1: empty_log}, **unlimited) == [False, False, False]


def test_a_timestamp_that_cannot_be_makes_no_other_replicas_doubtful():
    odd = replace(UPLOADED, local_start=95_000, started_ms=5_000)
    assert suspects({1: odd}, local_retention_ms=-1) == [True, False, False]
