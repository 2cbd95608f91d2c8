"""The console of the demo: a broker is lost on the page, then really, and every view shows it."""

from __future__ import annotations

import pytest

from tests.console import browser as browsers
from tests.demo.newcomer import NOBODY, ONE_REPLICA, VIEWS, Seen
from tests.demo.playing import MARKS, Played

pytestmark = [
    *MARKS,
    pytest.mark.skipif(
        browsers.CHROMIUM is None and not browsers.IS_NEEDED, reason=browsers.WHY_NOT
    ),
]


@pytest.fixture
def seen(demo: Played, newcomer: Seen) -> Seen:
    """All that was seen once the demo is over."""
    assert not newcomer.error, newcomer.error
    return newcomer


def test_the_forecast_is_about_every_partition_that_the_lost_broker_leads(seen: Seen):
    assert len(seen.forecast) == seen.led > 1
    assert seen.forecast[f"{ONE_REPLICA}-0"] == NOBODY
    assert seen.lost not in seen.forecast.values()
    assert len(set(seen.forecast.values())) > 2, "nobody, and each of the other brokers"


def test_the_forecast_comes_true_on_the_page_and_in_kafkas_metadata(seen: Seen):
    print(f"\nthe page showed all {seen.led} new leaders {seen.took_s:.1f} s after the kill")
    assert seen.on_page == seen.forecast
    assert seen.by_kafka == seen.forecast
    assert seen.heading.startswith(f"Broker {seen.lost} is down. 1 partition has no leader.")


def test_the_timeline_has_each_prediction_with_its_deed(seen: Seen):
    for partition, leader in seen.forecast.items():
        name = "nobody" if leader == NOBODY else f"broker {leader}"
        deed = f"leader {seen.lost} was lost; {name} leads, {name} was predicted"
        assert f"{partition}: {deed}" in seen.judged


def test_every_view_shows_what_it_is_about_and_no_request_fails(seen: Seen):
    assert seen.shown == list(VIEWS)
    assert seen.failed == []


def test_nothing_is_red_until_the_exporter_ends_and_then_it_is_said(seen: Seen):
    assert seen.banners == []
    assert seen.after_the_end.startswith("The exporter does not answer.")
