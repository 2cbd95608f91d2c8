"""The first view: which broker can be lost, and what happens if it is."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.builders import Partition, a_state, brokers_frame
from tests.console.browser import NARROW
from tests.console.cluster import BROKERS, Shown, now_ms, small
from tests.console.conftest import Open
from tests.twin.test_silent_brokers import each_after
from twin.engine.shard_state import ShardState
from twin.rules.election.silent_successors import SilentSuccessors
from twin.step import step
from twin.tables.state import PartitionIndex

pytestmark = pytest.mark.browser


def row(topic: str) -> str:
    """Selects the row of a topic."""
    return f'.matrix tr:has(.name[title="{topic}"])'


def test_a_sentence_says_which_broker_can_be_lost(open_view: Open):
    page = open_view()
    expect(page.locator("h1")).to_have_text(
        "You can lose any one broker. Losing any one rack takes no partition offline."
    )
    apart = page.get_by_role("link", name="1 partition has one replica and goes with its broker.")
    expect(apart).to_have_attribute("href", "#/partitions?redundancy=one_replica")
    expect(page).to_have_title("Cluster · prod-eu · kafka-twin")


def test_each_replica_is_a_square_of_its_own(open_view: Open):
    page = open_view()
    ledger = page.locator(row("ledger"))
    # Columns are in the order of racks: 1 and 4, 2 and 5, 3 and 6.
    expect(ledger.locator("td")).to_have_count(6)
    squares = [cell.locator(".sq").count() for cell in ledger.locator("td").all()]
    assert squares == [1, 0, 1, 0, 1, 0]
    expect(ledger.locator("td").nth(2).locator(".sq")).to_have_class("sq sq-leads")
    expect(ledger.locator("td").nth(4).locator(".sq")).to_have_class("sq sq-cold")
    for topic, square in (("returns", "out_of_sync"), ("moving", "joining"), ("retired", "elr")):
        expect(page.locator(f"{row(topic)} .sq-{square}")).to_have_count(1)
    expect(page.locator(f"{row('__consumer_offsets')} .count")).not_to_have_count(0)


def test_losing_a_broker_shows_who_would_lead_by_each_rule(open_view: Open):
    page = open_view()
    page.get_by_role("button", name=re.compile("^Broker 2,")).click()
    expect(page).to_have_url(re.compile(r"#/\?lose=2$"))
    ledger = page.locator(row("ledger"))
    expect(ledger.locator("td").nth(4).locator(".sq-next")).to_have_count(1)
    expect(page.locator(f"{row('scratch')} .sq-harmed")).to_have_count(1)
    panel = page.locator(".panel")
    numbers = panel.locator("table.numbers tbody tr")
    expect(numbers.filter(has_text="cold")).to_have_text("led by a cold replica in sync101")
    expect(numbers.filter(has_text="nobody")).to_have_text("nobody leads111")
    expect(panel).to_contain_text("restart is unsafe")
    expect(panel).to_contain_text("kafka-twin gate restart --broker 2")
    expect(panel).to_contain_text("kafka-twin plan order")
    expect(panel).to_contain_text("kafka-twin plan demote --broker 2")
    expect(panel.locator("tr", has_text="audit-export")).to_contain_text("not read 1 partition")
    expect(panel.locator("tr", has_text="billing-etl")).to_contain_text("remotely")
    page.get_by_role("button", name="KIP-1303").click()
    expect(ledger.locator("td").nth(0).locator(".sq-next")).to_have_count(1)
    expect(ledger.locator("td").nth(4).locator(".sq-next")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator(".sq-next")).to_have_count(0)
    expect(page.locator(".panel")).to_contain_text("What if")


def test_a_lost_broker_says_what_it_would_copy_when_it_comes_back(open_view: Open):
    page = open_view("#/?lose=2")
    panel = page.locator(".panel")
    expect(panel).to_contain_text("after its return, if it copies 50 MiB/s.")
    expect(panel).to_contain_text("1 partition has no leader until then.")
    expect(panel).to_contain_text("With an empty disk it copies")
    expect(panel).to_contain_text("of unknown growth, size or retention are in no sum")
    panel.get_by_label("after").select_option("8h")
    expect(panel).to_contain_text("kafka-twin whatif recovery --broker 2 --away 8h")
    expect(panel).to_contain_text("after its return")


def test_losing_a_rack_loses_its_brokers(open_view: Open):
    page = open_view()
    page.get_by_role("button", name="az-b").click()
    expect(page.locator(".broker.chosen")).to_have_count(2)
    expect(page.locator(".panel")).to_contain_text("kafka-twin whatif lose --rack az-b")


def test_a_url_shows_a_colleague_the_same(open_view: Open):
    page = open_view("#/?lose=2&rule=kip1303&open=ledger")
    expect(page.locator(".broker.chosen b")).to_have_text("2")
    expect(page.locator(".matrix tr.partition")).to_have_count(1)
    page.locator(".matrix tr.partition a").click()
    expect(page.locator("h1")).to_have_text("ledger-0")
    page.go_back()
    expect(page.locator(".broker.chosen b")).to_have_text("2")


def test_a_broker_that_goes_away_is_said_while_the_page_is_open(open_view: Open, shown: Shown):
    page = open_view()
    expect(page.locator("h1")).to_contain_text("You can lose any one broker.")
    shown.show(small(fenced=(5,)))
    expect(page.locator("h1")).to_contain_text("Broker 5 is down.")
    expect(page.get_by_role("button", name=re.compile("^Broker 5, down"))).to_be_visible()


def test_risks_of_brokers_are_listed_and_say_what_to_do(open_view: Open, shown: Shown):
    *_, own = each_after(65, silent=(3,))
    shown.view = replace(shown.view, cluster=own)
    page = open_view()
    risks = page.get_by_role("region", name="Risks of brokers and of the cluster")
    said = re.compile(r"broker silent\s+Broker 3: it does not answer")
    expect(risks.locator("li")).to_have_text(said)
    risks.get_by_text("What to do").click()
    expect(risks).to_contain_text("start the broker, or look at its log if it runs")


def test_without_a_threshold_nothing_is_called_warm_and_it_is_said_how_to_set_one(
    open_view: Open, shown: Shown
):
    shown.show(small(judged=False))
    page = open_view()
    expect(page.locator(".note")).to_contain_text("No threshold is set")
    expect(page.locator(".note")).to_contain_text("[eligibility]")
    expect(page.locator(".totals")).to_contain_text("not judged")
    expect(page.locator(".matrix .sq-warm")).to_have_count(0)


def test_a_broker_of_which_nothing_is_known_is_not_called_safe(open_view: Open, shown: Shown):
    at_ms = now_ms()
    shown.show(a_state(Partition(), at_ms=at_ms, brokers=BROKERS, silent=(6,)))
    page = open_view()
    expect(page.get_by_role("button", name=re.compile("^Broker 6, silent"))).to_be_visible()


def test_many_brokers_can_be_lost_but_few_are_named(open_view: Open, shown: Shown):
    alone = [Partition("t", i, (i + 1, 12), isr=(i + 1,)) for i in range(9)]
    shown.show(a_state(*alone, at_ms=now_ms(), brokers=range(1, 13), has_racks=False))
    page = open_view()
    expect(page.locator("h1")).to_have_text("The only brokers you can lose are 10, 11 and 12.")


def test_on_a_phone_the_name_of_a_topic_stays_beside_what_is_wrong_with_it(open_view: Open):
    page = open_view("#/?lose=2", size=NARROW)
    mark = page.locator(f"{row('scratch')} .mark")
    expect(mark).to_have_text("1 offline", use_inner_text=False)
    assert mark.inner_text() == "1"
    name = page.locator(f"{row('scratch')} .name")
    assert name.evaluate("it => it.scrollWidth <= it.clientWidth")


def silenced(silent: tuple[int, ...]) -> ShardState:
    """The small cluster, of which these brokers have not answered for a quarter of a minute."""
    begin_ms = now_ms() - 15_000
    state = small(at_ms=begin_ms)
    for at_ms in range(begin_ms + 5_000, begin_ms + 15_001, 5_000):
        state, _ = step(state, [brokers_frame(BROKERS, at_ms, silent=silent)], at_ms)
    return state


def test_the_columns_of_silent_brokers_are_marked_and_the_first_sentence_names_them(
    open_view: Open, shown: Shown
):
    shown.show(silenced((5,)))
    page = open_view()
    expect(page.locator("h1 .bad").first).to_have_text(
        re.compile(
            r"^Broker 5 has not answered since .* UTC\. You can lose any broker but 1 and 4\.$"
        )
    )
    expect(page.locator(".matrix col.silent")).to_have_count(1)


def test_a_partition_says_that_its_next_leader_does_not_answer(open_view: Open, shown: Shown):
    state = silenced((5,))
    shown.show(state)
    successors = state[SilentSuccessors]
    row = successors.row[0]
    topic, number = state.topic_names()[row], state[PartitionIndex].partition[row]
    page = open_view(f"#/partitions/{topic}/{number}")
    following = page.locator("dl.next > div").first
    expect(following.locator("dd").first).to_contain_text("does not answer")
    expect(following.locator(".why")).to_have_text(
        re.compile(r"Its last answer is of .*\. Kafka may elect it until it is fenced; then ")
    )


def test_of_a_cluster_that_does_not_answer_nothing_else_is_said(open_view: Open, shown: Shown):
    shown.show(silenced(BROKERS))
    page = open_view()
    expect(page.locator("h1")).to_have_text(
        re.compile(r"^No broker has answered since .* UTC: what is shown is how .* was then\.$")
    )
    expect(page.locator("h1 .bad")).to_have_count(1)
    expect(page.locator(".matrix col.silent")).to_have_count(len(BROKERS))
