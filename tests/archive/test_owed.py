"""Batches that a cluster's tables have not taken are joined once they are behind."""

from __future__ import annotations

from streaming.archive.owed import MOST_JOINED, OwedBatch, with_first_joined


def owed(first: int, last: int | None = None) -> OwedBatch:
    """Each batch has ten records of a topic."""
    last = first if last is None else last
    return OwedBatch(last, {"t": {"0": first * 10}}, {"t": {"0": last * 10 + 10}})


def test_those_before_a_batch_become_one_with_all_of_their_records() -> None:
    assert with_first_joined([owed(3), owed(4), owed(6)], before=7) == [owed(3, 6)]


def test_later_ones_stay_as_they_are() -> None:
    """A table may have taken part of the batch itself."""
    assert with_first_joined([owed(3), owed(4), owed(5)], before=5) == [owed(3, 4), owed(5)]
    assert with_first_joined([owed(5)], before=5) == [owed(5)]
    assert with_first_joined([], before=5) == []


def test_no_more_are_joined_than_memory_has_room_for() -> None:
    most = MOST_JOINED
    all_of_them = [owed(n) for n in range(most + 2)]
    expected = [owed(0, most - 1), owed(most), owed(most + 1)]
    assert with_first_joined(all_of_them, before=1_000) == expected
