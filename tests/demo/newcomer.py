"""A newcomer at the console of the demo: loses a broker on the page, sees it lost, looks around.

The page is open from the first snapshot until the demo has ended. What it says is kept; the tests
judge it.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from playwright.sync_api import Page, expect

from streaming.runtime.deadline import Deadline
from tests.cluster.groups import commit
from tests.console import browser as browsers
from tests.demo.playing import WHOLE_S, Played
from tests.waiting import patience

GROUP: Final = "newcomer"
ONE_REPLICA: Final = "scratch"
"""The demo's topic with one replica; the script ``failover`` kills the broker that has it."""

NOBODY: Final = -1
COMES_TRUE_WITHIN_S: Final = 60.0
"""Kafka's fencing takes 9 s, a cycle 2 s, and the page asks each 3 s; the machine may be busy."""

VIEWS: Final = {
    "#/": ".matrix .row .sq",
    "#/partitions": "main tbody tr:nth-child(20)",
    "#/partitions/ledger/0": "svg.log .log-both",
    "#/consumers": f"main a:has-text('{GROUP}')",
    f"#/consumers/{GROUP}": "main a:has-text('ledger-0')",
    "#/losses": "section:has(#pairs) tbody tr",
    "#/plans": "table.roll tbody tr:nth-child(3)",
    "#/timeline": ".events td.text",
    "#/twin": ".answers li:has-text('It is up')",
}
"""A selector for each view, which matches in the demo while any incident is being played."""

_SQUARES: Final = """() => [...document.querySelectorAll(".matrix .sq[title]")]
  .map(each => [each.title, each.className])"""
_TITLE: Final = re.compile(r"(.+) on broker (\d+): .*")


@dataclass
class Visit:
    """Notes of the page, and of Kafka at the same time."""

    lost: int = NOBODY  # the broker that was clicked
    led: int = 0  # partitions that it leads, by its head
    forecast: dict[str, int] = field(default_factory=dict)  # who would lead, by the page
    on_page: dict[str, int] = field(default_factory=dict)  # of these, what came true on it
    by_kafka: dict[str, int] = field(default_factory=dict)  # who leads then
    took_s: float = float("nan")  # from the kill until the page showed all of it
    heading: str = ""  # of the page then
    judged: list[str] = field(default_factory=list)  # predictions on the timeline
    shown: list[str] = field(default_factory=list)  # views that showed what they should
    banners: list[str] = field(default_factory=list)  # red lines while the demo ran
    patience: float = 1.0  # the most that waits had to have while these were looked for
    while_lost: list[str] = field(default_factory=list)  # red lines until the successors led
    failed: list[str] = field(default_factory=list)  # requests
    after_the_end: str = ""  # what the page says then
    error: str = ""  # what ended all this early


def browse(record: Played, visit: Visit) -> None:
    """Use the console as a newcomer would, until the demo is over."""
    try:
        if not _await(record, "the twin is live"):
            return
        commit(",".join(record.bootstrap), GROUP, {("ledger", 0): 2_900})
        with browsers.browser() as running, browsers.page(running, may_log="net::ERR_") as tab:
            tab.set_default_timeout(30_000)
            _keep_failures(tab, record, visit)
            browsers.go(tab, f"{record.exporter}/#/")
            _lose(tab, record, visit)
            _look_around(tab, record, visit)
            _see_the_end(tab, record, visit)
    except Exception:  # the tests show it: nobody reads what a thread raises
        visit.error = traceback.format_exc()


def _await(record: Played, text: str) -> bool:
    """Wait until the demo says that; false if it ends before."""
    while not record.prints(text):
        if record.is_over.wait(0.05):
            return record.prints(text)
    return True


def _keep_failures(tab: Page, record: Played, visit: Visit) -> None:
    def runs() -> bool:
        return not record.prints("stopping ...")

    def failed(request: Any) -> None:
        # The page gives up its own questions when it has others.
        if runs() and "ERR_ABORTED" not in request.failure:
            visit.failed.append(f"{request.url}: {request.failure}")

    def answered(response: Any) -> None:
        if runs() and response.status >= 400:
            visit.failed.append(f"{response.url}: status {response.status}")

    tab.on("requestfailed", failed)
    tab.on("response", answered)


