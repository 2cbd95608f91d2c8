"""axe-core finds nothing serious in any view, in both themes."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.console.browser import NARROW, WIDE
from tests.console.cluster import Shown, with_disks
from tests.console.conftest import Open
from tests.console.screenshots import VIEWS, settled

pytestmark = [pytest.mark.browser, pytest.mark.console]

GRAVE = ("serious", "critical")

DRAWN = """async () => {
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  await Promise.all(document.getAnimations().map(each => each.finished));
}"""
"""The page is drawn as it is now, and nothing moves any more."""


def graves(page: Page) -> list[tuple[str, list[str]]]:
    """The serious violations, with some of their places."""
    violations = Axe().run(page).response["violations"]
    return [
        (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in violations
        if each["impact"] in GRAVE
    ]


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_axe_finds_nothing_serious(open_view: Open, shown: Shown, view: str):
    shown.happen()
    page = open_view(view)
    settled(page)
    assert_nothing_serious(page)


def test_axe_finds_nothing_serious_in_strips_of_disks(open_view: Open, shown: Shown):
    shown.show(with_disks(), of_cluster=True)
    page = open_view()
    expect(page.locator(".disks")).to_be_visible()
    settled(page)
    assert_nothing_serious(page)


def assert_nothing_serious(page: Page) -> None:
    """In both themes, on a desk and on a phone."""
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.evaluate(DRAWN)
            assert graves(page) == [], f"{theme}, {size['width']} px"


def test_axe_finds_what_is_planted(open_view: Open):
    page = open_view("#/twin")
    expect(page.locator("h1")).to_be_visible()
    page.evaluate("document.querySelector('h1').innerHTML = '<button></button>'")
    assert [name for name, _ in graves(page)] == ["button-name"]
