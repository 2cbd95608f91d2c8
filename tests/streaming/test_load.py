"""What survivors would carry, as it is asked and as it is read."""

from __future__ import annotations

import pytest

from streaming.questions.answer import NotThereError
from tests.asking import answered
from tests.builders import Partition, a_state
from tests.twin.test_load import written

TWO = [((1, 2, 3), 1_024), ((2, 1, 3), 512)]


def test_each_broker_is_lost_in_turn_and_the_largest_growth_comes_first():
    answer = answered("load", written(TWO, read=[0]))
    assert answer.lines[:3] == [
        "Largest growth of leaders: broker 2 from 1 to 2, if broker 1 is lost.",
        "Largest growth of bytes in: broker 2 from 512 B/s to 1.5 KiB/s, if broker 1 is lost.",
        "Largest growth of bytes out: broker 2 from 0 B/s to 1 KiB/s, if broker 1 is lost.",
    ]
    assert answer.lines[3].endswith("sizes of records: 1, 2, 3.")
    assert answer.rows[0] == (
        "1", 2, "1 → 2", "512 B → 1.5 KiB", "0 B → 1 KiB", "1 KiB → 0 B", "1 KiB → 1.5 KiB",
        "0 B", "-",
    )  # fmt: skip
    assert answer.total == len(answer.data["loads"])


def test_brokers_that_are_named_are_lost_at_once():
    data = answered("load", written(TWO), broker=[1, 2]).data
    [load] = data["loads"]
    assert (load["lost"], load["broker"]) == ([1, 2], 3)
    assert load["then"]["kafka"]["bytes_in_per_s"] == {"value": 1_536, "unknown": 0}
    assert set(load["then"]) == {"kafka", "kip1303", "kip501"}


def test_what_is_unknown_is_marked_and_never_zero():
    answer = answered("load", written(TWO, new=[(3, 2, 1)]), broker=[3])
    now = {each["broker"]: each["now"]["bytes_in_per_s"] for each in answer.data["brokers"]}
    assert now[3] == {"value": None, "unknown": 1}
    then = {each["broker"]: each["then"]["kafka"] for each in answer.data["loads"]}
    assert then[2]["bytes_in_per_s"] == {"value": 512, "unknown": 1}
    [row] = [row for row in answer.rows if row[1] == 2]
    assert row[3] == "512 B → ≥ 512 B"
    assert answer.lines[-1].startswith("≥ marks sums")


def test_it_says_which_brokers_measure_their_rates():
    metrics = {1: {"bytes_in_per_s": 2_048.0}}
    answer = answered("load", written(TWO, metrics=metrics))
    assert answer.data["brokers"][0]["measured"] == ["bytes_in_per_s"]
    assert "Rates as brokers measure them (JMX): 1." in answer.lines
    assert answer.data["largest"]["bytes_in_per_s"]["then"]["value"] == 2_560


def test_a_survivor_above_its_capacity_comes_first():
    limits = {1: (1_535, -1), 2: (1_536, -1)}
    answer = answered("load", written(TWO, capacity=limits))
    first, second, *_ = answer.data["loads"]
    assert (first["broker"], first["above_capacity"]) == (1, True)
    assert (second["broker"], second["above_capacity"]) == (2, False)
    assert answer.data["above_capacity"] == 1
    assert "1 survivor would carry more than the capacity." in answer.lines


def test_a_broker_that_does_not_exist_is_one_line():
    with pytest.raises(NotThereError, match="there is no broker 9"):
        answered("load", a_state(Partition()), broker=[9])


def test_a_cluster_without_partitions_has_no_losses_that_change_anything():
    answer = answered("load", written([]))
    assert (answer.total, answer.data["largest"]) == (0, {})