def _lose(tab: Page, record: Played, visit: Visit) -> None:
    """Lose the broker on the page, then really, and wait until the forecast has come true."""
    only = tab.locator(f".matrix .sq-leads[title^='{ONE_REPLICA}-0 on broker ']")
    visit.lost = int(_TITLE.match(only.get_attribute("title") or "")[2])  # type: ignore[index]
    head = tab.get_by_role("button", name=re.compile(f"^Broker {visit.lost},"))
    head.click()
    while not record.prints("was killed"):
        if record.is_over.is_set():
            return
        tab.wait_for_timeout(200)
        if record.prints("look       "):
            visit.forecast = dict(_forecast(tab))
            [led] = re.findall(r"leads (\d+) partition", head.get_attribute("aria-label") or "")
            visit.led = int(led)
    killed_at_s = record.first_printed_s("was killed")
    deadline = Deadline.after_s(COMES_TRUE_WITHIN_S)
    while visit.on_page != visit.forecast and not deadline.is_over:
        tab.wait_for_timeout(100)
        visit.while_lost += tab.locator(".banner").all_inner_texts()
        leads = _leaders(tab)
        visit.on_page |= {
            each: leader for each, leader in visit.forecast.items() if leads.get(each) == leader
        }
        visit.took_s = monotonic() - killed_at_s
    heading = tab.locator("h1")
    expect(heading).to_contain_text("no leader")  # the page asks for its sentence by itself
    visit.heading = heading.inner_text()
    visit.by_kafka = _leaders_by_kafka(record, visit)
    tab.locator("nav").get_by_text("Timeline").click()
    tab.get_by_label("kind").select_option("prediction_judged")
    expect(tab.locator(".events td.text").nth(len(visit.forecast) - 1)).to_be_visible()
    visit.judged = tab.locator(".events td.text").all_inner_texts()


def _squares(tab: Page) -> Iterator[tuple[str, int, list[str]]]:
    """Partition, broker and classes of each replica that has a square of its own."""
    for title, classes in tab.evaluate(_SQUARES):
        if match := _TITLE.match(title):
            yield match[1], int(match[2]), classes.split()


def _forecast(tab: Page) -> Iterator[tuple[str, int]]:
    """Who is ringed, and NOBODY where all are ringed in red."""
    for partition, broker, classes in _squares(tab):
        if "sq-next" in classes:
            yield partition, broker
        elif "sq-harmed" in classes:
            yield partition, NOBODY


def _leaders(tab: Page) -> dict[str, int]:
    """Who leads each partition now, by the page."""
    leaders: dict[str, int] = {}
    for partition, broker, classes in _squares(tab):
        if {"sq-leads", "sq-leads_cold"} & set(classes):
            leaders[partition] = broker
        else:
            leaders.setdefault(partition, NOBODY)
    return leaders


def _leaders_by_kafka(record: Played, visit: Visit) -> dict[str, int]:
    """The same partitions, in the metadata of a broker that was not lost."""
    others = [at for node, at in enumerate(record.bootstrap, 1) if node != visit.lost]
    try:
        with KafkaAdminClient(bootstrap_servers=others) as admin:
            leaders = {
                f"{topic['name']}-{each['partition_index']}": each["leader_id"]
                for topic in admin.describe_topics()
                for each in topic["partitions"]
            }
    except KafkaError as error:
        raise AssertionError(f"Kafka does not say who leads: {error}") from error
    return {name: leaders[name] for name in visit.forecast}


def _look_around(tab: Page, record: Played, visit: Visit) -> None:
    for view, shows in VIEWS.items():
        if record.is_over.is_set():
            return
        browsers.go(tab, f"{record.exporter}/{view}")
        tab.locator(shows).first.wait_for()
        visit.shown.append(view)
        _see_banners(tab, visit)


def _see_banners(tab: Page, visit: Visit) -> None:
    visit.banners += tab.locator(".banner").all_inner_texts()
    visit.patience = max(visit.patience, patience())


def _see_the_end(tab: Page, record: Played, visit: Visit) -> None:
    browsers.go(tab, f"{record.exporter}/#/")
    deadline = Deadline.after_s(WHOLE_S)
    while not (record.prints("stopping ...") or record.is_over.is_set() or deadline.is_over):
        _see_banners(tab, visit)
        tab.wait_for_timeout(1_000)
    alert = tab.get_by_role("alert")
    alert.wait_for()
    visit.after_the_end = alert.inner_text()
