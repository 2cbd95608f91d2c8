"""Reductions over slots, and look-ups of many small numbers, give what the slow way gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twin.arrays import keys
from twin.arrays.slots import any_slot, count_slots
from twin.declarations.table import UNKNOWN

CHOSEN = hnp.arrays(bool, st.tuples(st.integers(0, 4), st.integers(1, 4)))
IDS = st.lists(st.integers(0, 40) | st.integers(1 << 20, 1 << 31), unique=True, max_size=6)


@given(CHOSEN)
def test_a_reduction_slot_by_slot_is_that_of_each_row(chosen):
    assert any_slot(chosen).tolist() == chosen.any(axis=1).tolist()
    assert count_slots(chosen).tolist() == chosen.sum(axis=1).tolist()


def test_a_reduction_of_one_slot_is_no_view_of_it():
    chosen = np.zeros((2, 1), bool)
    any_slot(chosen)[:] = True
    assert not chosen.any()


@given(IDS, st.lists(st.integers(-1, 45) | st.integers(1 << 20, 1 << 31), max_size=60))
def test_a_number_is_found_at_its_place_whether_numbers_are_small_or_large(ids, wanted):
    ids = sorted(ids)
    place = keys.find_sorted(np.array(ids, np.int64), np.array(wanted, np.int64))
    assert place.tolist() == [ids.index(n) if n in ids else UNKNOWN for n in wanted]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
def test_small_numbers_are_looked_up_in_a_matrix_as_well(ids):
    wanted = np.arange(-1, 11).reshape(4, 3)
    place = keys.find_sorted(np.array(sorted(ids)), wanted)
    assert place.shape == wanted.shape
    assert (place != UNKNOWN).tolist() == np.isin(wanted, ids).tolist()
