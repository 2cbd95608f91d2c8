"""The page of all clusters, and the way between it and the console of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console import browser as browsers
from tests.console.browser import NARROW, WIDE
from tests.console.fleet import ShownFleet, lost, many, serving_fleet, simulated, three
from tests.console.test_accessibility import assert_nothing_serious

pytestmark = [pytest.mark.browser, pytest.mark.console]

OpenFleet = Callable[..., Page]


@pytest.fixture(scope="module")
def large() -> ShownFleet:
    return many()


@pytest.fixture
def open_fleet(chromium: Browser) -> Iterator[OpenFleet]:
    """Opens the page of a fleet by its hash."""
    with ExitStack() as stack:

        def opened(shown: ShownFleet, view: str = "#/", **how: object) -> Page:
            url = stack.enter_context(serving_fleet(shown))
            tab = stack.enter_context(browsers.page(chromium, **how))  # type: ignore[arg-type]
            browsers.go(tab, f"{url}/{view}")
            tab.locator(".clusters").wait_for()
            return tab

        yield opened


def names(page: Page) -> list[str]:
    return page.locator("a.to-cluster").all_inner_texts()


def test_each_cluster_has_a_row_the_worst_first(open_fleet: OpenFleet):
    page = open_fleet(three())
    expect(page.locator("h1")).to_have_text("2 of 3 clusters need a look.")
    assert names(page) == ["payments-eu", "orders-us", "orders-eu"]
    lost_much = page.get_by_role("row", name="orders-us")
    expect(lost_much).to_contain_text("80 partitions have no leader.")
    expect(lost_much).to_contain_text("5: 93 offline")
    expect(lost_much).to_contain_text("92 right")
    expect(lost_much.get_by_role("cell", name="4.1", exact=True)).to_be_visible()
    expect(lost_much.get_by_role("rowheader")).to_contain_text("critical: orders-us prod us")
    nothing = page.get_by_role("row", name="payments-eu")
    expect(nothing.get_by_role("cell", name="unknown", exact=True)).to_have_count(7)


def test_a_row_opens_the_console_of_its_cluster_which_leads_back(open_fleet: OpenFleet):
    page = open_fleet(three())
    page.get_by_role("link", name="orders-eu").click()
    expect(page.locator("h1")).to_contain_text("You can lose any one broker.")
    expect(page).to_have_title("Cluster · orders-eu · kafka-twin")
    expect(page.locator(".top .cluster")).to_have_text("orders-eu")
    expect(page.locator(".matrix .row .sq").first).to_be_visible()
    page.get_by_role("link", name="Partitions").click()
    expect(page.locator(".pager")).to_contain_text("430 partitions")
    page.get_by_role("link", name="Timeline").click()
    expect(page.locator("h1")).to_be_visible()
    page.get_by_role("link", name="All clusters").click()
    expect(page.locator("h1")).to_have_text("2 of 3 clusters need a look.")


def test_every_request_of_a_clusters_console_is_below_its_path(open_fleet: OpenFleet):
    page = open_fleet(three())
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("link", name="orders-us").click()
    for view in ("Losses", "Plans", "Consumers", "Timeline", "Twin"):
        page.get_by_role("link", name=view, exact=True).click()
        page.locator("h1").wait_for()
    below = page.url.split("#")[0]
    assert below.endswith("/clusters/orders-us/")
    assert len(asked) > 10
    assert [each for each in asked if not each.startswith(below)] == []


def test_commands_to_copy_name_the_cluster(open_fleet: OpenFleet):
    page = open_fleet(three())
    page.get_by_role("link", name="orders-eu").click()
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.locator(".command code").first).to_have_text(
        "kafka-twin plan roll --cluster orders-eu"
    )
    expect(page.get_by_text("ask anew")).to_contain_text(
        "kafka-twin gate in-sync --cluster orders-eu, then "
        "kafka-twin plan roll --next --cluster orders-eu."
    )
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page.locator("h1")).to_have_text("2 of 3 clusters need a look.")


def test_150_clusters_are_on_one_screen(open_fleet: OpenFleet, large: ShownFleet):
    page = open_fleet(large)
    expect(page.locator("a.to-cluster")).to_have_count(150)
    height = page.evaluate("document.documentElement.scrollHeight")
    assert height <= WIDE["height"]
    rows = page.locator(".clusters tbody tr:not(.quiet)")
    assert rows.count() < 30
    expect(page.locator(".clusters .quiet li")).to_have_count(150 - rows.count())


def test_clusters_are_filtered_by_what_is_typed_which_is_in_the_address(
    open_fleet: OpenFleet, large: ShownFleet
):
    page = open_fleet(large)
    page.keyboard.press("/")
    page.keyboard.type("TEST us-east")
    expect(page.get_by_role("status")).to_have_text("10 clusters of 150 with “TEST us-east”")
    assert "q=TEST" in page.url
    assert all("-test-" in name for name in names(page))
    page.reload()
    expect(page.locator("a.to-cluster")).to_have_count(10)
    page.get_by_role("searchbox").fill("no such cluster")
    expect(page.locator("a.to-cluster")).to_have_count(0)


def test_groups_are_chosen_by_label_and_stay_in_the_address(
    open_fleet: OpenFleet, large: ShownFleet
):
    page = open_fleet(large)
    page.get_by_role("button", name="env").click()
    heads = page.get_by_role("rowheader", name="clusters:")
    expect(heads).to_have_count(3)
    expect(heads.first).to_contain_text("prod 90 clusters: ")
    assert "group=env" in page.url
    page.get_by_role("button", name="rows").click()
    expect(page.locator(".clusters tbody tr")).to_have_count(153)
    page.go_back()
    expect(page.locator(".quiet").first).to_be_visible()


def test_arrows_lead_from_cluster_to_cluster_and_enter_opens_one(open_fleet: OpenFleet):
    page = open_fleet(three())
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    expect(page.get_by_role("link", name="orders-us")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".top .cluster")).to_have_text("orders-us")


def test_rows_change_while_the_page_is_open(open_fleet: OpenFleet):
    shown = three()
    page = open_fleet(shown)
    shown.show({"orders-eu": simulated(lost(1, 2, 3)), "new": simulated()}, {})
    expect(page.locator("h1")).to_have_text("1 of 2 clusters needs a look.")
    assert names(page) == ["orders-eu", "new"]


def test_an_exporter_that_goes_away_is_said_and_its_last_answer_grows_old(chromium: Browser):
    with browsers.page(chromium) as page:
        with serving_fleet(three()) as url:
            browsers.go(page, f"{url}/#/")
            expect(page.locator("a.to-cluster")).to_have_count(3)
        expect(page.get_by_role("alert")).to_contain_text("The exporter does not answer.")
        expect(page.locator(".top .pill.bad")).to_contain_text("asked")
        expect(page.locator("a.to-cluster")).to_have_count(3)


def test_on_a_phone_nothing_is_wider_than_the_screen(open_fleet: OpenFleet, large: ShownFleet):
    page = open_fleet(large, size=NARROW)
    expect(page.locator("a.to-cluster")).to_have_count(150)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


@pytest.mark.parametrize("view", ["#/", "#/?group=region&rows=all"])
def test_axe_finds_nothing_serious_in_a_fleet(open_fleet: OpenFleet, large: ShownFleet, view: str):
    assert_nothing_serious(open_fleet(large, view))
