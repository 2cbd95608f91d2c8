"""Only files that can hold a test which ``-m`` selects are imported."""

from __future__ import annotations

from itertools import chain, combinations
from pathlib import Path

import pytest

from tests.marks import can_match, marks_written

LANES = [
    "not cluster and not spark and not docker and not browser",
    "(spark or browser) and not cluster and not alone and not docker and not losses",
    "cluster and spark and not alone and not losses",
    "alone",
    "",
]


@pytest.mark.parametrize("expression", LANES)
def test_a_file_matches_if_one_of_its_tests_can_have_marks_that_match(expression: str) -> None:
    marks = ["alone", "browser", "cluster", "losses", "spark"]
    for written in chain.from_iterable(combinations(marks, n) for n in range(4)):
        matches = [
            set(has)
            for n in range(len(written) + 1)
            for has in combinations(written, n)
            if _selects(expression, set(has))
        ]
        assert can_match(expression, frozenset(written)) == bool(matches), written


def _selects(expression: str, has: set[str]) -> bool:
    """The same expressions, written down again."""
    return {
        LANES[0]: not has & {"cluster", "spark", "docker", "browser"},
        LANES[1]: bool(has & {"spark", "browser"})
        and not has & {"cluster", "alone", "docker", "losses"},
        LANES[2]: {"cluster", "spark"} <= has and not has & {"alone", "losses"},
        LANES[3]: "alone" in has,
        LANES[4]: True,
    }[expression]


def test_what_is_more_than_names_matches_everything() -> None:
    assert can_match("device(serial='1')", frozenset())


def test_marks_are_those_of_the_file_and_of_the_conftest_beside_it(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("pytestmark = [pytest.mark.cluster, pytest.mark.losses]\n")
    (tmp_path / "conftest.py").write_text("item.add_marker(pytest.mark.docker)\n")
    assert marks_written(tmp_path / "test_a.py") == {"cluster", "losses", "docker"}
