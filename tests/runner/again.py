"""Plays once more what failed, one test at a time and with nothing beside it.

A machine may stand still for seconds, and four runs want more than two cores give. A test that
passes then is named in the last lines. One that fails twice has failed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.runner.budget import Budget
from tests.runner.playing import Ended, Playing
from tests.runner.schedule import NO_TIME, Say

MOST: Final = 20
"""Tests of a run: where more fail, no busy machine is the cause."""

MOST_S: Final = 600.0
"""For all of it, on a machine of any speed."""


@dataclass(frozen=True, slots=True)
class Again:
    """Tests that failed, by what became of them: each in one of the three."""

    passed: frozenset[str]
    failed: frozenset[str]
    not_tried: frozenset[str]


def again(
    ended: Iterable[Ended], folder: Path, environment: Mapping[str, str], budget: Budget, say: Say
) -> Again:
    """Play what failed in those runs."""
    passed, failed, not_tried = set[str](), set[str](), set[str]()
    give_up_s = time.monotonic() + min(MOST_S, budget.left_s)
    for each in ended:
        if not each.failed:
            continue
        may_pass = each.why in ("", NO_TIME)
        if len(each.failed) > MOST or not may_pass or time.monotonic() >= give_up_s:
            not_tried.update(each.failed)
            continue
        say(f"\n--- {each.run.name}: what failed, again ---")
        playing = Playing(each.run, folder / each.run.name, environment, is_again=True)
        while (result := playing.ended()) is None:
            if time.monotonic() >= give_up_s:
                result = playing.end(NO_TIME)
                break
            time.sleep(0.2)
        say(result.log.read_text(errors="replace").rstrip())
        if result.why or result.code not in (0, 1):  # pytest's, for tests that passed or failed
            not_tried.update(each.failed)
        else:
            failed.update(result.failed)
            passed.update(set(each.failed) - set(result.failed))
    return Again(frozenset(passed), frozenset(failed), frozenset(not_tried))
