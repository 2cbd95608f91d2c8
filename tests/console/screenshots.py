"""Screenshots of every view for the documentation: ``python -m tests.console.screenshots``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page

from streaming.history.moment import time_text
from tests.console.browser import NARROW, WIDE, browser, go, page
from tests.console.cluster import Shown, serving, small, with_disks, with_forecasts, with_problems
from tests.console.fleet import ShownFleet, many, serving_fleet, three
from tests.console.past import serving_past

FOLDER: Final = Path(__file__).parents[2] / "docs" / "console"

SETTLES_WITHIN_MS: Final = 2_500

VIEWS: Final = {
    "cluster": "#/",
    "loss": "#/?lose=2",
    "partitions": "#/partitions",
    "partition": "#/partitions/ledger/0",
    "consumers": "#/consumers",
    "group": "#/consumers/replay",
    "losses": "#/losses",
    "plans": "#/plans?demote=2",
    "timeline": "#/timeline",
    "twin": "#/twin",
}


PROBLEMS: Final = (
    ("groups", 3, "GroupAuthorizationFailed", "DESCRIBE is not granted; offsets of 2 groups"),
    ("log dirs", 2, "", "did not answer within the deadline"),
)
"""Of the collector, on the picture of the twin."""

PAST_CHANGE: Final = 8
"""The change of the past that is on its picture: a broker is lost."""

LONG: Final = ("partitions", "plans")
"""Views that go on for pages: of these the documentation shows the beginning."""

COMMITTED: Final = (
    *((name, "light", WIDE) for name in VIEWS),
    ("loss", "dark", WIDE),
    ("loss", "light", NARROW),
)
"""Enough for the documentation; the others are for whoever changes the looks."""

EVERYTHING: Final = tuple(
    (name, theme, size) for name in VIEWS for theme in ("light", "dark") for size in (WIDE, NARROW)
)


def settled(tab: Page) -> None:
    """All first answers are there. A stream of events never ends, so the network is never idle."""
    tab.locator("h1").wait_for()
    tab.wait_for_timeout(SETTLES_WITHIN_MS)


def main(folder: Path | None) -> None:
    """Those of the documentation, or into another folder all of them."""
    to = folder or FOLDER
    to.mkdir(parents=True, exist_ok=True)
    shown = Shown()
    shown.happen()
    with serving(shown) as url, browser() as running:
        for name, theme, size in EVERYTHING if folder else COMMITTED:
            with page(running, theme=theme, size=size) as tab:
                # A picture of an old state would be red. No broker may be restarted out of sync.
                shown.show(small(in_sync=name == "plans"))
                if name == "twin":
                    shown.show(with_problems(PROBLEMS))
                go(tab, f"{url}/{VIEWS[name]}")
                settled(tab)
                path = to / f"{name}-{theme}{'-phone' if size is NARROW else ''}.png"
                tab.screenshot(path=path, full_page=name not in LONG or folder is not None)
                print(f"{path.stat().st_size:>8} {path}")
        of_fleet(running, to, "fleet", many())
        of_fleet(running, to, "fleet-of-three", three())
        of_disks(running, to)
        of_forecasts(running, to)
        of_past(running, to)


def of_fleet(running: Browser, to: Path, name: str, shown: ShownFleet) -> None:
    """All clusters on one page."""
    with serving_fleet(shown) as url:
        for theme, size in (("light", WIDE), ("dark", WIDE), ("light", NARROW)):
            if to == FOLDER and (theme == "dark" or (name, size) == ("fleet-of-three", NARROW)):
                continue
            with page(running, theme=theme, size=size) as tab:
                go(tab, f"{url}/#/")
                settled(tab)
                path = to / f"{name}-{theme}{'-phone' if size is NARROW else ''}.png"
                tab.screenshot(path=path)
                print(f"{path.stat().st_size:>8} {path}")


def of_disks(running: Browser, to: Path) -> None:
    """The strips of log directories, alone."""
    shown = Shown()
    with serving(shown) as url:
        for theme, size in (("light", WIDE), ("dark", WIDE), ("light", NARROW)):
            if to == FOLDER and (theme, size) != ("light", WIDE):
                continue
            with page(running, theme=theme, size=size) as tab:
                shown.show(with_disks(), of_cluster=True)
                go(tab, f"{url}/#/")
                settled(tab)
                path = to / f"disks-{theme}{'-phone' if size is NARROW else ''}.png"
                tab.get_by_role("region", name="Log directories").screenshot(path=path)
                print(f"{path.stat().st_size:>8} {path}")


def of_forecasts(running: Browser, to: Path) -> None:
    """The same of disks that fill, with what would help."""
    shown = Shown()
    state, own = with_forecasts()
    shown.stands_at_ms = state.observed_at_ms + 1_000
    shown.show(state, own=own)
    with serving(shown) as url:
        for theme, size in (("light", WIDE), ("dark", WIDE), ("light", NARROW)):
            if to == FOLDER and (theme, size) != ("light", WIDE):
                continue
            with page(running, theme=theme, size=size) as tab:
                go(tab, f"{url}/#/")
                settled(tab)
                tab.get_by_text("What would help").first.click()
                path = to / f"disk-full-{theme}{'-phone' if size is NARROW else ''}.png"
                tab.get_by_role("region", name="Log directories").screenshot(path=path)
                print(f"{path.stat().st_size:>8} {path}")
                go(tab, f"{url}/#/losses")
                settled(tab)
                path = to / f"tier-outage-{theme}{'-phone' if size is NARROW else ''}.png"
                tab.get_by_role("region", name="If remote storage").screenshot(path=path)
                print(f"{path.stat().st_size:>8} {path}")


def of_past(running: Browser, to: Path) -> None:
    """The bar of moments, and the cluster at one of them."""
    with serving_past() as past:
        moment = time_text(past.changes_at_ms[PAST_CHANGE])
        for theme, size in (("light", WIDE), ("dark", WIDE), ("light", NARROW), ("dark", NARROW)):
            if to == FOLDER and (theme, size) != ("light", WIDE):
                continue
            with page(running, theme=theme, size=size) as tab:
                go(tab, f"{past.url}/?at={moment}#/")
                settled(tab)
                path = to / f"past-{theme}{'-phone' if size is NARROW else ''}.png"
                tab.screenshot(path=path)
                print(f"{path.stat().st_size:>8} {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
