"""The console with 100 000 partitions: until the first picture, and until a click is answered."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Page

from tests.bench import figure
from tests.console import browser as browsers
from tests.console.cluster import LARGE_PARTITIONS, Shown, large, serving

TIMES = 5


def main() -> None:
    """Open the page and lose a broker, some times over; the figures are medians."""
    if browsers.CHROMIUM is None:
        print(f"no figures of the console: {browsers.WHY_NOT}")
        return
    shown = Shown()
    shown.show(*large())
    pictures, clicks = [], []
    with serving(shown) as url, browsers.browser() as running:
        for _ in range(TIMES):
            with browsers.page(running) as page:
                pictures.append(_first_picture(page, url))
                clicks.append(_click(page))
    for name, seconds in (("first_picture", pictures), ("click", clicks)):
        median = sorted(seconds)[TIMES // 2]
        figure(f"console_{name}_seconds", median, "s", partitions=LARGE_PARTITIONS)


def _first_picture(page: Page, url: str) -> float:
    """Seconds until squares are drawn, in a browser that has nothing of the page yet."""
    began = time.perf_counter()
    page.goto(f"{url}/#/", wait_until="commit")
    page.locator(".matrix .row .sq").first.wait_for()
    return time.perf_counter() - began


def _click(page: Page) -> float:
    """Seconds from a click on a broker until the replicas that would lead are shown."""
    head = page.get_by_role("button", name=re.compile("^Broker 2,"))
    began = time.perf_counter()
    head.click()
    page.locator(".matrix .gains, .matrix .row .sq-next").first.wait_for()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
