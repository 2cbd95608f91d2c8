"""The console in time: the bar of moments, and every view as it was at one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from streaming.history.moment import time_text
from tests.console import browser as browsers
from tests.console.browser import NARROW, WIDE
from tests.console.conftest import Open
from tests.console.past import CYCLES, ShownPast, serving_past
from tests.console.screenshots import settled
from tests.console.test_accessibility import DRAWN, graves
from tests.history.recorded import at
from tests.web import get

pytestmark = [pytest.mark.browser, pytest.mark.console]

VIEWS = ("#/", "#/?lose=2", "#/partitions", "#/partitions/topic-0-0/0", "#/consumers", "#/losses",
         "#/plans?demote=2", "#/timeline", "#/twin")  # fmt: skip


@pytest.fixture(scope="module")
def past() -> Iterator[ShownPast]:
    with serving_past() as shown:
        yield shown


@pytest.fixture
def tab(chromium: Browser, past: ShownPast) -> Iterator[Page]:
    with browsers.page(chromium) as page:
        browsers.go(page, f"{past.url}/#/")
        expect(page.locator(".heat rect").first).to_be_attached()
        yield page


def get_json(url: str) -> Any:
    status, body = get(url)
    assert status == 200, body
    return json.loads(body)


def moment_of(page: Page) -> str | None:
    """The moment in the URL."""
    return parse_qs(urlsplit(page.url).query).get("at", [None])[0]


def shows(page: Page, at_ms: int) -> None:
    """The page says that it shows that cycle, and its numbers are of it."""
    page.wait_for_function(
        "text => new URLSearchParams(location.search).get('at') === text", arg=time_text(at_ms)
    )
    expect(page.locator(".banner.then")).to_contain_text("This is how it was at")
    slider = page.get_by_role("slider")
    expect(slider).to_have_attribute("aria-valuenow", str(at_ms))


def test_arrow_keys_lead_through_all_changes_and_back(tab: Page, past: ShownPast):
    slider = tab.get_by_role("slider")
    slider.focus()
    slider.press("Home")
    shows(tab, at(0))
    for change in past.changes_at_ms[:4]:
        slider.press("ArrowRight")
        shows(tab, change)
    for change in reversed(past.changes_at_ms[:3]):
        slider.press("ArrowLeft")
        shows(tab, change)
    slider.press("End")
    tab.wait_for_function("!location.search")
    expect(tab.locator(".banner.then")).to_have_count(0)
    expect(slider).to_have_attribute("aria-valuenow", str(at(CYCLES - 1)))


def test_a_click_shows_a_moment_in_which_the_changes_of_its_column_have_happened(
    tab: Page, past: ShownPast
):
    box = tab.locator(".track").bounding_box()
    assert box is not None
    tab.mouse.click(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
    expect(tab.locator(".banner.then")).to_contain_text("This is how it was at")
    asked = get_json(f"{past.url}/api/v1/summary?at={moment_of(tab)}")
    length = at(CYCLES - 1) - at(0)
    assert abs(asked["observed_at_ms"] - (at(0) + length / 3)) < length / 20
    # Above the bar the moment below the pointer is said before anything is shown.
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    expect(tab.locator(".ends .pointed")).to_be_visible()


def test_a_drag_shows_the_moment_at_which_it_ends(tab: Page):
    box = tab.locator(".track").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    tab.mouse.move(box["x"] + 40, y)
    tab.mouse.down()
    for share in (0.2, 0.5, 0.75):
        tab.mouse.move(box["x"] + box["width"] * share, y)
        assert moment_of(tab) is None
    tab.mouse.up()
    expect(tab.locator(".banner.then")).to_contain_text("This is how it was at")
    assert (moment_of(tab) or "").startswith("2001-09-09T01:50")


def test_a_moment_is_a_link_that_holds_in_every_view_and_can_be_taken_back(
    tab: Page, past: ShownPast
):
    chosen = past.changes_at_ms[2]
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    browsers.go(tab, f"{past.url}/?at={time_text(chosen)}#/partitions")
    shows(tab, chosen)
    there = get_json(f"{past.url}/api/v1/partitions?at={time_text(chosen)}&sort=worst")
    first = there["partitions"][0]
    name = f"{first['topic']}-{first['partition']}"
    expect(tab.locator("tbody th").first).to_have_text(name)
    tab.get_by_role("link", name=name, exact=True).first.click()
    expect(tab.locator("h1")).to_contain_text(name)
    shows(tab, chosen)
    tab.get_by_role("link", name="Cluster", exact=True).click()
    expect(tab.locator("h1")).to_contain_text("At that time: ")
    shows(tab, chosen)
    of_state = [url for url in asked if re.search(r"/api/v1/(?!events|history)", url)]
    assert all("at=" in url for url in of_state), "also before the script knows of the moment"
    tab.get_by_role("button", name="Newest moment").click()
    expect(tab.locator(".banner.then")).to_have_count(0)
    assert moment_of(tab) is None
    tab.go_back()
    shows(tab, chosen)


def test_numbers_are_those_of_the_moment(tab: Page, past: ShownPast):
    for change in (past.changes_at_ms[0], past.changes_at_ms[-1]):
        browsers.go(tab, f"{past.url}/?at={time_text(change)}#/")
        shows(tab, change)
        there = get_json(f"{past.url}/api/v1/summary?at={time_text(change)}")
        at_risk = tab.locator(".totals div", has_text="at risk").locator("dd")
        expect(at_risk).to_have_text(str(there["at_risk"]))


def test_what_if_the_gate_and_plans_are_of_the_moment(tab: Page, past: ShownPast):
    text = time_text(past.changes_at_ms[3])
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    browsers.go(tab, f"{past.url}/?at={text}#/?lose=2")
    expect(tab.locator(".panel .pill").first).to_be_visible()
    browsers.go(tab, f"{past.url}/?at={text}#/plans?demote=2")
    expect(tab.locator(".lines li").first).to_be_visible()
    expect(tab.locator(".command code").first).to_have_text(
        f"kafka-twin plan roll --url {past.url} --at {text}"
    )
    expect(tab.locator("main")).not_to_contain_text("--apply")
    for path in ("whatif/lose", "brokers/2/restart", "plans/demote", "plans/order"):
        assert any(f"/api/v1/{path}?" in url and "at=2001" in url for url in asked), path


def test_the_timeline_ends_at_the_moment(tab: Page, past: ShownPast):
    browsers.go(tab, f"{past.url}/?at={time_text(past.changes_at_ms[1])}#/timeline")
    expect(tab.locator("main")).to_contain_text("after the moment that is shown is left out")
    events = get_json(f"{past.url}/api/v1/history/changes?to={time_text(past.changes_at_ms[1])}")
    expect(tab.locator(".events tbody tr")).to_have_count(events["counts"]["total"])


def test_a_moment_that_is_none_is_refused_in_one_line_with_a_way_out(
    chromium: Browser, past: ShownPast
):
    with browsers.page(chromium, may_log="the server responded with a status of 40") as page:
        browsers.go(page, f"{past.url}/?at=1999-01-01T00:00:00Z#/")
        banner = page.locator(".banner.bad")
        expect(banner).to_contain_text("is before the beginning")
        page.get_by_role("button", name="Newest moment").click()
        expect(page.locator(".past-bar")).to_be_visible()
        expect(page.locator(".banner.past")).to_be_visible()
        assert moment_of(page) is None


def test_play_goes_on_to_the_newest_moment_and_asks_for_one_moment_at_a_time(
    tab: Page, past: ShownPast
):
    awaited: set[str] = set()
    most, asked = [0], list[str]()

    def begins(request: Request) -> None:
        if "/api/v1/summary?" in request.url:
            awaited.add(request.url)
            asked.append(request.url)
            most[0] = max(most[0], len(awaited))

    tab.on("request", begins)
    tab.on("requestfinished", lambda request: awaited.discard(request.url))
    browsers.go(tab, f"{past.url}/?at={time_text(at(CYCLES - 20))}#/")
    shows(tab, at(CYCLES - 20))
    entries = tab.evaluate("history.length")
    tab.get_by_label("speed").select_option("30")
    slider = tab.get_by_role("slider")
    slider.press(" ")
    expect(tab.get_by_role("button", name="Pause")).to_be_visible()
    tab.wait_for_function("() => !location.search", timeout=120_000)
    expect(tab.get_by_role("button", name="Play")).to_be_visible()
    expect(slider).to_have_attribute("aria-valuenow", str(at(CYCLES - 1)))
    assert most[0] == 1
    moments = [parse_qs(urlsplit(url).query)["at"][0] for url in asked]
    assert len({*moments}) >= 3
    assert sorted(moments) == moments
    assert tab.evaluate("history.length") == entries, "a played moment leaves no entry"


def test_play_begins_at_the_beginning_and_space_stops_it(tab: Page):
    slider = tab.get_by_role("slider")
    slider.press(" ")
    tab.wait_for_function("() => location.search.includes('at=2001-09-09T01:46:4')")
    slider.press(" ")
    expect(tab.get_by_role("button", name="Play")).to_be_visible()
    stopped = tab.url
    tab.wait_for_timeout(1_500)
    assert tab.url == stopped


def test_the_report_of_the_span_is_a_page_that_leads_back_to_the_console(
    tab: Page, past: ShownPast
):
    link = tab.get_by_role("link", name="Report", exact=True)
    address = f"{past.url}/{link.get_attribute('href')}"
    for theme in ("light", "dark"):
        tab.emulate_media(color_scheme=theme)
        for size in (WIDE, NARROW):
            tab.set_viewport_size(size)
            tab.goto(address)
            expect(tab.locator("h1")).to_have_text("What happened to sim")
            assert graves(tab) == [], f"{theme}, {size['width']} px"
            width = tab.evaluate("document.documentElement.scrollWidth")
            assert width <= size["width"], "the page is wider than the window"
    tab.locator("li:has(> strong) a").first.click()
    expect(tab.locator(".banner.then")).to_contain_text("This is how it was at")


def test_texts_and_commands_are_not_of_now_at_the_newest_moment_of_a_capsule(
    tab: Page, past: ShownPast
):
    browsers.go(tab, f"{past.url}/#/plans?demote=2")
    expect(tab.locator(".lines li").first).to_be_visible()
    expect(tab.locator("h1")).to_have_text("Which broker could be restarted then?")
    main = tab.locator("main")
    expect(main).not_to_contain_text("--apply")
    expect(main).not_to_contain_text("restarted now")
    expect(tab.locator(".command code").first).to_have_text(
        f"kafka-twin plan roll --url {past.url} --at {time_text(at(CYCLES - 1))}"
    )
    browsers.go(tab, f"{past.url}/#/?lose=2")
    expect(tab.locator("#brokers-title")).to_have_text("If this broker had been lost then")
    expect(tab.locator("#loss-title")).to_have_text("If broker 2 had been lost then")


def test_an_exporter_without_a_past_has_no_bar(open_view: Open):
    page = open_view("#/")
    settled(page)
    expect(page.locator(".past-bar")).to_have_count(0)


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious_at_a_moment(tab: Page, past: ShownPast, view: str):
    browsers.go(tab, f"{past.url}/?at={time_text(past.changes_at_ms[4])}{view}")
    shows(tab, past.changes_at_ms[4])
    settled(tab)
    for size in (WIDE, NARROW):
        tab.set_viewport_size(size)
        for theme in ("light", "dark"):
            tab.emulate_media(color_scheme=theme)
            tab.evaluate(DRAWN)
            assert graves(tab) == [], f"{theme}, {size['width']} px"
        width = tab.evaluate("document.documentElement.scrollWidth")
        assert width <= size["width"], "the page is wider than the window"
