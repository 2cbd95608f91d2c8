"""The first minute: a console that has nothing to show, thresholds to choose, a tour."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from streaming.bus.freshness import BusState
from tests.console.browser import NARROW
from tests.console.cluster import Shown, small
from tests.console.conftest import Open

pytestmark = [pytest.mark.browser, pytest.mark.console]

OFFER = "New here? 5 steps show what this page answers."


@pytest.mark.parametrize(
    ("arrive", "collector", "query"),
    [
        (None, "unknown whether observations arrive", "waits for observations"),
        (False, "no observation arrives", "waits for observations"),
        (True, "its observations arrive", "observations wait for it"),
    ],
)
def test_an_empty_console_says_what_has_to_run_and_what_is_known_of_it(
    open_view: Open, shown: Shown, arrive: bool | None, collector: str, query: str
):
    shown.view = replace(Shown().view, bus=BusState(observations_arrive=arrive))
    page = open_view()
    expect(page.locator("h1")).to_have_text("Nothing is known of any broker yet.")
    programs = page.locator(".programs > li")
    for number, state in enumerate((collector, query, "it answers")):
        expect(programs.nth(number)).to_contain_text(state)
    expect(page.locator(".first")).to_contain_text("kafka-twin check")
    shown.show(small())
    expect(page.locator("h1")).to_contain_text("You can lose", timeout=10_000)


def test_the_tour_is_offered_once_and_may_be_declined(open_view: Open):
    page = open_view(is_new=True)
    tour = page.get_by_role("complementary", name="Tour")
    expect(tour).to_contain_text(OFFER)
    page.get_by_role("button", name="Not now").click()
    expect(tour).to_have_count(0)
    page.reload()
    expect(page.locator(".matrix tbody tr").first).to_be_visible()
    expect(tour).to_have_count(0)


@pytest.mark.parametrize("size", [None, NARROW], ids=["desk", "phone"])
def test_each_step_of_the_tour_marks_what_it_is_about(open_view: Open, size: dict[str, int] | None):
    page = open_view(is_new=True, **({"size": size} if size else {}))
    page.get_by_role("button", name="Show me").click()
    tour = page.get_by_role("complementary", name="Tour")
    seen = []
    for step in range(1, 6):
        expect(tour).to_contain_text(f"{step} of 5")
        marked = page.locator(".toured")
        expect(marked).to_have_count(1)
        expect(marked).to_be_in_viewport()
        seen.append(marked.evaluate("each => each.className"))
        page.get_by_role("button", name="Next" if step < 5 else "Done").click()
    assert len(set(seen)) == 5
    expect(tour).to_have_count(0)
    expect(page.locator(".toured")).to_have_count(0)


def test_the_tour_can_be_taken_again_from_any_view(open_view: Open):
    page = open_view("#/twin")
    page.keyboard.press("?")
    page.get_by_role("button", name="Take the tour").click()
    expect(page.get_by_role("complementary", name="Tour")).to_contain_text("1 of 5")
    expect(page.locator("h1.sentence.toured")).to_be_visible()
    page.get_by_role("button", name="End the tour").click()
    expect(page.locator(".toured")).to_have_count(0)


def test_without_a_threshold_bars_show_what_each_would_call_cold(open_view: Open, shown: Shown):
    shown.show(small(judged=False))
    page = open_view()
    page.get_by_text("What would a threshold call cold?").click()
    rows = page.locator(".bars tbody tr")
    expect(rows).to_have_count(6)
    page.get_by_role("button", name="minutes").click()
    expect(rows.first.locator("th")).to_have_text("60 s")
    assert cold(page) == sorted(cold(page))
    page.get_by_role("button", name="days").click()
    expect(rows.last.locator("th")).to_have_text("12 d")
    most = cold(page)[-1]
    assert most > 0
    bar = rows.last.locator(".bar")
    share = bar.evaluate("bar => bar.firstChild.offsetWidth / bar.offsetWidth")
    replicas = int(rows.last.locator("td.text").inner_text().split(" of ")[1])
    assert share == pytest.approx(most / replicas, abs=0.02)


def cold(page: Page) -> list[int]:
    """Cold replicas of each threshold, as the page says."""
    return [int(each.split(" of ")[0]) for each in page.locator(".bars td.text").all_inner_texts()]
