"""Local logs against the retention that should bound them."""

from dataclasses import replace

import pytest

from tests.builders import NOW_MS, Log, Partition, a_state, partitions_frame, replicas_frame
from tests.reading import computed, conditions
from twin.rules.tiering.overdue import Overdue
from twin.step import step
from twin.tables.enums import PendingUpload

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
PLAIN = {
    "compacted": 0, "remote_storage": 0, "copies_disabled": 0,
    "retention_ms": DAY_MS, "retention_bytes": -1, "segment_ms": HOUR_MS, "segment_bytes": 1_000,
    "local_retention_ms": DAY_MS, "local_retention_bytes": -1,
    "upload_delay_ms": 0, "upload_delay_bytes": 0,
}  # fmt: skip
TIERED = PLAIN | {"remote_storage": 1, "local_retention_ms": HOUR_MS}
UPLOADED = {"end": 1_000, "last_tiered": 989, "size_bytes": 1_000}


def is_overdue(log: Log, settings: dict[str, int]) -> bool:
    state = a_state(Partition(replicas=(1,), log=log), topics={"t": settings})
    [[overdue]] = state[Overdue].is_overdue.tolist()
    assert ("kept_beyond_retention" in conditions(state)) == overdue
    return overdue


@pytest.mark.parametrize(
    ("hours", "overdue"), [(25, False), (27, False), (28, True), (24 * 30, True)]
)
def test_a_log_is_older_than_retention_by_more_than_a_segment(hours, overdue):
    assert is_overdue(Log(started_ms=NOW_MS - hours * HOUR_MS), PLAIN) == overdue


@pytest.mark.parametrize(("size", "overdue"), [(6_000, False), (6_600, False), (6_601, True)])
def test_a_log_is_larger_than_retention_by_more_than_a_segment(size, overdue):
    settings = PLAIN | {"retention_bytes": 5_000}
    assert is_overdue(Log(size_bytes=size), settings) == overdue
    state = a_state(Partition(log=Log(size_bytes=size)), topics={"t": settings})
    beyond = computed(state, "kafka_twin_partition_overdue_bytes")
    assert beyond.values.tolist() == pytest.approx([3.0] if overdue else [])


def test_uploaded_but_not_deleted_from_disk():
    """Aiven 596, KAFKA-19425: local retention of an hour, and 30 days are on disk."""
    old = NOW_MS - 30 * DAY_MS
    assert is_overdue(Log(**UPLOADED, started_ms=old), TIERED | {"retention_ms": 90 * DAY_MS})


def test_what_is_not_uploaded_is_not_overdue():
    old, settings = NOW_MS - 30 * DAY_MS, TIERED | {"retention_ms": 90 * DAY_MS}
    nothing = Log(end=1_000, reason=PendingUpload.NOTHING_TIERED, started_ms=old)
    assert not is_overdue(nothing, settings)
    by_size = settings | {"local_retention_bytes": 1_000}
    late = Log(end=1_000, last_tiered=99, local_start=90, size_bytes=9_100)
    assert not is_overdue(late, by_size)
    assert is_overdue(Log(end=1_000, last_tiered=989, local_start=90, size_bytes=9_100), by_size)


@pytest.mark.parametrize("started_ms", [0, NOW_MS + 3 * HOUR_MS, -1])
def test_a_timestamp_that_cannot_be_says_nothing_of_the_age(started_ms):
    assert not is_overdue(Log(started_ms=started_ms), PLAIN)


def test_a_segment_whose_timestamps_are_in_the_future_is_not_deleted_before_then():
    """KAFKA-13421: 28 hours is what a log may have, of which a day is retention."""
    assert is_overdue(Log(started_ms=NOW_MS + 4 * HOUR_MS), PLAIN)
    assert not is_overdue(Log(started_ms=NOW_MS + 4 * HOUR_MS), PLAIN | {"retention_ms": -1})


@pytest.mark.parametrize("started_ms", [-1, 0, NOW_MS + 29 * HOUR_MS])
def test_what_is_there_for_longer_than_retention_is_overdue_whatever_its_timestamp(started_ms):
    part = Partition(replicas=(1,), log=Log(end=500, started_ms=started_ms))
    state, at_ms = a_state(part, topics={"t": PLAIN}), NOW_MS
    for hours, start, overdue in ((27, 0, False), (28, 0, True), (29, 500, False)):
        at_ms = NOW_MS + hours * HOUR_MS
        log = Log(end=900, start=start, local_start=start, started_ms=started_ms)
        later = replace(part, log=log)
        frames = [partitions_frame([later], at_ms), replicas_frame([later], at_ms)]
        state, _ = step(state, frames, at_ms)
        assert state[Overdue].is_overdue.tolist() == [[overdue]], hours


@pytest.mark.parametrize(
    "settings", [{"compacted": 1}, {"compacted": -1}, {"retention_ms": -1}, {"segment_ms": -1}]
)
def test_without_a_limit_that_is_known_nothing_is_overdue(settings):
    assert not is_overdue(Log(started_ms=NOW_MS - 30 * DAY_MS), PLAIN | settings)


def test_a_log_of_a_replica_that_does_not_answer_becomes_no_older():
    """Its broker is away for a month; nothing is known of what it would have deleted."""
    part = Partition(replicas=(1, 2), log=Log(started_ms=NOW_MS - 20 * HOUR_MS))
    state, at_ms = a_state(part, topics={"t": PLAIN}), NOW_MS + 30 * DAY_MS
    away = replace(part, silent=(2,), logs={1: Log(end=900, start=800, local_start=800,
                                                   started_ms=at_ms - HOUR_MS)})  # fmt: skip
    frames = [partitions_frame([away], at_ms), replicas_frame([away], at_ms)]
    state, _ = step(state, frames, at_ms)
    assert state[Overdue].is_overdue.tolist() == [[False, False]]
