"""The last lines, and the exit code."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runner.__main__ import chosen, main
from tests.runner.again import Again
from tests.runner.dearest import lines as dearest_lines
from tests.runner.declared import Run
from tests.runner.due import Due
from tests.runner.playing import Ended
from tests.runner.report import Took, Verdict, lines, verdict
from tests.runner.schedule import Played

UNIT = Run("unit", "", ("pytest",), 1, 1)
LIFE = Run("life", "", ("pytest",), 1, 1, group="releases")
NOTHING = Again(frozenset(), frozenset(), frozenset())
TOUCHED = [Due("releases", ("streaming/a.py",), "streaming/a.py")]
TURN = [Due("releases", (), "its turn")]


@pytest.fixture
def good(tmp_path: Path) -> Ended:
    log = tmp_path / "log"
    log.write_text(
        "...\nSKIPPED [2] tests/a.py:3: no Chromium\n==== 5 passed, 2 skipped in 3s ====\n"
    )
    return Ended(UNIT, "", 0, 60.0, 90.0, log, ())


def judged(*ended: Ended, due: list[Due] = TURN, again: Again = NOTHING) -> Verdict:
    played = Played()
    played.ended += ended
    return verdict(played, again, due, (UNIT, LIFE))


def test_all_is_good_if_every_run_is(good: Ended) -> None:
    assert judged(good).is_good


def test_a_failed_test_fails_its_run(good: Ended) -> None:
    found = judged(replace(good, code=1, failed=("a::b",)))
    assert not found.is_good
    assert found.failed == {"unit": ("a::b",)}


def test_a_test_that_passes_again_has_not_failed(good: Ended) -> None:
    again = Again(frozenset({"a::b"}), frozenset(), frozenset())
    assert judged(replace(good, code=1, failed=("a::b",)), again=again).is_good
    both = replace(good, code=1, failed=("a::b", "a::c"))
    assert judged(both, again=again).failed == {"unit": ("a::c",)}


def test_a_run_that_ended_otherwise_than_by_failed_tests_has_failed(good: Ended) -> None:
    assert judged(replace(good, code=2)).failed == {"unit": ()}
    assert judged(replace(good, code=-9)).failed == {"unit": ()}
    assert judged(replace(good, code=0, why="it hangs: ...")).failed == {"unit": ()}
    again = Again(frozenset({"a::b"}), frozenset(), frozenset())
    crashed = replace(good, code=3, failed=("a::b",))
    assert judged(crashed, again=again).failed == {"unit": ()}


def test_what_no_time_was_left_for_is_not_asserted_and_fails_only_if_it_is_always_played(
    good: Ended,
) -> None:
    cut = replace(good, code=2, why="no time is left")
    assert judged(replace(cut, run=LIFE)).is_good
    assert judged(cut).unproved == {"unit"}
    assert not judged(cut).is_good
    played = Played()
    played.left_out = {"life": "it takes 9 minutes, 2 are left"}
    assert verdict(played, NOTHING, TURN, (UNIT, LIFE)).is_good
    played.left_out = {"unit": "it takes 9 minutes, 2 are left"}
    assert verdict(played, NOTHING, TURN, (UNIT, LIFE)).unproved == {"unit"}


def test_tests_that_failed_before_the_time_was_over_have_failed(good: Ended) -> None:
    cut = replace(good, run=LIFE, code=2, why="no time is left", failed=("a::b",))
    assert judged(cut).failed == {"life": ("a::b",)}


def text_of(*ended: Ended, due: list[Due], left_out: dict[str, str] | None = None) -> str:
    played = Played()
    played.ended += ended
    played.left_out |= left_out or {}
    found = verdict(played, NOTHING, due, (UNIT, LIFE))
    return "\n".join(lines(played, NOTHING, found, Took(125.0, 150.0)))


def test_a_group_that_fails_in_its_turn_is_told_apart_from_what_the_change_touches(
    good: Ended,
) -> None:
    failed = replace(good, run=LIFE, code=1, failed=("a::b",))
    apart = "failed in its turn: nothing that it depends on has changed ---\n  life\n    a::b"
    assert apart in text_of(failed, due=TURN)
    assert "--- failed ---" not in text_of(failed, due=TURN)
    assert "--- failed ---\n  life\n    a::b" in text_of(failed, due=TOUCHED)
    assert not judged(failed, due=TURN).is_good


def test_why_a_test_failed_stands_beside_it_also_where_it_passed_again(
    good: Ended,
) -> None:
    good.log.write_text("FAILED a::b - assert 1 == 2\nFAILED a::c\n==== 2 failed in 3s ====\n")
    played = Played()
    played.ended.append(replace(good, code=1, failed=("a::b", "a::c")))
    again = Again(frozenset({"a::b"}), frozenset(), frozenset({"a::c"}))
    found = verdict(played, again, TURN, (UNIT, LIFE))
    text = list(lines(played, again, found, Took(125.0, 150.0)))
    assert "  a::b: assert 1 == 2" in text
    assert "  a::c" in text


def test_what_was_left_out_is_named_with_the_command_that_plays_it(good: Ended) -> None:
    text = text_of(good, due=TURN, left_out={"life": "it takes 9 minutes, 2 are left"})
    assert "  life: it takes 9 minutes, 2 are left; make play ARGS=life" in text


def test_the_table_has_minutes_and_cpu_minutes_of_each_run_and_of_all(good: Ended) -> None:
    text = text_of(good, due=TURN)
    assert re.search(r"unit +1\.0 min +1\.5 CPU min  5 passed, 2 skipped in 3s", text)
    assert re.search(r"all +2\.1 min +2\.5 CPU min", text)


def test_what_was_skipped_is_said_with_its_reason(good: Ended) -> None:
    assert "    2 tests: no Chromium" in text_of(good, due=TURN)


def test_the_closing_line_counts_all_tests(good: Ended) -> None:
    assert text_of(good, good, due=TURN).splitlines()[-1] == "10 passed, 0 failed, 4 skipped"


def test_the_dearest_files_are_shown_and_the_others_summed() -> None:
    of = {f"tests/{n}.py": (float(n), 2.0 * n) for n in range(23)}
    shown = list(dearest_lines(of))
    assert shown[0].split() == ["22", "s", "CPU", "44", "s", "tests/22.py"]
    assert shown[-1].split()[:5] == ["3", "s", "CPU", "6", "s"]
    assert len(shown) == 21


def asked(*names: str, **modes: bool) -> argparse.Namespace:
    return argparse.Namespace(**{"ci": False, "all": False, "plan": False, "names": names} | modes)


def names(runs: list[Run]) -> set[str]:
    return {run.name for run in runs}


def test_a_named_run_brings_those_that_it_comes_after() -> None:
    assert {"helm", "api-server", "kubernetes"} == names(chosen(asked("kubernetes"), set()))
    assert {"helm", "chart"} == names(chosen(asked("chart"), set()))


def test_ci_plays_what_is_always_played_and_what_is_due() -> None:
    always = names(chosen(asked(ci=True), set()))
    assert {
        "lint",
        "unit",
        "browser",
        "spark",
        "alone",
        "brokers",
        "start",
        "images",
        "chart",
    } < always
    assert names(chosen(asked(ci=True), {"releases"})) - always == {"jars", "versions", "life"}


def test_make_test_needs_no_containers_and_plays_no_group() -> None:
    runs = chosen(asked(), set())
    assert not [run for run in runs if run.networks or run.group]


def test_a_name_that_is_none_is_refused_in_one_line() -> None:
    with pytest.raises(SystemExit, match=r"lives: there are alone, .*, life, "):
        main(["lives"])
