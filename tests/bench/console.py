"""The console with 100 000 partitions: until the first picture, and until a click is answered.

The exporter has a process of its own, as it has in a deployment. The browser measures: from the
start of the navigation, or from the event of the click, until the frame in which the squares are.
"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import median
from typing import Final

from playwright.sync_api import Page

from tests.bench import figure
from tests.console import browser as browsers
from tests.console.cluster import LARGE_PARTITIONS, Shown, large, serving

TIMES: Final = 9
SETTLED_AFTER_MS: Final = 2_000
"""Time before a click: by then all is drawn, and the racks are asked for."""

NOTE_WHEN_SHOWN: Final = """() => {
  window.shownAt = selector => new Promise(resolve => {
    const look = () => document.querySelector(selector)
      ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now()))) : null;
    const watch = new MutationObserver(() => look() !== null && watch.disconnect());
    if (look() === null) watch.observe(document, { childList: true, subtree: true });
  });
  window.firstPicture = shownAt(".matrix .row .sq");
  addEventListener("click", event => { window.clickedAt = event.timeStamp; }, true);
}"""

PICTURE: Final = "firstPicture"
CLICK: Final = 'shownAt(".matrix .gains, .matrix .row .sq-next").then(at => at - clickedAt)'
PANEL: Final = 'shownAt(".panel .numbers").then(at => at - clickedAt)'
VERDICT: Final = 'shownAt(".panel h3 .pill").then(at => at - clickedAt)'


def main() -> None:
    """Open the page and lose a broker, some times over; the figures are medians."""
    if browsers.CHROMIUM is None:
        print(f"no figures of the console: {browsers.WHY_NOT}")
        return
    spent: dict[str, list[float]] = {}
    with _exporter() as url, browsers.browser() as running:
        for number in range(TIMES):
            with browsers.page(running) as page:
                # A broker that nobody asked about yet: an answer that is kept proves nothing.
                for name, ms in _measured(page, url, broker=number + 2).items():
                    spent.setdefault(name, []).append(ms / 1_000)
    for name, seconds in spent.items():
        figure(f"console_{name}_seconds", median(seconds), "s", slowest=round(max(seconds), 4),
               partitions=LARGE_PARTITIONS)  # fmt: skip


def _measured(page: Page, url: str, broker: int) -> dict[str, float]:
    """Milliseconds by name, in a browser that has nothing of the page yet."""
    page.add_init_script(f"({NOTE_WHEN_SHOWN})()")
    page.goto(f"{url}/#/", wait_until="commit")
    picture = page.evaluate(PICTURE)
    page.wait_for_timeout(SETTLED_AFTER_MS)
    # The page clicks: to look for the button as Playwright does takes longer than the answer.
    page.get_by_role("button", name=re.compile(f"^Broker {broker},")).evaluate("it => it.click()")
    parts = {"click": CLICK, "click_panel": PANEL, "click_verdict": VERDICT}
    awaited = ", ".join(f"{name}: await {each}" for name, each in parts.items())
    clicks: dict[str, float] = page.evaluate(f"async () => ({{ {awaited} }})")
    return {"first_picture": picture, **clicks}


@contextmanager
def _exporter() -> Iterator[str]:
    """The URL of an exporter in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("end")
        process.join()


def _serve(parent: Connection) -> None:
    shown = Shown()
    shown.show(*large())
    with serving(shown) as url:
        parent.send(url)
        parent.recv()


if __name__ == "__main__":
    main()
