"""The console of a capsule: it shows the past, and says so."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from streaming.exporter.capsule_server import source_of
from streaming.exporter.web_application import application
from streaming.history.capsules.opening import Capsule
from streaming.history.capsules.saving import save
from tests.console import browser as browsers
from tests.exporter.serving import served
from tests.history.recorded import a_recording, at
from twin.builtin import CATALOG

pytestmark = [pytest.mark.browser, pytest.mark.console]


def test_the_console_of_a_capsule_says_of_when_it_is(chromium: Browser, tmp_path: Path):
    save(a_recording(4, shards=1), CATALOG, at(1), at(3), tmp_path / "c")
    with closing(Capsule(tmp_path / "c")) as opened:
        source = source_of(opened)
        with (
            served(application(source), source.events) as url,
            browsers.page(chromium) as page,
        ):
            browsers.go(page, f"{url}/#/")
            expect(page.get_by_role("status").first).to_have_text(
                "This is the past: a capsule of sim from 2001-09-09T01:46:45.000Z to "
                "2001-09-09T01:46:55.000Z; shown is 2001-09-09T01:46:55.000Z."
            )
            expect(page.locator("h1")).to_contain_text("At that time: ")
            expect(page.locator(".top")).to_contain_text("the past: ")
            expect(page.locator(".top")).not_to_contain_text("observed")
            browsers.go(page, f"{url}/#/twin")
            expect(page.locator(".answers")).to_contain_text("This is the past: a capsule of sim")
