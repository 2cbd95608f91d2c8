"""Moments as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.history.moment import AT, MomentError, checked_in, time_text

NOW_MS = 1_795_489_920_000  # 2026-11-24T03:12:00Z
LAST_MS = 4_102_444_800_000


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2026-11-24T03:12:00Z", NOW_MS),
        ("2026-11-24T04:12:00+01:00", NOW_MS),
        ("2026-11-24T04:12:00 01:00", NOW_MS),  # a "+" that nobody encoded
        ("2026-11-23T22:42:00-04:30", NOW_MS),
        ("2026-11-24T03:12:00.250Z", NOW_MS + 250),
        ("2026-11-24T03:12:00.5Z", NOW_MS + 500),
        ("-15m", NOW_MS - 900_000),
        ("-1h30m", NOW_MS - 5_400_000),
        ("-90s", NOW_MS - 90_000),
        ("-1d", NOW_MS - 86_400_000),
    ],
)
def test_a_moment_is_a_time_with_its_offset_or_a_time_ago(text: str, at_ms: int):
    assert AT.read(text).at_ms(NOW_MS) == at_ms


@pytest.mark.parametrize(
    "text",
    [
        "", "-", "15m", "now", "2026-11-24", "2026-11-24T03:12:00", "2026-02-29T00:00:00Z",
        "2026-11-31T00:00:00Z", "2026-11-24T24:00:00Z", "2026-11-24T03:12:00.0001Z", "-15m ago",
        "-1.5h", "1795489920000", "-15m\n",
    ],
)  # fmt: skip
def test_what_is_no_moment_is_one_line_that_says_how_to_write_one(text: str):
    with pytest.raises(ValueError, match="is not a moment; write 2026-11-24T03:12:00Z, or -15m"):
        AT.read(text)


@given(st.integers(0, LAST_MS))
def test_a_moment_that_is_written_reads_as_itself(at_ms: int):
    assert AT.read(time_text(at_ms)).at_ms(NOW_MS) == at_ms


@given(st.from_regex(AT.schema["pattern"], fullmatch=True))
def test_every_text_of_the_described_form_is_a_moment(text: str):
    AT.read(text.removesuffix("\n")).at_ms(NOW_MS)


def test_a_moment_outside_a_span_is_one_line_that_says_why():
    assert checked_in(5_000, 5_000, 9_000, 20_000) == 5_000
    assert checked_in(9_000, 5_000, 9_000, 20_000) == 9_000
    for at_ms, why in (
        (4_999, "1970-01-01T00:00:04.999Z is before the beginning: 1970-01-01T00:00:05.000Z"),
        (9_001, "1970-01-01T00:00:09.001Z is after the end: 1970-01-01T00:00:09.000Z"),
        (20_001, "1970-01-01T00:00:20.001Z is in the future"),
    ):
        with pytest.raises(MomentError) as refusal:
            checked_in(at_ms, 5_000, 9_000, 20_000)
        assert str(refusal.value) == why
