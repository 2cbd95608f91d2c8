"""The table of CONTRIBUTING.md: what is played when, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator

from tests.runner.declared import Run
from tests.runner.groups import GROUPS, TURNS
from tests.runner.runs import RUNS


def runs() -> Iterator[str]:
    """Markdown: a row for each run."""
    yield "| run | plays | when | minutes | CPU minutes |"
    yield "|---|---|---|---|---|"
    turn_of = {group.name: group.turn for group in GROUPS}
    for run in RUNS:
        when = f"group `{run.group}`, turn {turn_of[run.group]}" if run.group else _when(run)
        yield f"| `{run.name}` | {run.about} | {when} | {run.minutes:g} | {run.cpu_minutes:g} |"
    always = [run for run in RUNS if not run.group]
    for name, runs in (
        ("`make test`", [run for run in always if run.in_test]),
        ("CI, without a group", always),
        ("`make test-all`", RUNS),
    ):
        cpu = sum(run.cpu_minutes for run in runs)
        yield f"| together | | {name} | | {cpu:.0f} |"


def _when(run: Run) -> str:
    return "`make test`, CI" if run.in_test else "CI"


def groups() -> Iterator[str]:
    """Markdown: a row for each group."""
    yield "| group | is about | turn | is due when a file that its tests import changes, or |"
    yield "|---|---|---|---|"
    for group in GROUPS:
        paths = ", ".join(f"`{path}`" for path in group.paths)
        yield f"| `{group.name}` | {group.about} | {group.turn} of {TURNS} | {paths} |"
