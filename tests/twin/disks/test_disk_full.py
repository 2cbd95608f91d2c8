"""When a disk is full, as a person would say it; the clock is that of the cycles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.builders import Partition
from tests.cycles import own_after
from tests.log_dir_frames import Directory
from tests.twin.disks.stage import (
    HOUR_S,
    MB,
    MINUTES,
    PLAIN,
    TIERED,
    Growing,
    cycles,
    forecast,
    open_risks,
    volumes,
)


def after(
    parts: Sequence[Growing], free_gb: float, configs: dict[str, dict[str, int]] | None = None,
    *, seconds: Sequence[float] = MINUTES, shards: int = 1, beside_mb_per_s: float = 0.0,
):  # fmt: skip
    of_cycles = cycles(
        parts, volumes(free_gb, beside_mb_per_s=beside_mb_per_s), configs or {"t": PLAIN}, seconds
    )
    state = own_after(of_cycles, sorted({part.topic for part in parts}), shards)
    return state


LAST_H = MINUTES[-1] / HOUR_S


def test_a_log_that_nothing_is_deleted_of_fills_its_disk_in_a_straight_line():
    state = after([Growing()], 36)  # 10 hours from the first cycle on
    said = forecast(state)
    for bound in ("full_at_earliest_ms", "full_at_latest_ms", "full_by_line_ms"):
        assert said[bound] == pytest.approx(10 - LAST_H, rel=0.01), bound
    assert open_risks(state) == {("disk_fills", 1), ("disk_fills", 2)}


def test_a_log_that_grows_much_within_the_minute_of_the_sums_is_judged_all_the_same():
    """20 s are kept on disk; since the sums were taken, 40 s more are, as uploads have stopped."""
    logs = volumes(1)

    def disks(after_s: float, parts: Sequence[Partition]) -> list[Directory]:
        kept = round(max(after_s - 70, 0) * MB)
        return [replace(each, replicas=each.replicas + kept) for each in logs(after_s, parts)]

    short = TIERED | {"local_retention_ms": 20_000, "segment_bytes": MB}
    of_cycles = cycles([Growing(keeps_s=20)], disks, {"t": short}, [0, 10, 70, 80, 110])
    state = own_after(of_cycles, ["t"])
    assert forecast(state)["full_at_latest_ms"] == math.inf


def test_somebody_is_paged_four_hours_before():
    assert open_risks(after([Growing()], 12)) == {("disk_full_soon", 1), ("disk_full_soon", 2)}


def test_a_disk_that_is_full_in_three_days_is_no_risk_yet():
    state = after([Growing()], 3 * 24 * 3.6)
    assert forecast(state)["full_at_latest_ms"] == pytest.approx(72, rel=0.02)
    assert open_risks(state) == set()


def test_retention_that_deletes_in_time_keeps_a_full_disk_from_being_a_risk():
    """The straight line of the last half hour is full in 10 hours; retention begins in 2."""
    day = PLAIN | {"retention_ms": 24 * HOUR_S * 1_000}
    state = after([Growing(age_s=22 * HOUR_S, keeps_s=24 * HOUR_S)], 36, {"t": day})
    said = forecast(state)
    assert said["full_by_line_ms"] == pytest.approx(10 - LAST_H, rel=0.01)
    assert math.isinf(said["full_at_earliest_ms"])
    assert math.isinf(said["full_at_latest_ms"])
    assert open_risks(state) == set()


def test_a_disk_that_has_been_nearly_full_for_weeks_is_no_risk():
    day = PLAIN | {"retention_ms": 24 * HOUR_S * 1_000}
    state = after([Growing(age_s=30 * HOUR_S, keeps_s=24 * HOUR_S)], 0.05, {"t": day})
    said = forecast(state)
    assert said["full_at_earliest_ms"] < 1, "a segment that is deleted late has no room"
    assert math.isinf(said["full_at_latest_ms"])
    assert open_risks(state) == set()


def test_what_grows_beside_logs_counts_at_the_earliest_and_goes_on_for_a_day_at_most():
    idle = Growing(mb_per_s=0.0)
    state = after([idle], 36, beside_mb_per_s=1.0)
    said = forecast(state)
    assert said["full_at_earliest_ms"] == pytest.approx(10 - LAST_H, rel=0.01)
    assert math.isinf(said["full_at_latest_ms"])
    assert open_risks(state) == {("disk_fills", 1), ("disk_fills", 2)}
    assert open_risks(after([idle], 72, beside_mb_per_s=1.0)) == set(), "seen for half an hour"


def test_a_load_of_some_minutes_is_no_page():
    """At its rate the disk is full in two hours; over the last half hour it is not."""
    calm, loaded = Growing(mb_per_s=0.01), Growing("u", mb_per_s=50.0, age_s=60)
    quiet = MINUTES[:-2]
    frames = [
        *cycles([calm], volumes(400), {"t": PLAIN, "u": PLAIN}, quiet),
        *cycles([calm, loaded], volumes(400), {"t": PLAIN, "u": PLAIN}, MINUTES[-2:]),
    ]
    state = own_after(iter(frames), ["t", "u"])
    assert forecast(state)["full_at_latest_ms"] < 4
    assert open_risks(state) == set()


HOUR = TIERED | {"local_retention_ms": HOUR_S * 1_000}
SMALL = HOUR | {"segment_bytes": 10 * MB}


def test_while_uploads_work_no_disk_fills_and_how_long_they_may_not_is_said():
    tiered = Growing(age_s=2 * HOUR_S, keeps_s=HOUR_S)
    state = after([tiered], 36, {"t": SMALL})
    said = forecast(state)
    assert math.isinf(said["full_at_latest_ms"])
    # Nothing is uploaded from now on: what is uploaded is deleted within the hour, and no more.
    assert said["full_if_away_ms"] == pytest.approx(11, rel=0.02)
    assert open_risks(state) == set()


def test_once_uploads_have_ended_the_disk_fills():
    away = Growing(age_s=2 * HOUR_S, keeps_s=HOUR_S, uploaded_until_s=300)
    state = after([away], 36, {"t": SMALL})
    said = forecast(state)
    # Of the last hour 1500 s are not uploaded: the rest is still deleted.
    assert said["full_at_latest_ms"] == pytest.approx(11 - (MINUTES[-1] - 300) / HOUR_S, rel=0.02)
    assert said["full_at_latest_ms"] == pytest.approx(said["full_if_away_ms"], rel=0.01)
    assert open_risks(state) == {("disk_fills", 1), ("disk_fills", 2)}


def test_of_a_cluster_without_tiered_topics_nothing_is_said_of_an_outage():
    assert math.isnan(forecast(after([Growing()], 36))["full_if_away_ms"])


def test_the_forecast_is_the_same_for_any_number_of_shards():
    parts = [Growing("t"), Growing("u", mb_per_s=0.5, replicas=(1,))]
    configs = {"t": PLAIN, "u": PLAIN}
    one, three = (forecast(after(parts, 36, configs, shards=n)) for n in (1, 3))
    assert one.pop("log_dir") == three.pop("log_dir")
    assert one == pytest.approx(three, nan_ok=True, rel=1e-9)


def test_a_compacted_log_takes_nothing_at_the_least_and_all_that_is_written_at_the_most():
    state = after([Growing()], 36, {"t": PLAIN | {"compacted": 1}})
    said = forecast(state)
    assert said["full_at_earliest_ms"] == pytest.approx(10 - LAST_H, rel=0.01)
    assert math.isinf(said["full_at_latest_ms"])
    assert open_risks(state) == {("disk_fills", 1), ("disk_fills", 2)}, "the line agrees"


def test_a_disk_of_unknown_size_has_no_forecast():
    def unknown(after_s: float, parts: Sequence[Partition]) -> list[Directory]:
        return [Directory(1, 0, -1, -1, replicas=parts[0].log.size_bytes)]

    state = own_after(cycles([Growing()], unknown, {"t": PLAIN}, MINUTES), ["t"])
    with pytest.raises(ValueError, match="not enough values"):
        forecast(state)
    assert open_risks(state) == set()
