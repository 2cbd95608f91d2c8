"""Plans: which broker may be restarted, and what a plan would change. The page changes nothing."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.builders import Partition, a_state
from tests.console.cluster import BROKERS, ODD_NAME, Shown, now_ms, small
from tests.console.conftest import Open

pytestmark = [pytest.mark.browser, pytest.mark.console]


def section(page: Page, title: str) -> Locator:
    return page.locator("section", has=page.get_by_role("heading", name=title))


def line(page: Page, broker: int) -> Locator:
    return page.locator("table.roll tr", has=page.get_by_role("link", name=str(broker), exact=True))


def test_the_worst_losses_of_two_are_listed_and_lead_to_the_matrix(open_view: Open):
    page = open_view("#/losses")
    expect(page.locator("main")).to_contain_text("of 15 pairs of brokers take partitions offline")
    worst = page.locator("section:has(#pairs) tbody tr").first
    expect(worst.locator("td").first).not_to_have_text("0")
    expect(page.locator("section:has(#pairs) tbody tr")).to_have_count(15)
    expect(page.locator("section:has(#racks) tbody tr")).to_have_count(3)
    worst.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"#/\?lose=\d&lose=\d$"))


def test_replicas_that_share_a_rack_are_moved_by_files_for_kafkas_tool(
    open_view: Open, shown: Shown
):
    parts = [Partition("shared", number, replicas=(1, 4)) for number in range(2)]
    shown.show(a_state(*parts, at_ms=now_ms()))
    page = open_view("#/losses")
    moved = section(page, "Replicas to move")
    expect(moved).to_contain_text(
        "2 partitions are harmed more by the loss of a rack than 3 racks require"
    )
    row = moved.locator("tbody tr").first
    expect(row).to_contain_text("offline")
    expect(row).to_contain_text("takes writes")
    expect(moved.locator(".commands")).to_contain_text("kafka-twin plan place --out placed")
    expect(moved.locator(".commands")).not_to_contain_text("--apply")


def test_each_broker_is_safe_or_not_to_restart_and_why(open_view: Open, shown: Shown):
    shown.show(small(in_sync=True))
    page = open_view("#/plans")
    expect(page.locator("main")).to_contain_text(
        "5 of 6 brokers may be restarted now and 1 may not."
    )
    expect(line(page, 2)).to_contain_text("unsafe")
    expect(line(page, 2)).to_contain_text(
        "partitions would be led by a cold replica, and are not now: ledger-0"
    )
    expect(line(page, 2)).to_contain_text("scratch-0")
    expect(line(page, 3)).to_contain_text("safe")
    expect(line(page, 3)).to_contain_text("11 partitions get another leader")
    order = page.locator("table.roll tbody td:first-child")
    expect(order).to_have_text(["1.", "2.", "3.", "4.", "5.", "not now"])
    # The active controller goes last.
    expect(page.locator("table.roll tbody th").nth(4)).to_have_text("1")


def test_a_rack_at_a_time_is_in_the_url(open_view: Open, shown: Shown):
    shown.show(small(in_sync=True))
    page = open_view("#/plans?demote=2")
    page.get_by_role("button", name="a rack at a time").click()
    expect(page).to_have_url(re.compile(r"#/plans\?racks=true&demote=2$"))
    expect(page.locator("table.roll tbody th").filter(has_text="6")).to_have_text("3, 6")
    expect(page.locator("main")).to_contain_text("kafka-twin plan roll --racks")


def test_a_plan_says_what_it_would_change_and_gives_the_commands(open_view: Open):
    page = open_view("#/plans")
    order = section(page, "Warm replicas before cold ones")
    expect(order.locator("tbody tr")).to_have_text("ledger-022, 3, 12, 1, 33, cold1, warm-")
    expect(order).to_contain_text(
        "1 of them would be led by a cold replica now, and 0 with this plan"
    )
    commands = ["kafka-twin plan order", "kafka-twin plan order --out warm-first",
                "kafka-twin plan order --apply"]  # fmt: skip
    expect(order.locator(".command code")).to_have_text(commands)
    order.get_by_role("button", name="they move as well").click()
    expect(page).to_have_url(re.compile("preferred=true"))
    expect(order.locator(".command code").first).to_have_text("kafka-twin plan order --preferred")


def test_a_broker_is_chosen_to_lead_nothing(open_view: Open):
    page = open_view("#/plans")
    demote = section(page, "Leaderships away from a broker")
    expect(demote.locator(".command")).to_have_count(0)
    demote.get_by_label("broker").select_option("3")
    expect(page).to_have_url(re.compile(r"#/plans\?demote=3$"))
    expect(demote).to_contain_text("partitions that broker 3 leads get another leader")
    expect(demote).to_contain_text("kafka-twin plan demote --broker 3 --apply")
    expect(demote.locator("code").first).to_have_text("kafka-twin plan restore")
    expect(demote.locator("tbody td:last-child").first).not_to_have_text("3")


def test_the_panel_of_a_loss_leads_to_the_plan_that_helps(open_view: Open):
    page = open_view("#/?lose=2")
    page.locator(".panel").get_by_role("link", name="Leaders elsewhere").click()
    expect(page.get_by_role("combobox")).to_have_value("2")
    expect(page.locator("main")).to_contain_text("kafka-twin plan demote --broker 2 --apply")


def test_the_page_only_asks(open_view: Open):
    page = open_view("#/plans?demote=2")
    methods: list[str] = []
    page.on("request", lambda request: methods.append(request.method))
    for button in page.get_by_role("button").all():
        button.click()
    page.wait_for_timeout(500)
    assert set(methods) <= {"GET"}


def test_nothing_is_planned_from_an_old_state(open_view: Open, shown: Shown):
    shown.clock_ahead_ms = 120_000
    page = open_view("#/plans?demote=2", may_log="status of 503")
    expect(page.locator("main")).to_contain_text("No plan: the newest observation is")
    expect(section(page, "Warm replicas")).to_contain_text("nothing is planned")
    expect(page.locator("main .command")).to_have_count(2)  # roll, and restore


def test_what_is_not_known_is_not_called_safe(open_view: Open, shown: Shown):
    parts = (Partition(ODD_NAME, 0, (1, 2, 3)),)
    shown.show(a_state(*parts, at_ms=now_ms(), brokers=BROKERS, min_insync_replicas=1))
    page = open_view("#/plans?demote=1")
    expect(page.locator("main")).to_contain_text(
        "0 of 6 brokers may be restarted now and of 6 it is unknown."
    )
    expect(page.locator("table.roll .pill.good")).to_have_count(0)
    expect(section(page, "Leaderships away").locator("tbody th")).to_have_text(f"{ODD_NAME}-0")
