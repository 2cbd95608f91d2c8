"""Groups of consumers: where they read, how long they have, and what a loss would do to them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.builders import Group, Partition, a_state, group_offsets_frame, groups_frame
from tests.console.cluster import BROKERS, ODD_GROUP, ODD_NAME, Shown, now_ms, small
from tests.console.conftest import Open
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.step import step

pytestmark = pytest.mark.browser


def names(page: Page) -> list[str]:
    page.locator("main tbody th").first.wait_for()
    return page.locator("main tbody th").all_text_contents()


def cells(page: Page, name: str) -> list[str]:
    row = page.locator("main tbody tr", has=page.get_by_role("link", name=name, exact=True))
    return row.locator("td").all_text_contents()


def test_the_worst_groups_come_first_and_abandoned_ones_last(open_view: Open):
    page = open_view("#/consumers")
    listed = names(page)
    assert listed[:3] == ["replay", "audit-export", "billing-etl"]
    assert listed[-1] == ODD_GROUP
    expect(page.locator("main")).to_contain_text("7 groups")


def test_a_group_says_where_it_reads_and_what_a_lost_leader_would_do(open_view: Open):
    page = open_view("#/consumers")
    names(page)
    members, lag, reads, leaves, loses, kafka, kip1303, kip501, _ = cells(page, "replay")
    assert (members, lag, reads) == ("1 stable", "2,700 (11 min)", "1 from remote storage")
    assert (leaves, loses) == ("now", "never")
    assert (kafka, kip1303, kip501) == ("2.5 GiB", "384 MiB", "2.5 GiB")
    assert cells(page, "billing-etl")[5:8] == ["1.9 GiB", "nothing", "1.9 GiB"]
    assert cells(page, "audit-export")[5:8] == ["1 partition not read"] * 3
    assert cells(page, "shop")[2:4] == ["10 from disk", "never"]


def test_groups_are_searched_and_the_search_is_in_the_url(open_view: Open):
    page = open_view("#/consumers")
    page.get_by_label("name contains").fill("SEARCH")
    expect(page.locator("main tbody th")).to_have_text(["search-index"])
    expect(page).to_have_url(re.compile(r"#/consumers\?search=SEARCH$"))
    page.get_by_label("name contains").fill("nobody is called so")
    expect(page.locator("main")).to_contain_text("No group meets all of that")


def test_a_group_has_a_page_that_leads_to_its_partitions_and_brokers(open_view: Open):
    page = open_view("#/consumers")
    page.get_by_role("link", name="billing-etl").click()
    expect(page.locator("h1")).to_have_text("billing-etl")
    expect(page).to_have_title("billing-etl · prod-eu · kafka-twin")
    loss = page.locator("section", has_text="If a leader is lost").locator("tbody tr")
    expect(loss).to_have_text("broker 211.9 GiBnothing1.9 GiB")
    reads = page.locator("section", has_text="Where it reads").locator("tbody tr")
    expect(reads.locator("td").first).to_have_text("from disk of broker 2")
    expect(reads).to_contain_text("1.9 GiB (broker 3)")
    reads.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("ledger-0")
    page.go_back()
    page.get_by_role("link", name="broker 2").click()
    expect(page.locator(".broker.chosen b")).to_have_text("2")
    page.locator(".panel").get_by_role("link", name="replay").click()
    expect(page.locator("h1")).to_have_text("replay")


def test_a_name_with_any_character_is_shown_linked_and_reloaded(open_view: Open):
    page = open_view("#/consumers")
    page.get_by_role("link", name=ODD_GROUP).click()
    expect(page.locator("h1")).to_have_text(ODD_GROUP)
    expect(page.locator("main")).to_contain_text(f"{ODD_NAME}-0")
    expect(page.locator("main")).to_contain_text("taken as abandoned")
    expect(page.locator("h1 *")).to_have_count(0)
    page.reload()
    expect(page.locator("h1")).to_have_text(ODD_GROUP)


def test_a_group_that_does_not_exist_is_said(open_view: Open):
    page = open_view("#/consumers/nobody", may_log="status of 404")
    expect(page.locator("main")).to_contain_text("group nobody is not known")


def grouped(*groups: Group) -> ShardState:
    at_ms = now_ms()
    state = a_state(Partition("t", 0), Partition("u", 0), at_ms=at_ms, brokers=BROKERS)
    return step(state, [groups_frame(groups, at_ms), group_offsets_frame(groups, at_ms)], at_ms)[0]


def test_what_is_not_known_of_a_group_is_called_unknown(open_view: Open, shown: Shown):
    refused = Group("refused", members=UNKNOWN, state=UNKNOWN, read_ms=UNKNOWN)
    shown.show(grouped(Group("read-once", [(Partition("t", 0), 50)]), refused))
    page = open_view("#/consumers")
    names(page)
    assert cells(page, "read-once")[3:5] == ["unknown", "unknown"]
    assert cells(page, "refused") == ["unknown"] * 9


def test_without_groups_it_is_said_that_none_is_known(open_view: Open, shown: Shown):
    shown.show(a_state(Partition(), at_ms=now_ms(), brokers=BROKERS))
    expect(open_view("#/consumers").locator("main")).to_contain_text(
        "No group of consumers is known"
    )


def test_keys_lead_to_the_consumers(open_view: Open, shown: Shown):
    page = open_view()
    expect(page.locator("nav")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.locator("h1")).to_have_text("Consumers")
    shown.show(small(leader_of_ledger=1))
    expect(page.locator("main tbody")).to_contain_text("replay")
