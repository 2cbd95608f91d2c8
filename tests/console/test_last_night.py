"""A loss that happened "some time last night" is found by somebody who has never seen the console.

Eight hours, a cycle a minute. Now and then a leader moves; once a broker is lost, and comes back a
quarter of an hour later. The visitor reads the legend of the bar, looks for the first column of its
colour, and clicks it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from streaming.history.capsules.saving import Recorded
from streaming.history.moment import time_text
from tests.console import browser as browsers
from tests.console.browser import NARROW, WIDE
from tests.console.past import ShownPast, serving_recorded
from tests.console.screenshots import settled
from tests.history.recorded import message, with_events
from tests.simulator.incidents import IncidentShard
from tests.simulator.shard import Shape
from twin.proposals import PROPOSALS

pytestmark = [pytest.mark.browser, pytest.mark.console]

EVENING_MS: Final = 1_800_000_000_000
MINUTE_MS: Final = 60_000
CYCLES: Final = 8 * 60
LOST, LOST_FROM, LOST_TO = 4, 287, 302
NOISE: Final = 40
"""Changes of single partitions that have nothing to do with it."""


def a_night() -> Recorded:
    chance = random.Random(7)
    shard = IncidentShard(Shape(topics=6, partitions=5, brokers=5, cold_share=0.0), seed=3)
    noise = {*chance.sample([n for n in range(10, CYCLES - 10) if abs(n - LOST_FROM) > 30], NOISE)}
    messages = []
    for cycle in range(CYCLES):
        shard.traffic(MINUTE_MS)
        if cycle in noise:
            shard.move_leader(chance.randrange(30), chance.randrange(1, 3))
        if cycle == LOST_FROM:
            shard.lose_all(LOST)
        if cycle == LOST_TO:
            shard.restore(LOST)
        messages.append((0, message(shard.observe(EVENING_MS + cycle * MINUTE_MS))))
    return with_events(Recorded(shard.cluster, 1, messages, [], tuple(PROPOSALS)))


@pytest.fixture(scope="module")
def night() -> Iterator[ShownPast]:
    end_ms = EVENING_MS + (CYCLES - 1) * MINUTE_MS
    with serving_recorded(a_night(), EVENING_MS, end_ms) as shown:
        yield shown


def first_of_a_broker(page: Page) -> tuple[float, float]:
    """Where the first column is that has the colour of brokers; the legend says which that is."""
    expect(page.locator(".meaning")).to_contain_text("a broker")
    first = page.locator(".heat rect.of-broker").first.bounding_box()
    track = page.locator(".track").bounding_box()
    assert first is not None
    assert track is not None
    return first["x"] + first["width"] / 2, track["y"] + track["height"] / 2


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["desk", "phone"])
def test_a_loss_of_last_night_is_found_within_a_minute(
    chromium: Browser, night: ShownPast, size: dict[str, int]
):
    with browsers.page(chromium, size=size, is_new=True) as page:
        began = time.monotonic()
        browsers.go(page, f"{night.url}/#/")
        expect(page.locator(".heat rect").first).to_be_attached()
        settled(page)
        page.mouse.click(*first_of_a_broker(page))
        expect(page.locator(".banner.then")).to_contain_text("This is how it was at")
        expect(page.get_by_role("button", name=f"Broker {LOST}, down")).to_be_visible()
        assert time.monotonic() - began < 60
        shown = page.get_by_role("slider").get_attribute("aria-valuenow")
        lost_ms = EVENING_MS + LOST_FROM * MINUTE_MS
        assert 0 <= int(shown or 0) - lost_ms <= 2 * MINUTE_MS
        # One key back is the change before it: the loss itself is between two keys.
        slider = page.get_by_role("slider")
        slider.focus()
        slider.press("ArrowLeft")
        page.wait_for_function(
            "text => new URLSearchParams(location.search).get('at') !== text",
            arg=time_text(int(shown or 0)),
        )
