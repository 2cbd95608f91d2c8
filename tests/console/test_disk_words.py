"""What the console says of a disk, in words: its own module, alone in a page."""

from __future__ import annotations

from typing import Any, Final

import pytest
from playwright.sync_api import Browser

from streaming.exporter.console_bundle import bundled
from streaming.exporter.console_files import modules

HOUR_MS: Final = 3_600_000
NOW_MS: Final = 1_780_000_000_000

pytestmark = pytest.mark.browser


def at(hours: float | None, forecast: str = "full") -> dict[str, Any]:
    """A time so many hours from now; without one, not in sight."""
    if hours is None:
        return {"forecast": "not_in_sight" if forecast == "full" else forecast, "at_ms": None}
    return {"forecast": forecast, "at_ms": NOW_MS + round(hours * HOUR_MS)}


def disk(earliest: Any, latest: Any, left_out: int = 0, **full: Any) -> dict[str, Any]:
    """A directory of whose volume that is foretold."""
    filling = full.pop("filling", [])
    return {
        "observed_at_ms": NOW_MS,
        "full": {
            "earliest": _at(earliest), "latest": _at(latest), "line": at(None), "away": None,
            "differs": False, "unjudged_replicas": 0, **full,
        },
        "filling": filling,
        "filling_left_out": left_out,
    }  # fmt: skip


def _at(when: Any) -> dict[str, Any]:
    return when if isinstance(when, dict) else at(when)


def topic(name: str, grows: float, written: float) -> dict[str, Any]:
    return {"topic": name, "grows_bytes_per_s": grows, "written_bytes_per_s": written}


MIB: Final = 1 << 20

SAID: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "between two bounds": (disk(5, 9), ["full in 5 h to 9 h"]),
    "at one time": (disk(5, 5.1), ["full in 5 h"]),
    "minutes are told as minutes": (disk(0.5, 1.5), ["full in 30 min to 90 min"]),
    "it may never be": (disk(5, None), ["full in 5 h at the earliest"]),
    "it is": (disk(0, 1), ["full now"]),
    "it is not": (disk(None, None), ["full: not in sight"]),
    "nobody knows": (
        disk(at(None, "unknown"), at(None, "unknown")),
        ["full: unknown"],
    ),
    "the last hour is not what the model says": (
        disk(None, None, line=at(3), differs=True),
        ["full: not in sight",
         "as in the last hour: full in 3 h, which is not what logs explain"],
    ),
    "it empties, and nobody knows why": (
        disk(5, 9, differs=True),
        ["full in 5 h to 9 h",
         "as in the last hour: not in sight, which is not what logs explain"],
    ),
    "without remote storage for some time": (
        disk(None, None, away=at(11)),
        ["full: not in sight", "remote storage may be away for 11 h"],
    ),
    "without remote storage for as long as anything is said": (
        disk(None, None, away=at(None)),
        ["full: not in sight", "remote storage may be away for more than 14 d"],
    ),
    "what fills it": (
        disk(5, 9, filling=[topic("a", 3 * MIB, 3 * MIB), topic("b", 2 * MIB, 9 * MIB),
                            topic("c", 0, MIB), topic("d", -5, 1)], left_out=2),
        ["full in 5 h to 9 h",
         "filled by a (3.0 MiB/s), b (2.0 MiB/s), c (1.0 MiB/s written) and 3 more"],
    ),
    "what is written to a disk that does not fill is not told": (
        disk(None, None, filling=[topic("a", 0, MIB)]),
        ["full: not in sight"],
    ),
    "some replicas are not judged": (
        disk(5, 9, unjudged_replicas=1),
        ["full in 5 h to 9 h", "1 replica not judged"],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def said(chromium: Browser) -> dict[str, list[str]]:
    """What is said of each disk."""
    words = {name: modules()[name] for name in ("format.js", "cluster/disk_words.js")}
    main = (
        'import { besides, whenFull } from "./cluster/disk_words.js";\n'
        "globalThis.said = (disk) => [whenFull(disk), ...besides(disk)];\n"
    )
    page = chromium.new_page()
    try:
        page.add_script_tag(content=bundled({**words, "main.js": main}, "main.js"), type="module")
        page.wait_for_function("globalThis.said !== undefined")
        return {name: page.evaluate("said", disk) for name, (disk, _) in SAID.items()}
    finally:
        page.close()


@pytest.mark.parametrize("name", SAID)
def test_of_a_disk_it_is_said_when_it_is_full(name: str, said: dict[str, list[str]]):
    assert said[name] == SAID[name][1]
