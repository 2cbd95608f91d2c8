"""The table of Kafka releases: what counts as what, and what it says is unknown. Starts nothing."""

from __future__ import annotations

from docs.pages.compatibility import Measured, table, unknown_fields
from tests.versions.numbers import Comparison

NEWEST = Measured(
    0, 9, 0, 0, 4, 4,
    ("brokers.fenced", "partitions.leader", "partitions.bootstrap.on.bytes",
     "partitions.bootstrap.on.path", "partitions.replicas.pending_upload_offset"),
)  # fmt: skip


def older(*known_fields: str, **numbers: int) -> Measured:
    """A release on which only these fields have values."""
    counted = {
        "check_exit_code": 0, "right": 9, "unknown": 0, "wrong": 0,
        "predictions": 4, "predictions_right": 4,
    }  # fmt: skip
    return Measured(**counted | numbers, known_fields=known_fields)


def test_a_number_is_right_unknown_or_wrong() -> None:
    numbers = Comparison()
    numbers.add("end of t-0", 7, 7)
    numbers.add("end of t-1", -1, 7)
    numbers.add("end of t-2", 8, 7)
    numbers.add("leader of t-3", -1, -1)
    assert (numbers.compared, numbers.right, numbers.unknown) == (4, 2, 1)
    assert numbers.wrong == ["end of t-2: the twin has 8, Kafka's tool 7"]


def test_unknown_is_what_the_newest_release_knows_and_this_one_does_not() -> None:
    measured = {"3.9.1": older("partitions.leader"), "4.10.0": NEWEST, "3.9.1 to 4.0.2": NEWEST}
    assert unknown_fields("4.10.0", measured) == []
    # An object of which nothing is known is named once.
    assert unknown_fields("3.9.1", measured) == [
        "bootstrap",
        "brokers.fenced",
        "replicas",
    ]
    some = "partitions.bootstrap.on.bytes"
    measured["3.9.1"] = older("partitions.leader", some, "partitions.replicas.local_log_bytes")
    assert unknown_fields("3.9.1", measured) == [
        "bootstrap.on.path",
        "brokers.fenced",
        "replicas.pending_upload_offset",
    ]


def test_a_release_on_which_anything_was_wrong_is_not_called_good() -> None:
    assert older().is_good
    assert older(unknown=3).is_good
    assert not older(wrong=1).is_good
    assert not older(check_exit_code=1).is_good
    assert not older(predictions_right=3).is_good


def test_the_table_has_one_row_a_release_that_is_asked_for() -> None:
    measured = {"3.9.1": older(*NEWEST.known_fields, wrong=1, check_exit_code=1), "4.10.0": NEWEST}
    assert table(measured, ["3.9.1"])[2:] == [
        "| 3.9.1 | exit code 1 | 10 | 9 | 0 | 1 | 4 of 4 | - |"
    ]
    assert len(table(measured, measured)) == 4
