"""The console of the demo: a broker is lost on the page, then really, and every view shows it."""

from __future__ import annotations

import re

import pytest

from streaming.bus.freshness import FAILOVER_MS
from tests.console import browser as browsers
from tests.demo.newcomer import NOBODY, ONE_REPLICA, VIEWS, Visit
from tests.demo.playing import LIMITS, Played

pytestmark = [
    pytest.mark.incidents,
    *LIMITS,
    pytest.mark.skipif(
        browsers.CHROMIUM is None and not browsers.IS_NEEDED, reason=browsers.WHY_NOT
    ),
]


BUSY = 3
"""If so many processes want each core, the snapshots of the demo may be late."""


@pytest.fixture
def visit(demo: Played, newcomer: Visit) -> Visit:
    """The visit once the demo is over, and nothing has ended it early."""
    assert not newcomer.error, newcomer.error
    return newcomer


def test_the_forecast_is_about_every_partition_that_the_lost_broker_leads(visit: Visit):
    assert len(visit.forecast) == visit.led > 1
    assert visit.forecast[f"{ONE_REPLICA}-0"] == NOBODY
    assert visit.lost not in visit.forecast.values()
    # One of the other brokers at least: Kafka places replicas by chance.
    assert len(set(visit.forecast.values())) > 1, "nobody, and others"


def test_the_forecast_comes_true_on_the_page_and_in_kafkas_metadata(visit: Visit):
    print(f"\nthe page showed all {visit.led} new leaders {visit.took_s:.1f} s after the kill")
    assert visit.on_page == visit.forecast
    assert visit.by_kafka == visit.forecast
    assert visit.heading.startswith(f"Broker {visit.lost} is down. 1 partition has no leader.")


def test_the_timeline_has_each_prediction_with_its_deed(visit: Visit):
    for partition, leader in visit.forecast.items():
        name = "nobody" if leader == NOBODY else f"broker {leader}"
        deed = f"leader {visit.lost} was lost; {name} leads, {name} was predicted"
        assert f"{partition}: {deed}" in visit.judged


def test_every_view_shows_what_it_is_about_and_no_request_fails(visit: Visit):
    assert visit.shown == list(VIEWS)
    assert visit.failed == []


def test_nothing_is_red_until_the_exporter_ends_and_then_it_is_said(visit: Visit):
    # The snapshots of a busy machine are late, and then the page has to say so.
    is_busy = visit.patience >= BUSY
    assert visit.banners == [] or (is_busy and only_say_how_old_it_is(visit.banners))
    assert visit.after_the_end.startswith("The exporter does not answer.")


def test_while_kafka_elects_the_page_says_at_most_how_old_it_is(visit: Visit):
    # A lost controller is replaced before the lost broker is fenced: the bus may wait for longer.
    assert only_say_how_old_it_is(visit.while_lost), visit.while_lost


def only_say_how_old_it_is(banners: list[str]) -> bool:
    """Each of them is about a state that is stale by its age, and about nothing else."""
    ages_s = [re.findall(r" is (\d+) s old", banner) for banner in banners]
    return all(len(age_s) == 1 and int(age_s[0]) >= FAILOVER_MS // 1_000 for age_s in ages_s)
