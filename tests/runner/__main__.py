"""``python -m tests.runner``: plays the tests.

Without arguments, what ``make test`` promises. ``--ci`` adds what needs containers, and the groups
that are due; ``--all`` plays every group. Names of runs or groups play these alone. ``--plan``
prints what would be played and ends; with ``--changed`` as if just those files had changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.runner import dearest, due, report, table
from tests.runner.again import again
from tests.runner.budget import Budget, limit_s
from tests.runner.declared import Run
from tests.runner.groups import BY_NAME, GROUPS, TURNS
from tests.runner.history import Change, change
from tests.runner.imports import files_behind
from tests.runner.playing import machine_cpu_s
from tests.runner.runs import RUNS
from tests.runner.schedule import play

ROOT: Final = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is asked for; the exit code."""
    asked = _parser().parse_args(arguments)
    if asked.table:
        print(*table.runs(), "", *table.groups(), sep="\n")
        return 0
    limit = limit_s()
    # It ends its runs as after Ctrl-C. A shell starts what is in the background without it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    began_s, began_cpu_s = time.monotonic(), machine_cpu_s()
    os.chdir(ROOT)
    commit = Change(None, "", None)
    played_groups: list[due.Due] = []
    if asked.ci or asked.plan:
        commit = change(ROOT)
        if asked.changed is not None:
            commit = replace(commit, paths=frozenset(asked.changed))
        played_groups = due.due(GROUPS, TURNS, commit, files_behind(ROOT, BY_NAME))
        print(*due.lines(commit, TURNS, played_groups, GROUPS), sep="\n", flush=True)
    runs = chosen(asked, {each.group for each in played_groups})
    if asked.plan:
        print("runs:", ", ".join(run.name for run in runs))
        return 0
    environment = dict(os.environ)
    if asked.all or (asked.ci and commit.number is not None and commit.number % TURNS == 0):
        environment.setdefault("EXAMPLES", "many")
    folder = Path(tempfile.mkdtemp(prefix="tests-"))
    try:
        budget = Budget(limit, time.monotonic)
        played = play(runs, folder, environment, budget, _say)
        late = again(played.ended, folder, environment, budget, _say)
        found = report.verdict(played, late, played_groups, runs)
        print("\n--- the dearest files ---", *dearest.lines(dearest.times(folder)), sep="\n")
        took = report.Took(time.monotonic() - began_s, machine_cpu_s() - began_cpu_s)
        print(*report.lines(played, late, found, took), sep="\n", flush=True)
        return 0 if found.is_good else 1
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def chosen(asked: argparse.Namespace, due_groups: set[str]) -> list[Run]:
    """The runs to play, with those that they come after."""
    if asked.names:
        known = {run.name for run in RUNS} | set(BY_NAME)
        if unknown := sorted(set(asked.names) - known):
            sys.exit(f"{', '.join(unknown)}: there are {', '.join(sorted(known))}")
        wanted = {run.name for run in RUNS if {run.name, run.group} & set(asked.names)}
    elif asked.all:
        wanted = {run.name for run in RUNS}
    elif asked.ci or asked.plan:
        wanted = {run.name for run in RUNS if not run.group or run.group in due_groups}
    else:
        wanted = {run.name for run in RUNS if run.in_test and not run.group}
    for run in reversed(RUNS):  # a run is declared after those that it comes after
        if run.name in wanted:
            wanted.update(run.after)
    return [run for run in RUNS if run.name in wanted]


def _say(text: str) -> None:
    print(text, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.runner", description=__doc__)
    parser.add_argument("names", nargs="*", help="runs or groups to play")
    parser.add_argument("--ci", action="store_true", help="what CI plays for this commit")
    parser.add_argument("--all", action="store_true", help="everything")
    parser.add_argument("--plan", action="store_true", help="print what CI would play, and end")
    parser.add_argument("--table", action="store_true", help="print the tables of the docs")
    parser.add_argument("--changed", nargs="*", metavar="PATH", help="as if these had changed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
