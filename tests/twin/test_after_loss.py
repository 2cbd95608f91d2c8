"""One answer to one question: what the loss of a broker does, wherever it is asked.

Headline, risk, gate, pairs and ``whatif lose`` say the same of brokers that do not answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.questions.single_loss import single_loss
from tests.asking import answered
from tests.builders import NOW_MS, Partition, a_state
from tests.examples import examples
from tests.reading import computed, conditions
from tests.streaming.test_single_loss import view_of
from tests.twin.test_gate import against
from tests.twin.test_redundancy import HARMED
from twin.declarations.table import KAFKA, NO_BROKER
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.questions import whatif
from twin.questions.contingencies import contingencies
from twin.questions.effects import counted_things
from twin.questions.gate import Reason
from twin.rules.brokers.racks import racks_of
from twin.rules.election.after_loss import LeadersAfterLoss
from twin.rules.election.next_leader import NextLeaders
from twin.rules.election.redundancy import Redundancy, Spare, has_one_replica
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.rules.replication.isr import IsrSizes
from twin.tables.state import Brokers, PartitionIndex, Partitions
from twin.totals import shard_totals

BROKERS = (1, 2, 3, 4)
FEW = (1, 2, 3)


def fell_silent(*silent: int, replicas: tuple[int, ...] = FEW, **configs: int) -> ShardState:
    """Those brokers answered 20 s ago, and are not fenced; the ISR has all replicas."""
    part = Partition(replicas=replicas)
    state = a_state(part, brokers=FEW, **configs)
    quiet = Partition(replicas=replicas, silent=silent)
    return a_state(quiet, brokers=FEW, silent=silent, since=state, at_ms=NOW_MS + 20_000, **configs)


def harmed(state: ShardState) -> dict[int, int]:
    totals = shard_totals(state)[HARMED]
    return {int(broker): int(n) for (broker,), n in totals.items() if n}


# ---------------------------------------------------------------- single states


@pytest.mark.parametrize(
    ("silent", "replicas"), [((2, 3), FEW), ((2,), (1, 2))], ids=["RF 3", "RF 2"]
)
def test_the_last_replica_that_answers_cannot_be_lost_whoever_is_asked(silent, replicas):
    state = fell_silent(*silent, replicas=replicas)
    answer = single_loss(view_of(state), ())
    assert "You can lose any one broker" not in answer["sentence"]
    assert (answer["cannot_be_lost"], answer["silent"]) == ([1], list(silent))
    assert "no_clean_successor" in conditions(state)
    assert whatif.lose(state, [1]).offline.tolist() == [True]
    assert Reason.OFFLINE in against(state, [1])
    assert answered("lose", state, broker=[1]).data["offline"] == 1
    counts = computed(state, "kafka_twin_broker_loss_partitions")
    assert counts[KAFKA, "none", "none"].broker.tolist() == [1]


def test_without_one_of_two_that_answer_a_partition_is_under_min_isr_whoever_is_asked():
    state = fell_silent(2, min_insync_replicas=2)
    assert harmed(state) == {1: 1, 3: 1}
    assert single_loss(view_of(state), ())["can_be_lost"] == [2]
    for broker, expected in ((1, 1), (2, 0), (3, 1)):
        assert answered("lose", state, broker=[broker]).data["under_min_isr"] == expected
        assert (Reason.UNDER_MIN_ISR in against(state, [broker])) == bool(expected)
    under = computed(state, "kafka_twin_broker_loss_under_min_isr_partitions")
    assert sorted(under.broker.tolist()) == [1, 3]
    racks = answered("pairs", state).data["racks"]
    assert {r["rack"]: r["under_min_isr"] for r in racks} == {"az-a": 1, "az-b": 0, "az-c": 1}


def test_the_prediction_of_the_next_election_stays_that_of_kafka():
    state = fell_silent(2)
    assert state[NextLeaders].leader.tolist() == [2]
    assert state[LeadersAfterLoss].leader.tolist() == [3]


def test_a_silent_broker_that_may_be_lost_is_no_reason_to_call_the_others_unsafe():
    state = fell_silent(3)
    assert harmed(state) == {}
    assert conditions(state) == set()


def test_the_next_leader_refuses_acks_all_by_its_own_minimum_whoever_is_asked():
    """Topics without a minimum of their own have that of the broker that leads."""
    inherits = {"t": {"min_insync_replicas": 1, "min_isr_inherited": 1}}
    for own, is_short in (({1: 1, 2: 3, 3: 3}, True), ({1: 3, 2: 1, 3: 1}, False)):
        state = a_state(
            Partition(), brokers=FEW, topics=inherits, own_settings={"default_min_isr": own}
        )
        assert whatif.lose(state, [1]).under_min_isr.tolist() == [is_short]
        assert bool({Reason.UNDER_MIN_ISR, Reason.NO_SPARE_REPLICA} & {*against(state, [1])}) == (
            is_short
        )
        assert (1 in harmed(state)) == is_short
        assert (1 in single_loss(view_of(state), ())["cannot_be_lost"]) == is_short


# ---------------------------------------------------------------- any state


@st.composite
def partitions(draw: Any, number: int) -> Partition:
    replicas = tuple(draw(st.permutations(BROKERS))[: draw(st.integers(1, 4))])
    isr = tuple(b for b in replicas if draw(st.booleans()))
    outside = tuple(b for b in replicas if b not in isr)
    leader = draw(st.sampled_from([*isr, *isr, NO_BROKER])) if isr else NO_BROKER
    return Partition(
        topic=f"t{number}",
        replicas=replicas,
        isr=isr,
        elr=tuple(b for b in outside if draw(st.booleans())),
        last_known=outside[:1] if not isr and draw(st.booleans()) else (),
        offline=tuple(b for b in outside if draw(st.booleans())),
        adding=tuple(b for b in replicas[1:] if draw(st.integers(0, 4)) == 0),
        leader=leader,
    )


@st.composite
def several_partitions(draw: Any) -> list[Partition]:
    return [draw(partitions(number)) for number in range(draw(st.integers(1, 6)))]


SOME = st.sets(st.sampled_from(BROKERS), max_size=2)
FLAG = st.integers(0, 1)


@examples(2_000)
@given(
    parts=several_partitions(),
    fenced=SOME,
    silent=SOME,
    configs=st.fixed_dictionaries(
        {
            "min_insync_replicas": st.integers(1, 3),
            "unclean_leader_election": FLAG,
            "elr_enabled": FLAG,
        }
    ),
    minima=st.none() | st.tuples(*[st.integers(1, 3)] * len(BROKERS)),
)
def test_headline_risk_gate_pairs_and_whatif_lose_agree_about_any_state(
    parts: list[Partition], fenced: set[int], silent: set[int], configs: dict[str, int],
    minima: tuple[int, ...] | None,
):  # fmt: skip
    """``minima`` are min.insync.replicas of brokers, which half of the topics inherit."""
    inherits = {part.topic: {"min_isr_inherited": 1} for part in parts[::2]}
    own = {"default_min_isr": dict(zip(BROKERS, minima or (), strict=False))}
    state = a_state(
        *parts, brokers=BROKERS, fenced=[*fenced], silent=[*silent],
        topics=inherits if minima else None, own_settings=own if minima else None, **configs,
    )  # fmt: skip
    brokers = state[Brokers]
    ids = brokers.broker
    found = contingencies([state], ids, racks_of(brokers, ids)).broker
    things = counted_things(state.catalog.election_rules)
    headline = harmed(state)
    for place, broker in enumerate(ids.tolist()):
        loss = whatif.lose(state, [broker])
        assert headline.get(broker, 0) == by_lose(state, loss, broker), broker
        for name, count in (("offline", loss.offline), ("under_min_isr", loss.under_min_isr)):
            assert found[things.index((KAFKA, name)), place] == count.sum(), (broker, name)
        if brokers.fenced[place] == 1:
            continue  # it is out already: its restart costs nothing
        reasons = against(state, [broker])
        leads = state[Partitions].leader[loss.row] == broker
        offline = {*reasons.get(Reason.OFFLINE, ())} | one_replica(reasons)
        assert names(state, loss.row[leads & loss.offline]) <= offline
        assert {*reasons.get(Reason.OFFLINE, ())} <= names(state, loss.row[leads & loss.offline])
        short = {*reasons.get(Reason.UNDER_MIN_ISR, ()), *reasons.get(Reason.NO_SPARE_REPLICA, ())}
        assert short <= names(state, loss.row[loss.under_min_isr]) <= short | one_replica(reasons)
    for row in range(state.partitions):
        leader = int(state[Partitions].leader[row])
        assert ("no_clean_successor" in conditions(state, row)) == (
            leader != NO_BROKER and has_no_successor(state, row, leader)
        )


def by_lose(state: ShardState, loss: whatif.Loss, broker: int) -> int:
    """The partitions that the loss harms, of those whose replication can prevent that."""
    row, redundancy = loss.row, state[Redundancy]
    leads = state[Partitions].leader[row] == broker
    unsafe = leads & (loss.kafka.outcome >= Outcome.LAST_KNOWN) & ~has_one_replica(redundancy)[row]
    is_spare = redundancy.redundancy[row] == Spare.SPARE
    was_enough = (state[IsrSizes].size >= state[LeaderMinIsr].min_isr)[row]
    return int((unsafe | (is_spare & was_enough & loss.under_min_isr)).sum())


def has_no_successor(state: ShardState, row: int, leader: int) -> bool:
    loss = whatif.lose(state, [leader])
    outcome = loss.kafka.outcome[loss.row == row]
    return bool(state[IsrSizes].expected[row] > 1 and (outcome >= Outcome.LAST_KNOWN).all())


def one_replica(reasons: Any) -> set[str]:
    return {*reasons.get(Reason.ONE_REPLICA, ()), *reasons.get(Reason.ONE_REPLICA_ACCEPTED, ())}


def names(state: ShardState, row: np.ndarray) -> set[str]:
    topics, numbers = state.topic_names(), state[PartitionIndex].partition
    return {f"{topics[i]}-{numbers[i]}" for i in row.tolist()}
