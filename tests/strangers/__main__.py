"""``python -m tests.strangers``: a twin on a cluster that nobody tuned, for a day.

With --table day one is played, and its table is written to docs/day-one.md. The exit code is 1 if
a risk is open that the test did not put there, or one is missing that it did.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from docs.pages import day_one as pages
from docs.pages.markdown import DOCS
from streaming.runtime.kafka import clients
from tests.strangers.day_one import MINUTES, Day, day_one
from tests.strangers.kinds import INTERNAL, KINDS


def main() -> int:
    """Play day one; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.strangers", description=__doc__)
    parser.add_argument("--table", action="store_true", help="write docs/day-one.md")
    parser.add_argument("--home", type=Path, help="kept afterwards; a temporary folder without")
    options = parser.parse_args()
    clients.quiet()  # brokers are restarted here
    began_s = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began_s:7.1f} s] {line}", flush=True)

    if options.home:
        day = day_one(options.home.resolve(), say)
    else:
        with tempfile.TemporaryDirectory() as home:
            day = day_one(Path(home), say)
    measured = as_measured(day)
    print("\n".join(pages.table(measured)))
    wrong = objections(day)
    for text in wrong:
        print(f"NO: {text}")
    if options.table and day.risks == day.planted:
        pages.save(measured)
        (DOCS / "day-one.md").write_text(pages.page(), encoding="utf-8")
    return 1 if wrong else 0


def as_measured(day: Day) -> pages.Measured:
    """The table of a day."""
    counts = day.table()
    named = {kind.name: (kind.means, kind.topics) for kind in KINDS}
    named[INTERNAL] = ("those of Kafka, and of the twin", day.internal_topics)
    return pages.Measured(
        MINUTES,
        tuple(
            pages.Row(name, means, topics, day.partitions.get(name, 0), dict(counts.get(name, {})))
            for name, (means, topics) in named.items()
        ),
    )


def objections(day: Day) -> list[str]:
    """What speaks against the twin, a line each."""

    def named(risks: object) -> list[str]:
        return [f"{key[0][:40]}-{key[1]}: {risk}" for key, risk in sorted(risks)]  # type: ignore[call-overload]

    return [
        *(f"false: {each}" for each in named(day.risks - day.planted)),
        *(f"missing: {each}" for each in named(day.planted - day.risks)),
        *(f"refused: {command}: {text}" for command, text in day.refused.items()),
        *(f"unexplained: {text}" for text in day.unexplained),
        *(f"still open after the restarts: {e}" for e in named(day.after_restarts - day.planted)),
        *(f"lost: {count} acknowledged records of {key}" for key, count in day.lost.items()),
        *(f"acks=all failed: {error}" for error in day.errors[:3]),
    ]


if __name__ == "__main__":
    sys.exit(main())
