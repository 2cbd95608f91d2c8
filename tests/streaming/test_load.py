"""What survivors would carry, as it is asked and as it is read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streaming.questions.answer import NotThereError
from streaming.questions.gate.restart import judge
from tests.asking import a_view, answered
from tests.builders import Partition, a_state
from tests.twin.test_gate import quorum
from tests.twin.test_load import written
from twin.engine.shard_state import ShardState
from twin.plans.roll import roll
from twin.questions.gate import Names, Reason, Terms, reasons
from twin.tables.state import Brokers

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


# ---------------------------------------------------------------- the gate


def limited(capacity: int) -> ShardState:
    """Broker 3 takes 2 048 B/s if one of the others is out, and 3 072 B/s without both."""
    rates = [((1, 3), 1_024), ((2, 3), 1_024), ((3, 1), 1_024)]
    return written(rates, capacity={3: (capacity, -1)}).with_tables(quorum(0, 0, 0))


def against(state: ShardState, *together: int) -> Names:
    return {
        reason: names
        for reason, names in reasons([state], together, Terms()).items()
        if reason is Reason.OVER_CAPACITY
    }


def test_the_gate_names_survivors_above_their_capacity():
    assert against(limited(2_048), 1) == {}
    above = {Reason.OVER_CAPACITY: ["broker 3 (200 % of its capacity)"]}
    assert against(limited(1_024), 1) == above
    assert against(limited(2_048), 1, 2) == {
        Reason.OVER_CAPACITY: ["broker 3 (150 % of its capacity)"]
    }
    answer = judge(a_view(limited(1_024)), [1], Terms(), 0)
    [line] = [line for line in answer.lines() if "capacity" in line]
    assert line == (
        "  brokers would carry more than their capacity: broker 3 (200 % of its capacity) "
        "(to allow it: --allow-over-capacity)"
    )


@pytest.mark.parametrize(
    ("capacity", "batches", "left_out"),
    [(3_072, [(2, 1)], []), (2_048, [(2,), (1,)], []), (1_024, [], [1, 2])],
)
def test_a_rolling_restart_makes_batches_that_the_others_can_carry(capacity, batches, left_out):
    allowed = Terms(allowed=frozenset(set(Reason) - {Reason.OVER_CAPACITY}))
    state = limited(capacity)
    brokers = state[Brokers]
    together = state.with_tables(replace(brokers, rack=np.array(["az-a", "az-a", "az-b"], object)))
    plan = roll([together], [1, 2], allowed, by_rack=True)
    assert [batch.brokers for batch in plan.batches] == batches
    assert [each.broker for each in plan.left_out] == left_out
