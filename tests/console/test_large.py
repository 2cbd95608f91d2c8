"""The views over 100 000 partitions: each shows what it is asked for, and draws little of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console import browser as browsers
from tests.console.cluster import Shown, large, serving
from tests.console.test_accessibility import graves

pytestmark = [pytest.mark.browser, pytest.mark.console]

GROUPS = 2
MOST_NODES = 12_000

IS_CUT_OFF = """place => {
  const outer = place.getBoundingClientRect();
  return [...place.querySelectorAll("*")].filter(each => {
    const inner = each.getBoundingClientRect();
    return inner.left < outer.left || inner.right > outer.right || inner.bottom > outer.bottom;
  }).map(each => each.outerHTML);
}"""
"""The descendants of an element that reach beyond its edges."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    shown = Shown()
    shown.show(*large(GROUPS))
    # The state is of one moment, and this is about its size.
    shown.stands_at_ms = shown.view.observed_at_ms
    with serving(shown) as address:
        yield address


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Page]:
    with browsers.page(chromium) as page:
        page.set_default_timeout(120_000)
        yield page


def opened(page: Page, url: str, view: str) -> None:
    browsers.go(page, f"{url}/{view}")
    page.locator("h1").wait_for()


def is_small(page: Page) -> bool:
    nodes: int = page.evaluate("document.querySelectorAll('*').length")
    return nodes < MOST_NODES


def test_topics_out_of_sight_are_neither_asked_for_nor_drawn(tab: Page, url: str):
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    opened(tab, url, "#/")
    expect(tab.locator(".over")).to_contain_text("2,000 topics")
    tab.locator(".matrix .row .sq").first.wait_for()
    assert tab.locator(".matrix .row").count() < 60
    tab.locator(".scroller").evaluate("each => each.scrollTo(0, each.scrollHeight)")
    expect(tab.locator(".matrix .row .name").last).to_be_visible()
    pages = [re.findall(r"offset=(\d+)", each) for each in asked if "/matrix?" in each]
    assert len({offset for [offset] in pages}) <= 4
    assert is_small(tab)


def test_a_click_asks_for_the_loss_and_marks_who_would_lead(tab: Page, url: str):
    opened(tab, url, "#/")
    tab.get_by_role("button", name=re.compile("^Broker 2,")).click()
    expect(tab.locator(".matrix .row .sq-next").first).to_be_visible()
    expect(tab.locator(".matrix col.lost")).to_have_count(1)
    expect(tab.locator(".panel")).to_contain_text("restart is unsafe")
    expect(tab.locator(".panel")).to_contain_text("group-0")


def test_in_narrow_columns_nothing_is_cut_off_and_no_head_lies_on_another(tab: Page, url: str):
    opened(tab, url, "#/?lose=5")
    gains = tab.locator(".matrix .row td:has(.sq-next)").first
    gains.wait_for()
    assert gains.evaluate(IS_CUT_OFF) == []
    heads = tab.locator(".matrix .broker")
    assert [each for head in heads.all() for each in head.evaluate(IS_CUT_OFF)] == []
    edges = [box["x"] for box in (head.bounding_box() for head in heads.all()) if box]
    widths = [box["width"] for box in (head.bounding_box() for head in heads.all()) if box]
    assert len(edges) == 30
    assert all(
        left + width <= right for left, width, right in zip(edges, widths, edges[1:], strict=False)
    )


def test_a_group_that_reads_everything_has_a_page(tab: Page, url: str):
    opened(tab, url, "#/consumers")
    expect(tab.locator("main tbody tr")).to_have_count(GROUPS)
    tab.get_by_role("link", name="group-1").click()
    expect(tab.locator("h1")).to_have_text("group-1")
    reads = tab.locator("section", has_text="Where it reads")
    expect(reads).to_contain_text("The worst 200 of 100,000 partitions.")
    expect(reads.locator("tbody tr")).to_have_count(200)
    expect(tab.locator("section", has_text="If a leader is lost").locator("tr")).to_have_count(31)
    assert is_small(tab)


def test_plans_show_the_first_of_thousands_of_changes(tab: Page, url: str):
    opened(tab, url, "#/plans?demote=3")
    expect(tab.locator("table.roll tbody tr")).to_have_count(30, timeout=120_000)
    order = tab.locator("section", has=tab.get_by_role("heading", name="Warm replicas before"))
    expect(order).to_contain_text("of 100000 partitions get another order")
    expect(order.locator("summary")).to_contain_text("the first 20 of them")
    assert is_small(tab)
    assert graves(tab) == []


def test_partitions_are_searched_among_all(tab: Page, url: str):
    opened(tab, url, "#/partitions?search=topic-3-7-4")
    expect(tab.locator("main tbody th").first).to_have_text(re.compile("topic-3-7-4"))
    expect(tab.locator(".pager")).to_contain_text("11 partitions")
