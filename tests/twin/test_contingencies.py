"""Pairs of brokers and racks: each number is that of losing them, computed one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.asking import answered
from tests.builders import Partition, a_state
from tests.examples import examples
from tests.simulator.shard import Shape
from tests.twin.test_gate import quorum, simulated
from twin.declarations.table import KAFKA, NO_BROKER
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.questions import whatif
from twin.questions.contingencies import Contingencies, contingencies, rack_losses
from twin.questions.effects import counted_things
from twin.rules.brokers.racks import rack_names, racks_of
from twin.rules.tiering.coverage import Coverage
from twin.tables.state import Brokers, Partitions

OUTSIDE = (Outcome.ELR, Outcome.LAST_KNOWN, Outcome.UNCLEAN)
BROKERS = 6


def by_lose(state: ShardState, lost: Sequence[int]) -> dict[tuple[str, str], int]:
    """The answer of ``lose`` about those brokers, but for records of unknown number."""
    loss = whatif.lose(state, lost)
    loses = np.isin(state[Partitions].leader[loss.row], lost)
    records = whatif.successor_costs(state, loss, np.arange(len(loss.row))).records_lost
    counts = {
        (KAFKA, "under_min_isr"): loss.under_min_isr.sum(),
        (KAFKA, "records_lost"): np.maximum(records[loses], 0).sum(),
    }
    for rule, following in loss.next_leaders.items():
        counts |= {
            (rule, "offline"): (following.leader == NO_BROKER).sum(),
            (rule, "outside_isr"): (loses & np.isin(following.outcome, OUTSIDE)).sum(),
            (rule, "cold"): (loses & (following.coverage == Coverage.COLD)).sum(),
        }
    return {thing: int(count) for thing, count in counts.items()}


def judged(state: ShardState) -> tuple[Contingencies, np.ndarray, np.ndarray]:
    brokers = state[Brokers]
    ids = np.sort(brokers.broker)
    rack = racks_of(brokers, ids)
    return contingencies([state], ids, rack), ids, rack


@examples(2_000)
@given(
    seed=st.integers(0, 10**6),
    lost=st.sets(st.integers(1, BROKERS), max_size=2),
    replication=st.integers(1, 4),
    data=st.data(),
)
def test_each_loss_of_several_is_that_of_losing_them_one_by_one(seed, lost, replication, data):
    shape = Shape(topics=2, partitions=4, replication=replication, brokers=BROKERS, cold_share=0.3)
    state = simulated(seed, lost, shape)
    found, ids, rack = judged(state)
    things = counted_things(state.catalog.election_rules)

    def agrees(numbers: np.ndarray, gone: Sequence[int]) -> None:
        counts = dict(zip(things, numbers.tolist(), strict=True))
        expected = by_lose(state, gone)
        assert {thing: counts[thing] for thing in expected} == expected, gone

    one, other = sorted(data.draw(st.sets(st.integers(0, BROKERS - 1), min_size=2, max_size=2)))
    agrees(found.broker[:, one], [ids[one]])
    agrees(found.pairs(one, other), [ids[one], ids[other]])
    agrees(found.rack[:, rack[one]], ids[rack == rack[one]])
    np.testing.assert_array_equal(rack_losses([state], ids, rack), found.rack)
    if rack[one] != rack[other]:
        gone = [*ids[rack == rack[one]], ids[other]]
        agrees(found.racks_and_one(rack[one], other), gone)


def test_shards_add_up():
    state = simulated(7, {2}, Shape(topics=4, partitions=6, brokers=BROKERS))
    rows = np.arange(state.partitions)
    whole = answered("pairs", state).data
    assert answered("pairs", *(state.take(rows[n::3]) for n in range(3))).data == whole
    assert whole["pairs_total"] == BROKERS * (BROKERS - 1) // 2
    assert whole["racks_total"] == len(rack_names(state[Brokers]))


@pytest.mark.parametrize(
    ("parts", "offline", "together"),
    [
        ((Partition(replicas=(1, 2)),), 1, 1),
        ((Partition(replicas=(1,)), Partition(number=1, replicas=(2,))), 2, 0),
        ((Partition(replicas=(1, 2, 3)),), 0, 0),
        ((Partition(replicas=(3,)), Partition(number=1, replicas=(1, 2))), 1, 1),
    ],
)
def test_a_pair_says_what_neither_broker_takes_offline_alone(parts, offline, together):
    pairs = answered("pairs", a_state(*parts, brokers=(1, 2, 3))).data["pairs"]
    [pair] = [each for each in pairs if each["brokers"] == [1, 2]]
    assert pair["by_rule"]["kafka"]["offline"] == offline
    assert pair["offline_together"] == together


def test_a_pair_that_takes_the_quorum_is_said_to_leave_nobody_who_elects():
    state = a_state(Partition(), brokers=(1, 2, 3, 4)).with_tables(quorum(0, 0, 0))
    answer = answered("pairs", state)
    elects = {tuple(loss["brokers"]): loss["elects"] for loss in answer.data["pairs"]}
    assert elects[1, 2] is False
    assert elects[1, 4] is True
    assert "brokers 1, 2 (no quorum)" in [row[0] for row in answer.rows]


def test_a_broker_without_a_rack_is_in_no_rack():
    answer = answered("pairs", a_state(Partition(replicas=(1, 2)), brokers=(1, 2), has_racks=False))
    assert (answer.data["racks"], answer.data["racks_and_one"]) == ([], [])
    assert answer.lines[0].endswith("alone: 1 of 1.")


def test_the_worst_are_listed_first_and_no_more_than_asked_for():
    parts = (Partition(replicas=(2, 3)), Partition(number=1, replicas=(2, 3)),
             Partition(number=2, replicas=(1, 3)))  # fmt: skip
    data = answered("pairs", a_state(*parts, brokers=(1, 2, 3, 4)), limit=2).data
    assert [loss["brokers"] for loss in data["pairs"]] == [[2, 3], [1, 3]]
    assert (data["pairs_total"], data["pairs_offline"]) == (6, 2)
