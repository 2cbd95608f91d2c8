"""The console where a token is needed: a browser sends it as a password, with each question."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from streaming.runtime.config import AccessConfig
from tests.console import browser as browsers
from tests.console.cluster import Shown, serving

pytestmark = [pytest.mark.browser, pytest.mark.console]

FORBIDDEN = "403 (Forbidden)"


@pytest.mark.parametrize(("token", "may_plan"), [("looks", False), ("plans", True)])
def test_who_looks_sees_all_but_plans_and_operators_see_these_too(
    chromium: Browser, shown: Shown, token: str, may_plan: bool
):
    shown.access = AccessConfig(token="looks", operator_token="plans")
    shown.happen()
    with (
        serving(shown) as url,
        browsers.page(chromium, may_log=FORBIDDEN, password=token) as page,
    ):
        browsers.go(page, f"{url}/#/")
        expect(page.locator("main")).to_contain_text("You can lose any one broker.")
        page.get_by_role("link", name="Timeline", exact=True).click()
        expect(page.locator("main")).to_contain_text("broker 2 was fenced")  # an event
        page.get_by_role("link", name="Plans", exact=True).click()
        expect(page.locator("main")).to_contain_text("brokers may be restarted now")
        refusal = page.get_by_text("plans are for operators: ")
        expect(refusal).to_have_count(0 if may_plan else 1)
