"""The strips of log directories: which is full, what it is full of, and which has failed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.console.browser import NARROW
from tests.console.cluster import Shown, small, with_disks, with_forecasts
from tests.console.conftest import Open

pytestmark = pytest.mark.browser


def test_what_has_failed_comes_first_and_names_its_partitions_then_the_fullest(
    open_view: Open, shown: Shown
):
    shown.show(with_disks(), of_cluster=True)
    page = open_view()
    disks = page.locator(".disks > li")
    expect(disks).to_have_count(9)
    expect(disks.nth(0)).to_contain_text("Broker 2 /disks/1")
    expect(disks.nth(0)).to_contain_text("failed 2 replicas are offline: ledger-0, scratch-0")
    ledger = disks.nth(0).get_by_role("link", name="ledger-0")
    expect(ledger).to_have_attribute("href", "#/partitions/ledger/0")
    expect(disks.nth(1)).to_contain_text("Broker 3 /disks/0")
    expect(disks.nth(1)).to_contain_text("150 GiB free of 2.0 TiB")
    strip = disks.nth(1).get_by_role("img")
    expect(strip).to_have_attribute("aria-label", re.compile(r"1\.6 TiB|1\.7 TiB"))
    risks = page.get_by_role("region", name="Risks of brokers and of the cluster")
    expect(risks).to_contain_text("Broker 2: a log directory of it has failed")


def test_a_directory_on_the_volume_of_another_says_so(open_view: Open, shown: Shown):
    shown.show(with_disks(), of_cluster=True)
    page = open_view()
    shared = page.locator(".disks > li", has_text="1 /disks/1")
    expect(shared).to_contain_text("on the volume of /disks/0")
    legend = page.locator(".key-list")
    for words in ("being moved in", "of nobody", "other files", "free"):
        expect(legend).to_contain_text(words)


def test_on_a_phone_nothing_of_a_strip_is_beside_the_page(open_view: Open, shown: Shown):
    shown.show(with_disks(), of_cluster=True)
    page = open_view(size=NARROW)
    card = page.get_by_role("region", name="Log directories")
    expect(card).to_be_visible()
    assert card.evaluate("it => it.scrollWidth <= it.clientWidth")
    widths = [strip.evaluate("it => it.clientWidth") for strip in card.get_by_role("img").all()]
    assert len(widths) == 8
    assert min(widths) > 150


def test_there_is_no_card_where_no_directory_is_known(open_view: Open, shown: Shown):
    for of_cluster in (True, False):
        shown.show(small(), of_cluster=of_cluster)
        page = open_view()
        expect(page.get_by_role("heading", name="If this broker is lost now")).to_be_visible()
        expect(page.locator(".disks")).to_have_count(0)


def show_forecasts(shown: Shown) -> None:
    state, own = with_forecasts()
    shown.stands_at_ms = state.observed_at_ms + 1_000
    shown.show(state, own=own)


def test_a_strip_says_when_its_disk_is_full_what_fills_it_and_what_would_help(
    open_view: Open, shown: Shown
):
    show_forecasts(shown)
    page = open_view()
    expect(page.locator(".disks > li")).to_have_count(4)
    first, *others = page.locator(".disks > li").all()
    expect(first).to_contain_text("Broker 1 /disks/0")
    expect(first).to_contain_text("full in 3 h")
    expect(first).to_contain_text("filled by orders (")
    expect(first.locator(".pill.bad")).to_contain_text("full in")
    first.get_by_text("What would help").click()
    expect(first).to_contain_text("--entity-name orders --add-config retention.ms=")
    said = [each.inner_text() for each in others]
    [two] = [text for text in said if "Broker 2" in text]
    assert "as in the last hour: full in" in two
    [three] = [text for text in said if "Broker 3" in text]
    assert "full: not in sight" in three
    assert "remote storage may be away for" in three


def test_on_a_phone_what_is_foretold_is_not_beside_the_page(open_view: Open, shown: Shown):
    show_forecasts(shown)
    page = open_view(size=NARROW)
    card = page.get_by_role("region", name="Log directories")
    page.get_by_text("What would help").first.click()
    expect(card).to_contain_text("--add-config")
    assert card.evaluate("it => it.scrollWidth <= it.clientWidth")
