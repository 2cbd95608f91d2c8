"""A deadline: how much time is left, and when none is."""

import time

import pytest

from streaming.runtime.deadline import Deadline


def test_a_deadline_in_the_future_has_time_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    deadline = Deadline(160.0)
    assert deadline.left_s == 60
    assert deadline.left_ms == 60_000
    assert not deadline.is_over


def test_milliseconds_and_seconds_make_the_same_deadline(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    assert Deadline.after_ms(1_500) == Deadline.after_s(1.5) == Deadline(101.5)


@pytest.mark.parametrize(
    ("now_s", "left_s", "left_ms", "is_over"),
    [(9.5, 0.5, 500, False), (9.9995, 0.0005, 0, False), (10.0, 0, 0, True), (11.0, 0, 0, True)],
    ids=["before", "less than a millisecond before", "exactly at it", "after"],
)
def test_a_deadline_is_over_from_its_moment_on(
    monkeypatch: pytest.MonkeyPatch, now_s: float, left_s: float, left_ms: int, is_over: bool
):
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    deadline = Deadline(10.0)
    assert deadline.left_s == pytest.approx(left_s)
    assert (deadline.left_ms, deadline.is_over) == (left_ms, is_over)


def test_a_deadline_of_no_time_is_over_at_once():
    assert Deadline.after_s(0).is_over
    assert Deadline.after_ms(-1).is_over
