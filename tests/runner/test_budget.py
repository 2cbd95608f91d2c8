"""How much time there is for a run."""

from __future__ import annotations

import pytest

from tests.runner.budget import AGAIN_S, MINUTES, REPORT_S, Budget, limit_s
from tests.runner.declared import Run

TEN = Run("ten", "", ("pytest",), minutes=10, cpu_minutes=5)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_run_may_begin_if_it_is_expected_to_end_in_time() -> None:
    assert Budget(600 + REPORT_S, Clock()).allows(TEN)
    assert not Budget(600 + REPORT_S - 1, Clock()).allows(TEN)


def test_without_a_limit_everything_may_begin() -> None:
    assert Budget(None, Clock()).allows(TEN)


def test_on_a_machine_that_took_twice_as_long_a_run_is_expected_to_take_twice_as_long() -> None:
    budget = Budget(1_200 + REPORT_S, Clock())
    budget.note(TEN, took_s=1_200)
    assert budget.slowness == 2
    assert budget.allows(TEN)
    budget.note(TEN, took_s=1_300)
    assert not budget.allows(TEN)


def test_a_fast_machine_is_not_expected_to_stay_fast() -> None:
    budget = Budget(None, Clock())
    budget.note(TEN, took_s=60)
    assert budget.slowness == 1


def test_time_passes() -> None:
    clock = Clock()
    budget = Budget(100 + REPORT_S, clock)
    clock.now_s = 40
    assert budget.left_s == 60


def test_once_a_test_has_failed_time_is_kept_to_play_it_again() -> None:
    budget = Budget(600 + AGAIN_S + REPORT_S, Clock())
    budget.keep_for_failed()
    budget.keep_for_failed()
    assert (budget.left_s, budget.left_for_runs_s) == (600 + AGAIN_S, 600)
    assert budget.allows(TEN)
    budget = Budget(599 + AGAIN_S + REPORT_S, Clock())
    assert budget.allows(TEN)
    budget.keep_for_failed()
    assert not budget.allows(TEN)


def test_the_limit_is_in_minutes_and_none_by_default() -> None:
    assert limit_s({}) is None
    assert limit_s({MINUTES: "85"}) == 5_100
    assert limit_s({MINUTES: "0.5"}) == 30


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_a_limit_that_is_no_number_of_minutes_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match=f"TEST_MINUTES={text}: set it to a number of minutes"):
        limit_s({MINUTES: text})
