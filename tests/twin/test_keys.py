"""Distinct numbers, counted where they are small: as ``np.unique`` finds them by sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twin.arrays import keys

SMALL, ANY = st.integers(0, 5), st.integers(-(2**31), 2**31 - 1)


@given(st.lists(SMALL) | st.lists(ANY) | st.lists(SMALL | ANY))
def test_distinct_values_and_their_places_are_those_of_sorting(numbers: list[int]) -> None:
    values = np.array(numbers, np.int32)
    each, at = keys.distinct(values)
    expected, place = np.unique(values, return_inverse=True)
    assert each.dtype == values.dtype
    assert each.tolist() == expected.tolist()
    assert at.tolist() == place.tolist()
