"""What retention deletes of a group's records is whole segments: when it may be, and when it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.builders import NOW_MS, Group, Log, Partition
from tests.twin.test_group_forecasts import DAY_MS, group_risks, running, until
from tests.twin.test_groups import HOUR_MS, ROUND_MS, cycle
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.groups.group_forecasts import GroupForecasts

KAFKA_DEFAULTS = {"segment_ms": 7 * DAY_MS, "segment_bytes": 1 << 30}
QUIET = KAFKA_DEFAULTS | {"remote_storage": 0, "retention_ms": HOUR_MS}
TWO_DAYS_S = 2 * DAY_MS // 1_000


def lost_by(state: ShardState) -> float:
    return float(state[GroupForecasts].lost_by_s[0])


def test_kafka_deletes_nothing_of_a_quiet_log_while_its_only_segment_is_written():
    """Retention is an hour, the log is two days old: in five days an append closes the segment."""
    state = running(5_000, 0, local_span_s=TWO_DAYS_S, **QUIET)
    assert until(state)[1] == pytest.approx(5 * DAY_MS / 1_000 + 3_600)
    assert group_risks(state) == set()


def test_a_segment_is_closed_as_soon_as_it_is_full():
    """A record is a byte, 10 come a second: 2 000 fit in, and then the last one has an hour."""
    settings = QUIET | {"segment_bytes": 12_000}
    state = running(5_000, 0, local_span_s=TWO_DAYS_S, **settings)
    assert until(state)[1] == pytest.approx(200 + 3_600)
    assert lost_by(state) >= 3_800


def test_a_limit_in_bytes_below_a_segment_deletes_nothing_before_the_next_one_is_that_large():
    settings = QUIET | {"retention_ms": UNKNOWN, "retention_bytes": 1_000, "segment_bytes": 12_000}
    state = running(5_000, 0, local_span_s=TWO_DAYS_S, **settings)
    assert until(state)[1] == pytest.approx(200 + 100)
    assert lost_by(state) == pytest.approx((1_000 + 12_000 - 5_000) / 10)


def test_whether_records_are_deleted_within_the_hour_is_certain_by_the_length_of_a_segment():
    """The next record is 500 s old, and kept for 1 000 s; it may be the first of its segment."""
    short = running(5_000, 0, remote_storage=0, retention_ms=1_000_000)
    assert (until(short)[1], lost_by(short)) == pytest.approx((500, 600))
    assert group_risks(short) == {"consumer_loses_records"}
    long = {"segment_ms": 4_000_000, "segment_bytes": 60_000, "retention_ms": 6_000_000}
    may_be = running(5_000, 0, local_span_s=10_000, remote_storage=0, **long)
    assert (until(may_be)[1], lost_by(may_be)) == pytest.approx((1_000, 5_000))
    assert group_risks(may_be) == {"consumer_may_lose_records"}


@pytest.mark.parametrize(
    ("settings", "latest_s"),
    [
        ({"segment_ms": UNKNOWN}, 600),
        ({"segment_bytes": UNKNOWN}, 1_100),
        ({"segment_ms": UNKNOWN, "segment_bytes": UNKNOWN}, math.nan),
    ],
)
def test_of_segments_whose_length_is_unknown_nothing_is_certain(settings, latest_s):
    state = running(5_000, 0, remote_storage=0, retention_ms=1_000_000, **settings)
    assert until(state)[1] == pytest.approx(500)
    assert lost_by(state) == pytest.approx(latest_s, nan_ok=True)
    risk = "consumer_may_lose_records" if math.isnan(latest_s) else "consumer_loses_records"
    assert group_risks(state) == {risk}


def quiet_since(idle_s: int, **settings: int) -> ShardState:
    """A log of two days in which nobody has written for so long; the group is in its middle."""
    log = Log(end=10_000, started_ms=NOW_MS - 2 * DAY_MS, size_bytes=10_000)
    state = None
    for at_ms, end in (
        (NOW_MS - ROUND_MS, 9_999),
        *((NOW_MS + i * 5_000, 10_000) for i in (0, *range(1, 60), idle_s // 5)),
    ):
        part = Partition(log=Log(**{**vars_of(log), "end": end}))
        is_read = at_ms <= NOW_MS
        state = cycle(
            *([Group(offsets=[(part, 5_000)])] if is_read else []), parts=(part,), since=state,
            at_ms=at_ms, is_read=is_read, **(QUIET | settings),
        )  # fmt: skip
    assert state is not None
    return state


def vars_of(log: Log) -> dict[str, int]:
    return {name: getattr(log, name) for name in log.__dataclass_fields__}


def test_a_log_without_appends_is_as_old_as_the_last_one():
    """Its only segment goes an hour after the last append, unless somebody writes before that."""
    state = quiet_since(1_800)
    assert until(state)[1] == pytest.approx(1_800)
    assert math.isnan(lost_by(state))
    assert group_risks(state) == {"consumer_may_lose_records"}


def test_a_segment_that_the_next_append_closes_goes_for_certain():
    state = quiet_since(1_800, segment_ms=2 * DAY_MS - HOUR_MS)
    assert lost_by(state) == pytest.approx(1_800)
    assert group_risks(state) == {"consumer_loses_records"}


# ---------------------------------------------------------------- what is no record, or no loss


def test_an_open_transaction_shows_that_a_log_has_more_than_records():
    """The first batch is a plain one, but the last stable offset is below the high watermark."""

    def after(stable: int) -> set[str]:
        log = Log(end=100_000, start=90_000, local_start=90_000, last_stable=stable,
                  high_watermark=100_000)  # fmt: skip
        part, state = Partition(log=log), None
        for i in range(2):
            state = cycle(
                Group(offsets=[(part, 5)]), parts=(part,), since=state, at_ms=NOW_MS + i * 5_000,
                remote_storage=0, retention_ms=HOUR_MS,
            )  # fmt: skip
        assert state is not None
        return group_risks(state)

    assert after(stable=99_000) == {"consumer_may_lose_records"}
    assert after(stable=100_000) == {"consumer_loses_records"}
    assert after(stable=UNKNOWN) == {"consumer_loses_records"}


def test_a_high_watermark_that_was_asked_for_later_shows_no_transaction():
    """Within a cycle the log grows between the two questions."""
    state = None
    for i in range(3):
        end = 100_000 + i * 1_000
        log = Log(
            end=end, start=90_000, local_start=90_000, last_stable=end - 900, high_watermark=end
        )
        part = Partition(log=log)
        state = cycle(
            Group(offsets=[(part, 5)]), parts=(part,), since=state, at_ms=NOW_MS + i * 5_000,
            remote_storage=0, retention_ms=HOUR_MS,
        )  # fmt: skip
    assert state is not None
    assert group_risks(state) == {"consumer_loses_records"}


@pytest.mark.parametrize(
    ("log", "retention", "risk"),
    [
        ({}, {"retention_ms": 7 * DAY_MS}, "consumer_may_lose_records"),
        ({}, {"retention_ms": HOUR_MS}, "consumer_loses_records"),
        # Nobody wrote over the weekend, so the first record that is left is younger.
        ({"started_ms": NOW_MS - 5 * DAY_MS}, {"retention_ms": 7 * DAY_MS},
         "consumer_loses_records"),
        ({}, {"retention_ms": UNKNOWN, "retention_bytes": 1_000}, "consumer_loses_records"),
        ({}, {"retention_ms": UNKNOWN, "retention_bytes": 10_000}, "consumer_may_lose_records"),
        ({"started_ms": UNKNOWN}, {"retention_ms": 7 * DAY_MS}, "consumer_loses_records"),
    ],
)  # fmt: skip
def test_what_kafka_delete_records_removed_is_not_taken_for_the_work_of_retention(
    log, retention, risk
):
    """The log is an hour old and has 1 000 bytes."""
    part = Partition(log=Log(end=100, start=60, local_start=60, **log))
    settings = {"remote_storage": 0, **retention}
    state = cycle(Group(offsets=[(part, 50)]), parts=(part,), **settings)
    assert group_risks(state) == {risk}


def test_a_log_that_retention_emptied_has_no_young_first_record():
    part = Partition(log=Log(end=100, start=100, local_start=100, started_ms=UNKNOWN))
    state = cycle(Group(offsets=[(part, 50)]), parts=(part,), remote_storage=0, retention_ms=DAY_MS)
    assert group_risks(state) == {"consumer_loses_records"}
    assert np.isnan(state[GroupForecasts].lost_by_s).sum() == 0


# ---------------------------------------------------------------- uploads that do not go on


@pytest.mark.parametrize("age_s", [700, 900, 990, 1_100])
@pytest.mark.parametrize("segments", [{}, KAFKA_DEFAULTS], ids=["of 1 000", "of Kafka's defaults"])
def test_uploads_that_stopped_keep_what_is_older_than_local_retention(age_s, segments):
    """KAFKA-19952: 100 of 10 000 are uploaded; a local log is kept for 100 s, a record 1 000 s."""
    away = {"retention_ms": 1_000_000, "local_retention_ms": 100_000, **segments}
    state = running(5_000, 0, tiered_to=100, local_span_s=age_s, **away)
    assert np.isnan(until(state)).all()
    assert group_risks(state) == set()


def test_uploads_that_wait_on_purpose_keep_as_much():
    delayed = {"upload_delay_ms": 50_000, "upload_delay_bytes": UNKNOWN}
    away = {"retention_ms": 1_000_000, "local_retention_ms": 100_000, **delayed}
    assert np.isnan(until(running(5_000, 0, tiered_to=100, local_span_s=700, **away))[1])
    # All that is not uploaded is younger than local retention.
    is_normal = running(9_600, 0, tiered_to=9_500, local_span_s=1_000, **away)
    assert until(is_normal)[1] == pytest.approx(960)


def test_where_copies_are_disabled_retention_waits_for_no_upload():
    away = {"retention_ms": 1_000_000, "local_retention_ms": 100_000, "copies_disabled": 1}
    state = running(5_000, 0, tiered_to=100, local_span_s=700, **away)
    assert until(state)[1] == pytest.approx(650)
    assert group_risks(state) >= {"consumer_loses_records"}


def test_a_segment_that_is_written_is_not_late_for_its_upload():
    """Of a quiet topic: it is closed after a week, uploaded then, and kept for a week more."""
    quiet = KAFKA_DEFAULTS | {"retention_ms": 7 * DAY_MS, "local_retention_ms": HOUR_MS}
    prompt = {"upload_delay_ms": 0, "upload_delay_bytes": 0}
    state = running(5_000, 0, tiered_to=UNKNOWN, local_span_s=TWO_DAYS_S, **quiet, **prompt)
    assert until(state)[1] == pytest.approx((5 + 7) * DAY_MS / 1_000)
