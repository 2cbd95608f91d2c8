"""Partitions, one partition, and the twin itself."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.builders import Partition, a_state
from tests.console.browser import NARROW
from tests.console.cluster import BROKERS, ODD_NAME, Shown, now_ms, small, with_problems
from tests.console.conftest import Open
from tests.console.screenshots import VIEWS, settled

pytestmark = pytest.mark.browser


def test_partitions_come_worst_first_and_are_found_from_the_keyboard(open_view: Open):
    page = open_view("#/partitions")
    names = page.locator("main tbody th")
    expect(names.first).to_have_text("retired-0")
    page.keyboard.press("/")
    page.keyboard.type("CLICKS-3")
    page.keyboard.press("Enter")
    expect(names).to_have_text(["clicks-3"])
    expect(page).to_have_url(re.compile("search=CLICKS-3"))


def test_a_search_from_anywhere_finds_groups_as_well(open_view: Open):
    page = open_view("#/twin")
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("Billing")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="1 group of consumers").click()
    expect(page.locator("main tbody th")).to_have_text(["billing-etl"])


def test_filters_are_in_the_url_and_add_up(open_view: Open):
    page = open_view("#/partitions?rack=az-b&at_risk=true")
    names = ["retired-0", "ledger-0", "moving-0"]
    expect(page.locator("main tbody th")).to_have_text(names)
    page.locator("label:has-text('risk') select").select_option("next_leader_cold")
    expect(page.locator("main tbody th")).to_have_text(["ledger-0"])
    expect(page).to_have_url(re.compile("risk=next_leader_cold"))


def test_a_partitions_page_shows_its_log_its_next_leaders_and_why(open_view: Open):
    page = open_view("#/partitions/ledger/0")
    expect(page.locator("svg.log .log-remote")).to_have_count(3)
    expect(page.locator("svg.log .log-both")).to_have_count(3)
    expect(page.locator("svg.log .log-local")).to_have_count(3)
    expect(page.locator("svg.log")).to_contain_text("high watermark 3,000")
    expect(page.locator("svg.log .reader")).to_have_count(4)
    expect(page.locator("svg.log")).to_contain_text("billing-etl · 900")
    following = page.locator("dl.next")
    expect(following).to_contain_text("3, in sync, cold")
    expect(following).to_contain_text("1, in sync, warm")
    expect(following).to_contain_text("3 is cold")
    expect(following).not_to_contain_text("No warm replica could lead")
    page.locator(".risks li", has_text="next leader cold").get_by_text("What to do").click()
    expect(page.locator(".risks .runbook dl")).to_contain_text("--describe --topic ledger")
    expect(page.locator("main")).to_contain_text("4 segments")
    expect(page.locator("main")).to_contain_text("3 epochs")


def test_a_partitions_page_says_what_was_found_in_sentences(open_view: Open, shown: Shown):
    page = open_view("#/partitions/ledger/0")
    found = page.locator("dl.findings")
    expect(found).to_contain_text("Broker 3 reads offsets 700 to before 2,960 from remote storage")
    expect(found).to_contain_text("With KIP-1023 it starts at 2,976 (from pending upload)")
    page = open_view("#/partitions/moving/0")
    found = page.locator("dl.findings")
    expect(found).to_contain_text("Broker 3, since")
    expect(found).to_contain_text("Broker 3 lacks 3,000 records")
    expect(found).to_contain_text("cannot serve offsets 1 to before 3,001 (KIP-392, unavailable)")
    expect(found).to_contain_text("No replica in az-c is in sync")


def test_a_partitions_page_says_why_a_replica_left_the_isr(open_view: Open, shown: Shown):
    part = Partition(leader=1)
    before = a_state(part, at_ms=now_ms() - 5_000, brokers=BROKERS, has_racks=False)
    shown.show(before)
    expect(open_view("#/partitions/t/0").locator("main")).to_contain_text("Nothing unusual.")
    later = replace(part, isr=(1, 3))
    shown.show(a_state(later, at_ms=now_ms(), brokers=BROKERS, has_racks=False, since=before))
    found = open_view("#/partitions/t/0").locator("dl.findings")
    expect(found).to_contain_text("broker 2, led by 1: ")
    expect(found).to_contain_text("It has not come back yet.")


@pytest.mark.parametrize("view", [*VIEWS.values(), "#/?lose=2&rule=kip1303&open=ledger"])
def test_on_a_phone_nothing_is_wider_than_the_screen(open_view: Open, shown: Shown, view: str):
    shown.happen()
    page = open_view(view, size=NARROW)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_a_partition_that_does_not_exist_is_said(open_view: Open, shown: Shown):
    shown.show(a_state(Partition(), at_ms=now_ms(), brokers=BROKERS))
    # The browser logs the status 404 of the question by itself.
    page = open_view("#/partitions/nothing/0", may_log="status of 404")
    expect(page.locator("main")).to_contain_text("nothing-0 is not known")


def test_names_with_every_legal_character_are_shown_and_linked(open_view: Open):
    page = open_view("#/partitions?search=legal")
    page.get_by_role("link", name=f"{ODD_NAME}-0").click()
    expect(page.locator("h1")).to_have_text(f"{ODD_NAME}-0")


def test_text_from_outside_is_text(open_view: Open, shown: Shown):
    """Kafka does not allow such names; whoever writes to the bus might."""
    bad = "<img src=x onerror=alert(1)>"
    shown.show(a_state(Partition(bad, 0, (1,)), at_ms=now_ms(), brokers=BROKERS))
    page = open_view("#/?lose=1")
    expect(page.locator(".matrix .name")).to_have_text(bad)
    expect(page.locator(".panel")).to_contain_text(f"{bad}-0")
    expect(page.locator("img")).to_have_count(0)


def test_the_twin_says_what_it_does_not_know_and_how_it_has_predicted(
    open_view: Open, shown: Shown
):
    page = open_view("#/twin")
    expect(page.locator(".answers")).to_contain_text("It is up")
    expect(page.locator(".answers")).to_contain_text("No leader has changed")
    expect(page.locator(".facts")).to_contain_text("60 min")
    shown.show(small(judged=False))
    expect(page.locator(".gaps")).to_contain_text("neither warm nor cold")


def test_problems_of_the_collector_are_listed_with_their_reasons(open_view: Open, shown: Shown):
    page = open_view("#/twin")
    expect(page.locator("main")).to_contain_text("sends no list of them")
    bad = "<img src=x onerror=alert(1)>"
    problems = [("log dirs", 2, "Timeout", bad), ("topics", -1, "TopicAuthorizationFailed", "no")]
    shown.show(with_problems(problems))
    rows = page.locator("table.problems tbody tr")
    expect(rows).to_have_count(2)
    for row, words in ((0, ("log dirs", "2", "Timeout", bad)), (1, ("topics", "—", "no"))):
        for word in words:
            expect(rows.nth(row)).to_contain_text(word)
    expect(page.locator("img")).to_have_count(0)
    expect(page.locator(".gaps")).to_contain_text("2 problems")
    shown.show(with_problems([]))
    expect(page.locator("main")).to_contain_text("found out all that it asks for")
    expect(page.locator(".gaps")).not_to_contain_text("problem")
