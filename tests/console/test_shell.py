"""What holds in every view: freshness, failures, keys, themes, policy."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.console import browser as browsers
from tests.console.cluster import Shown, serving
from tests.console.conftest import Open

pytestmark = pytest.mark.browser


def test_an_exporter_that_goes_away_is_said_at_once_and_what_is_shown_grows_old(
    chromium: Browser, shown: Shown
):
    with browsers.page(chromium) as page:
        with serving(shown) as url:
            browsers.go(page, f"{url}/#/")
            expect(page.locator("h1")).to_contain_text("You can lose")
            expect(page.locator(".banner")).to_have_count(0)
        expect(page.get_by_role("alert")).to_contain_text("The exporter does not answer.")
        expect(page.locator(".top .pill.bad")).to_contain_text("observed")
        expect(page.locator("h1")).to_contain_text("You can lose")


def test_what_is_old_is_said_to_be(open_view: Open, shown: Shown):
    page = open_view()
    expect(page.locator("h1")).to_contain_text("You can lose")
    shown.clock_ahead_ms = 120_000
    expect(page.get_by_role("alert")).to_contain_text("Do not rely on this page")
    expect(page.get_by_role("alert")).not_to_contain_text("?.")
    expect(page.locator(".top .pill.bad")).to_contain_text("observed 2 min ago")
    expect(page.locator("h1")).to_contain_text("Last known state: You can lose")
    grey = "getComputedStyle(document.querySelector('main .card')).filter"
    assert page.evaluate(grey) == "grayscale(1)"


def test_before_the_first_snapshot_nothing_is_claimed(open_view: Open, shown: Shown):
    shown.view = Shown().view
    page = open_view()
    expect(page.locator("h1")).to_have_text("Nothing is known of any broker yet.")
    expect(page.locator(".top")).to_contain_text("nothing observed yet")


def test_keys_lead_to_the_views(open_view: Open):
    page = open_view()
    for key, title in (("p", "Partitions"), ("t", "Is the twin to be trusted?")):
        expect(page.locator("nav")).to_be_visible()
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(title)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


@pytest.mark.parametrize("system", ["light", "dark"])
def test_a_theme_can_be_chosen_and_stays(open_view: Open, system: str):
    page = open_view(theme=system)
    ground = "getComputedStyle(document.body).backgroundColor"
    by_system = page.evaluate(ground)
    grounds = []
    for _ in ("light", "dark", "system"):
        page.get_by_role("button", name="theme").click()
        grounds.append(page.evaluate(ground))
    assert grounds[0] != grounds[1]
    assert grounds[2] == by_system == grounds[system == "dark"]
    page.get_by_role("button", name="theme").click()
    page.reload()
    expect(page.get_by_role("button", name="theme: light")).to_be_visible()


def test_an_unknown_view_is_said(open_view: Open):
    expect(open_view("#/nowhere").locator("h1")).to_have_text("There is no such view")
