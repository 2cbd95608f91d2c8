"""Remote storage that is away: when disks are full, as the view of losses shows it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.browser import NARROW
from tests.console.cluster import Shown, small, with_forecasts
from tests.console.conftest import Open

pytestmark = pytest.mark.browser


@pytest.fixture
def filling(shown: Shown) -> Shown:
    state, own = with_forecasts()
    shown.stands_at_ms = state.observed_at_ms + 1_000
    shown.show(state, own=own)
    return shown


@pytest.mark.usefixtures("filling")
def test_the_first_disk_what_is_on_none_and_a_row_a_broker(open_view: Open):
    page = open_view("#/losses")
    card = page.get_by_role("region", name="If remote storage were away from now on")
    expect(card).to_contain_text("Broker 1 has a full disk in 3 h; half of the brokers have one in")
    expect(card).to_contain_text("of 1 partition: no disk has them")
    rows = card.locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("3 h56 GiB")
    card.get_by_role("combobox").select_option("three days")
    expect(card).to_contain_text("kafka-twin whatif tier-outage --for 72h")
    expect(rows.first).to_contain_text("3 h")
    expect(rows.first).not_to_contain_text("56 GiB")


@pytest.mark.usefixtures("filling")
def test_a_broker_that_is_lost_meanwhile_is_asked_about_once_that_is_opened(open_view: Open):
    page = open_view("#/?lose=3")
    asked = page.get_by_text("If remote storage were away as well")
    expect(page.get_by_text("--for 6h")).to_have_count(0)
    asked.click()
    expect(page.get_by_text("kafka-twin whatif tier-outage --for 6h --broker 3")).to_be_visible()
    brokers = page.get_by_role("region", name="Brokers while remote storage is away")
    expect(brokers.locator("tbody tr")).to_have_count(3)


@pytest.mark.usefixtures("filling")
def test_on_a_phone_the_table_scrolls_and_the_page_does_not(open_view: Open):
    page = open_view("#/losses", size=NARROW)
    card = page.get_by_role("region", name="If remote storage were away from now on")
    expect(card.locator("tbody tr").first).to_be_visible()
    assert card.evaluate("it => it.scrollWidth <= it.clientWidth")


def test_where_nothing_is_foretold_of_disks_it_is_unknown_and_no_error(
    open_view: Open, shown: Shown
):
    shown.show(small())
    page = open_view("#/losses")
    card = page.get_by_role("region", name="If remote storage were away from now on")
    expect(card).to_contain_text("When disks are full is unknown.")
