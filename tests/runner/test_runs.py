"""Each test is played by one run, and all that is written about runs agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.marks import marks_written, names_in
from tests.runner import table
from tests.runner.groups import BY_NAME, GROUPS
from tests.runner.runs import RUNS, STARTS_NOTHING

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("test_*.py"))
PLAYING = [run for run in RUNS if run.is_pytest]
MIXED = {"test_runs.py", "test_marks.py"}
"""They have marks in their text that their tests do not have."""


def plays(command: tuple[str, ...], file: Path) -> bool:
    """A run plays the tests of a file that have all the marks which are written in it."""
    expression = command[command.index("-m") + 1]
    folders = [ROOT / word for word in command if word.startswith("tests/")]
    marks = marks_written(file) if file.name not in MIXED else frozenset()
    has = {name: name in marks for name in names_in(expression)}
    return bool(eval(expression, {"__builtins__": {}}, has)) and (
        not folders or any(folder in file.parents for folder in folders)
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_each_file_is_played_by_one_run(file: Path) -> None:
    assert len([run.name for run in PLAYING if plays(run.command, file)]) == 1


@pytest.mark.parametrize("run", PLAYING, ids=lambda run: run.name)
def test_each_run_plays_something(run) -> None:  # type: ignore[no-untyped-def]
    assert [file for file in FILES if plays(run.command, file)]


def test_names_are_unique_and_a_run_stands_after_those_that_it_waits_for() -> None:
    names = [run.name for run in RUNS]
    assert len(set(names)) == len(names)
    for n, run in enumerate(RUNS):
        assert set(run.after) <= set(names[:n])


def test_each_group_has_a_run_and_its_mark_says_what_it_is_about() -> None:
    assert {run.group for run in RUNS} - {""} == set(BY_NAME)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    marks = dict(
        line.split(": ", 1) for line in settings["tool"]["pytest"]["ini_options"]["markers"]
    )
    assert {group.name: group.about for group in GROUPS}.items() <= marks.items()


def test_each_path_of_a_group_is_there() -> None:
    for group in GROUPS:
        for path in group.paths:
            assert list(ROOT.glob(f"{path.rstrip('/')}*")), f"{group.name}: {path}"


def test_make_unit_plays_what_the_run_does() -> None:
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    [expression] = re.findall(r"^STARTS_NOTHING := (.*)$", text, re.MULTILINE)
    assert re.sub(r"\s+", " ", expression) == STARTS_NOTHING


def test_contributing_has_the_tables_of_runs_and_groups() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert "\n".join([*table.runs(), "", *table.groups()]) in text
