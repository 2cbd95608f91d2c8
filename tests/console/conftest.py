"""One browser for all tests of the console, and pages of an exporter's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page

from tests.console import browser as browsers
from tests.console.cluster import Shown, serving, small

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if browsers.CHROMIUM is None and not browsers.IS_NEEDED:
        pytest.skip(browsers.WHY_NOT)
    with browsers.browser() as running:
        yield running


@pytest.fixture
def shown() -> Shown:
    """What the exporter serves; a test may change it while a page is open."""
    held = Shown()
    held.show(small())
    return held


@pytest.fixture
def open_view(chromium: Browser, shown: Shown) -> Iterator[Open]:
    """Opens a view by its hash."""
    with ExitStack() as stack:
        url = stack.enter_context(serving(shown))

        def opened(view: str = "#/", **how: object) -> Page:
            tab = stack.enter_context(browsers.page(chromium, **how))  # type: ignore[arg-type]
            browsers.go(tab, f"{url}/{view}")
            return tab

        yield opened
