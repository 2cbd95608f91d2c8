"""Which groups are due for a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runner.declared import Group
from tests.runner.due import due, lines
from tests.runner.groups import BY_NAME, GROUPS, TURNS
from tests.runner.history import Change
from tests.runner.imports import files_behind

ROOT = Path(__file__).parents[2]
CHART = Group("chart", "the chart", 1, ("deploy/helm/",))
TIERS = Group("tiers", "tiers", 2, ())
BEHIND = {"chart": frozenset({"deploy/chart.py"}), "tiers": frozenset({"twin/tier.py"})}


def played(*paths: str, number: int | None = 0) -> list[str]:
    change = Change(number, "base", frozenset(paths))
    return [each.group for each in due((CHART, TIERS), 4, change, BEHIND)]


def test_a_group_is_due_when_a_file_that_its_tests_import_has_changed() -> None:
    assert played("twin/tier.py", "README.md") == ["tiers"]


def test_a_group_is_due_when_a_file_in_its_folders_has_changed() -> None:
    assert played("deploy/helm/kafka-twin/values.yaml") == ["chart"]


@pytest.mark.parametrize("number", range(8))
def test_each_group_is_due_in_one_of_four_turns(number: int) -> None:
    assert played(number=number) == {1: ["chart"], 2: ["tiers"]}.get(number % 4, [])


def test_the_same_commit_plays_the_same_again() -> None:
    assert played("a", number=6) == played("a", number=6) == ["tiers"]


def test_where_the_change_is_unknown_every_group_is_due() -> None:
    assert [each.why for each in due((CHART, TIERS), 4, Change(None, "", None), BEHIND)] == [
        "what has changed is unknown"
    ] * 2
    assert len(due((CHART, TIERS), 4, Change(7, "", None), BEHIND)) == 2


def test_the_first_lines_say_the_turn_and_why_each_group_is_played_or_not() -> None:
    change = Change(5, "0123456789ab", frozenset({"twin/tier.py"}))
    found = due((CHART, TIERS), 4, change, BEHIND)
    assert lines(change, 4, found, (CHART, TIERS)) == [
        "commit number 5, turn 1 of 4; 1 file differs from 012345678",
        "  chart      plays: its turn",
        "  tiers      plays: twin/tier.py",
    ]


def test_each_group_has_its_turn_within_four_merges() -> None:
    assert {group.turn for group in GROUPS} == set(range(TURNS))


CHANGES = {
    "a rule": (["twin/rules/isr/isr_thrash.py"], {"incidents"}),
    "the chart": (["deploy/helm/kafka-twin/values.yaml"], {"kubernetes"}),
    "the console": (["streaming/exporter/console/main.js"], {"console"}),
    "a decoder": (["streaming/collector/sources/offsets.py"], {"releases"}),
    "an image": (["deploy/docker/Dockerfile"], {"containers"}),
    "an election rule": (["twin/rules/election/next_leader.py"], {"losses"}),
    "a page of the docs": (["docs/runbook.md"], set()),
    "what all tests wait with": (["tests/waiting.py"], {"incidents", "releases", "losses"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_plays_the_groups_that_are_about_it(name: str) -> None:
    paths, expected = CHANGES[name]
    change = Change(0, "base", frozenset(paths))
    found = due(GROUPS, TURNS, change, files_behind(ROOT, BY_NAME))
    assert expected <= {each.group for each in found if each.changed}


def test_tests_of_a_group_are_in_it_and_what_they_import_in_turn_is_not() -> None:
    behind = files_behind(ROOT, BY_NAME)
    assert "tests/cluster/test_returns.py" in behind["losses"]
    assert "tests/waiting.py" in behind["losses"]
    assert "tests/conftest.py" in behind["kubernetes"]
    assert "tests/cluster/test_returns.py" not in behind["kubernetes"]
    for files in behind.values():
        assert len([path for path in files if not path.startswith("tests/")]) < 150
