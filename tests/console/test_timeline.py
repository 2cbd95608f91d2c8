"""Changes as they come."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.console import browser as browsers
from tests.console.cluster import HAPPENED, Shown, serving
from tests.console.conftest import Open

pytestmark = [pytest.mark.browser, pytest.mark.console]


def test_what_happened_is_there_and_what_happens_comes_without_asking(
    open_view: Open, shown: Shown
):
    shown.happen()
    page = open_view("#/timeline")
    texts = page.locator(".events td.text")
    newest_first = [text for _, text, _ in reversed(HAPPENED)]
    expect(texts).to_have_text(newest_first)
    shown.bus.report(kind="risk_closed", text="all is well")
    expect(texts).to_have_text(["all is well", *newest_first])


def test_events_are_narrowed_by_kind_and_text_in_the_url(open_view: Open, shown: Shown):
    shown.happen()
    page = open_view("#/timeline?kind=prediction_judged")
    expect(page.locator(".events td.text")).to_have_text([HAPPENED[2][1]])
    page.get_by_label("kind").select_option("")
    page.get_by_label("says").fill("FENCED")
    expect(page.locator(".events td.text")).to_have_text([HAPPENED[0][1]])
    page.get_by_label("says").fill("nothing says this")
    expect(page.locator("main")).to_contain_text("Nothing has happened")


def test_kinds_of_events_are_in_kafkas_terms(open_view: Open, shown: Shown):
    shown.bus.report(kind="isr_shrunk", text="replica 2 left the ISR")
    page = open_view("#/timeline")
    expect(page.locator(".events td").nth(2)).to_have_text("ISR shrunk")


def test_a_partitions_page_has_its_own_events(open_view: Open, shown: Shown):
    shown.happen()
    shown.bus.report(text="of another", topic="ledger", partition=1)
    page = open_view("#/partitions/ledger/0")
    expect(page.locator(".events td.text")).to_have_text(
        [text for _, text, is_of_it in reversed(HAPPENED) if is_of_it]
    )


def test_what_happened_stays_when_the_exporter_goes_away(chromium: Browser, shown: Shown):
    shown.happen()
    with browsers.page(chromium, may_log="") as page:
        with serving(shown) as url:
            browsers.go(page, f"{url}/#/timeline")
            expect(page.locator(".events td.text")).to_have_count(len(HAPPENED))
        expect(page.locator("main")).to_contain_text("The exporter does not answer.")
        expect(page.locator(".events td.text")).to_have_count(len(HAPPENED))
