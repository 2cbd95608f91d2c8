"""Answers are capped: lists are shortened from their ends, and what was left out is said."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.exporter.agents.sizes import MOST_BYTES, TooLargeError, shortened
from streaming.exporter.agents.texts import as_data
from tests.builders import Partition, a_state
from tests.exporter.agents.asking import an_exporter, called, text_of
from tests.exporter.test_exporter import a_store


def test_an_answer_that_fits_stays_as_it_is():
    data = {"rows": [1, 2, 3]}
    assert shortened(data, len(msgspec.json.encode(data))) == {}
    assert data == {"rows": [1, 2, 3]}


def test_an_answer_that_is_one_byte_too_large_loses_one_row():
    data = {"rows": [1, 2, 3]}
    assert shortened(data, len(msgspec.json.encode(data)) - 1) == {"rows": 1}
    assert data == {"rows": [1, 2]}


def test_the_last_row_stays_while_another_list_can_be_shortened():
    data = {"rows": [{"names": ["x" * 10] * 50}], "others": ["y"] * 3}
    left_out = shortened(data, 200)
    assert len(data["rows"]) == 1
    assert left_out["rows[0].names"] == 50 - len(data["rows"][0]["names"])


def test_an_answer_that_no_list_makes_smaller_is_refused():
    with pytest.raises(TooLargeError, match="the answer has 108 bytes, at most 50 are sent"):
        shortened({"text": "x" * 97}, 50)


rows = st.lists(st.text(max_size=20) | st.lists(st.integers(), max_size=5), max_size=30)


@given(st.dictionaries(st.sampled_from("abc"), rows), st.integers(60, 600))
def test_what_is_sent_fits_begins_as_it_did_and_counts_what_is_missing(data, most_bytes):
    before = {name: list(each) for name, each in data.items()}
    left_out = shortened(data, most_bytes)
    assert len(msgspec.json.encode(data)) <= most_bytes
    for name, items in data.items():
        assert len(before[name]) - len(items) == left_out.get(name, 0)
        assert items[:-1] == before[name][: len(items)][:-1]


def test_a_text_is_capped_and_says_so():
    text = as_data(["é" * 100], {"rows": 2}, 21)
    assert "é" * 10 in text
    assert "é" * 11 not in text
    assert "Left out to keep the answer short: 2 of rows." in text
    assert text.endswith("The text ends after 21 bytes.")


def test_a_large_answer_of_the_api_is_shortened_for_an_agent():
    state = a_state(*(Partition("t", number) for number in range(100)))
    with an_exporter(a_store(state)) as url:
        [result] = called(url, ("partitions", {"limit": 100}))
    data = result.structured_content
    left_out = data.pop("left_out")
    assert data["total"] == 100
    assert len(data["partitions"]) + left_out["partitions"] == 100
    assert len(msgspec.json.encode(data)) <= MOST_BYTES
    assert f"{left_out['partitions']} of partitions" in text_of(result).splitlines()[-1]
