"""Rows that are equal in all columns form a group, whatever the numbers are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twin.arrays import keys

NUMBERS = st.sampled_from([-(2**63), -(2**62), -1, 0, 1, 2, 7, 2**31, 2**62, 2**63 - 1])


@examples(500)
@given(rows=st.lists(st.lists(NUMBERS, min_size=4, max_size=4), max_size=12), flag=st.booleans())
def test_rows_are_in_one_group_if_and_only_if_they_are_equal(rows, flag):
    columns = list(np.array(rows, np.int64).reshape(-1, 4).T)
    columns.append(np.full(len(rows), flag))
    first, group = keys.groups(columns)
    assert len(group) == len(rows)
    for row, its_group in zip(rows, group, strict=True):
        assert rows[first[its_group]] == row
    assert len(first) == len({tuple(row) for row in rows})
