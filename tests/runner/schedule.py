"""Plays runs: as many at a time as the cores allow, none that cannot end in time, none forever."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.runner.budget import Budget
from tests.runner.declared import Run
from tests.runner.playing import Ended, Playing
from tests.waiting import patience

SPARED_CORES: Final = 0.3
"""Cores that no run may want beside brokers. Where these wait for a core, idle ones go on for
longer: the tests of all programs took 102 s of CPU time alone, and 251 s beside three other runs
that start brokers.
"""

MOST_FILLERS: Final = 2

FILLED: Final = 0.5
"""Cores that are left for a run that fills gaps."""

HANGS_AFTER: Final = 5.0
"""Times its minutes, and at least ``HANGS_AFTER_MIN`` of them, on a quiet machine."""
HANGS_AFTER_MIN: Final = 15.0

_LOOK_S: Final = 0.2

NO_TIME: Final = "no time is left"
"""Why a run was ended."""

Say = Callable[[str], None]


class Played:
    """What was played, and what was not.

    Attributes:
        ended: results, in the order in which runs ended.
        left_out: runs that did not begin, with the reason.
    """

    def __init__(self) -> None:
        self.ended: list[Ended] = []
        self.left_out: dict[str, str] = {}


def fits(run: Run, playing: Iterable[Run], cores: float) -> bool:
    """The run may begin beside those that play."""
    others = list(playing)
    if not all(run.can_be_beside(other) for other in others):
        return False
    if run.fills:
        return sum(other.fills for other in others) < MOST_FILLERS
    wanted = sum(FILLED if other.fills else other.cores for other in others)
    is_first = all(other.fills for other in others)
    has_brokers = run.brokers or any(other.brokers for other in others)
    return is_first or wanted + run.cores <= cores - SPARED_CORES * has_brokers


def in_order(runs: Sequence[Run]) -> list[Run]:
    """The order in which runs begin, if they fit.

    Runs that prepare others come first, then runs that are alone, then those that are always
    played, which must not lack time at the end, and then groups. Among equals the one comes first
    that takes longest, together with all that wait for it.
    """

    def way(run: Run) -> float:
        waiting = (way(other) for other in runs if run.name in other.after)
        return run.minutes + max(waiting, default=0.0)

    return sorted(runs, key=lambda run: (run.is_pytest, not run.alone, bool(run.group), -way(run)))


def play(
    runs: Sequence[Run], folder: Path, environment: Mapping[str, str], budget: Budget, say: Say
) -> Played:
    """Play runs until all have ended or no time is left.

    Args:
        runs: what to play.
        folder: for logs.
        environment: of their processes.
        budget: the time that there is.
        say: prints when a run begins, and its output when it has ended.
    """
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    waiting, played = in_order(runs), Played()
    playing: list[Playing] = []
    began_s = time.monotonic()
    try:
        while waiting or playing:
            for each in list(playing):
                if ended := each.ended() or _ended_early(each, budget):
                    playing.remove(each)
                    played.ended.append(ended)
                    # What prepares depends on caches, what fills gaps on the others.
                    if ended.run.is_pytest and not (ended.why or ended.run.fills):
                        budget.note(ended.run, ended.wall_s)
                    if ended.failed:
                        budget.keep_for_failed()
                    _show(ended, time.monotonic() - began_s, say)
            for run in list(waiting):
                names = {other.name for other in waiting} | {each.run.name for each in playing}
                if names.intersection(run.after):
                    continue
                if lacking := played.left_out.keys() & set(run.after):
                    waiting.remove(run)
                    played.left_out[run.name] = f"{min(lacking)} was left out"
                elif not budget.allows(run):
                    waiting.remove(run)
                    played.left_out[run.name] = (
                        f"it takes {budget.expected_s(run) / 60:.0f} minutes, "
                        f"{max(0.0, budget.left_for_runs_s) / 60:.0f} are left"
                    )
                elif fits(run, (each.run for each in playing), cores):
                    waiting.remove(run)
                    playing.append(Playing(run, folder / run.name, environment))
                    say(f"[{time.monotonic() - began_s:5.0f} s] {run.name} begins")
            if all(run.fills for run in (*waiting, *(each.run for each in playing))):
                for each in playing:
                    each.hurry()
            time.sleep(_LOOK_S)
    finally:
        for each in playing:  # an interrupt
            played.ended.append(each.end("interrupted"))
    return played


def _ended_early(each: Playing, budget: Budget) -> Ended | None:
    if budget.left_for_runs_s <= 0:
        return each.end(NO_TIME)
    limit_min = max(HANGS_AFTER_MIN, HANGS_AFTER * each.run.minutes) * patience(lately=True)
    if each.played_s > limit_min * 60:
        return each.end(f"it hangs: it has not ended in {limit_min:.0f} minutes")
    return None


def _show(ended: Ended, at_s: float, say: Say) -> None:
    say(f"\n--- {ended.run.name} ---\n{ended.log.read_text(errors='replace').rstrip()}")
    say(f"[{at_s:5.0f} s] {ended.run.name} ended: {ended.last_line}")
