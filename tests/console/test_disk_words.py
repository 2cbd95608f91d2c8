"""What the console says of a disk, in words: its own module, run by Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from streaming.exporter.console_bundle import bundled
from streaming.exporter.console_files import modules

HOUR_MS: Final = 3_600_000
NOW_MS: Final = 1_780_000_000_000

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")


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
        disk(None, None, away={"earliest": at(11), "latest": at(12)}),
        ["full: not in sight", "remote storage may be away for 11 h"],
    ),
    "without remote storage for as long as anything is said": (
        disk(None, None, away={"earliest": at(None), "latest": at(None)}),
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
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is said of each disk."""
    words = {name: modules()[name] for name in ("format.js", "cluster/disk_words.js")}
    main = (
        'import { besides, whenFull } from "./cluster/disk_words.js";\n'
        f"const disks = {json.dumps({name: each for name, (each, _) in SAID.items()})};\n"
        "const said = Object.entries(disks).map(([name, disk]) =>\n"
        "  [name, [whenFull(disk), ...besides(disk)]]);\n"
        "console.log(JSON.stringify(Object.fromEntries(said)));\n"
    )
    script: Path = tmp_path_factory.mktemp("words") / "all.mjs"
    script.write_text(bundled({**words, "main.js": main}, "main.js"))
    command = [shutil.which("node") or "node", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("name", SAID)
def test_of_a_disk_it_is_said_when_it_is_full(name: str, said: dict[str, list[str]]):
    assert said[name] == SAID[name][1]
