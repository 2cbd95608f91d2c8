"""The system's Chromium, driven by Playwright, which brings no browser of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from playwright.sync_api import Browser, Page, expect, sync_playwright
from playwright.sync_api import TimeoutError as NotInTimeError

CHROMIUM: Final = shutil.which("chromium")
WHY_NOT: Final = "chromium is not on the PATH; it is in Debian's package chromium"
IS_NEEDED: Final = bool(os.environ.get("CI"))

WITHIN_MS: Final = 60_000
"""What a page shows within seconds on a quiet machine fails a test after this time."""

WIDE: Final = {"width": 1440, "height": 900}
NARROW: Final = {"width": 390, "height": 844}

NOBODY_ANSWERS: Final = "ERR_CONNECTION_REFUSED"
NETWORK_CHANGED: Final = "ERR_NETWORK_CHANGED"
"""Chromium gives up its requests when a network of the machine comes or goes, as it does when other
tests start containers."""

TRIES: Final = 3


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless browser without a sandbox, since tests may run as root."""
    assert CHROMIUM is not None, WHY_NOT
    expect.set_options(timeout=WITHIN_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield running
        finally:
            running.close()


@contextmanager
def page(
    running: Browser, *, theme: str = "light", size: dict[str, int] = WIDE,
    may_log: str = NOBODY_ANSWERS, is_new: bool = False, password: str = "",
) -> Iterator[Page]:  # fmt: skip
    """A page of its own. What it reports as an error fails the block, but for what it may log.

    The tour is offered to those who are new. With a password the browser sends it if asked to.
    """
    credentials: Any = {"username": "anybody", "password": password} if password else None
    context: Any = running.new_context(
        viewport=size, color_scheme=theme, http_credentials=credentials
    )
    if not is_new:
        context.add_init_script("localStorage.setItem('kafka-twin-tour', 'done')")
    shown = context.new_page()
    shown.set_default_timeout(WITHIN_MS)
    errors: list[str] = []
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.on("console", lambda entry: errors.extend(_errors(entry, may_log)))
    try:
        yield shown
        assert not errors, "\n".join(errors)
    finally:
        context.close()


def _errors(entry: Any, may_log: str) -> list[str]:
    """The text of an error in the browser's log: a refused request, or an answer with an error.

    Empty for an error that is expected, and for an entry that is none.
    """
    expected = any(each in entry.text for each in (may_log, NETWORK_CHANGED))
    return [entry.text] if entry.type == "error" and not expected else []


def go(tab: Page, url: str) -> None:
    """Open that page; again, as a person would, if the browser gave up one of its scripts."""
    for left in reversed(range(TRIES)):
        tab.goto(url)
        try:
            tab.locator(".top").wait_for()
        except NotInTimeError:
            if not left:
                raise
        else:
            return
