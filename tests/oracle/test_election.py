"""The twin elects whom Kafka's own controller class elects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.ballots import warm_first
from tests.builders import Log, Partition, a_state
from tests.oracle import cases
from tests.oracle.cases import Case
from tests.oracle.oracle import Oracle
from twin.declarations.table import NO_BROKER
from twin.engine.shard_state import ShardState
from twin.kafka.election import ElectionKind, ElectionState, Outcome, elect
from twin.rules.election.next_leader import NextLeaders

COUNT = 20_000
SEED = 1303
MIB = 1 << 20


@pytest.fixture(scope="module", params=["election", "election_kip1303"])
def asked(request: pytest.FixtureRequest, oracle: Oracle) -> tuple[list[Case], list[Case]]:
    """Cases and what Kafka answers, for Kafka's rule and for KIP-1303's."""
    questions = cases.elections(COUNT, SEED, request.param)
    return questions, oracle.ask(questions)


def test_kafka_answers_every_case(asked: tuple[list[Case], list[Case]]) -> None:
    questions, answers = asked
    assert [a["id"] for a in answers] == list(range(COUNT))
    assert not any(cases.has_a_non_replica_in_its_isr(q) for q in questions if not q["wild"])
    assert [a["error"] for a in answers if "error" in a] == []
    # The election that is asked for apart is the one the controller's own change makes.
    assert all(a["electInBuild"]["node"] == a["after"]["leader"] for a in answers)


def test_cases_reach_every_outcome_and_leave_no_set_out(
    asked: tuple[list[Case], list[Case]],
) -> None:
    questions, answers = asked
    columns = cases.columns(questions, answers)
    _, outcome = elected(questions, columns)
    assert set(outcome.tolist()) == set(map(int, Outcome))
    assert len(np.unique(columns.broker)) == len(cases.BROKERS) + 1
    assert (columns.broker != NO_BROKER).sum(axis=1).max() == cases.MOST_REPLICAS


@pytest.mark.parametrize("answer", ["elect", "electInBuild"])
def test_the_twin_elects_whom_kafka_elects(
    asked: tuple[list[Case], list[Case]], answer: str
) -> None:
    """On the sets as given and on those the controller arrives at.

    Even in states no controller holds, as long as only replicas are in the ISR: the rule relies on
    nothing else.
    """
    questions, answers = asked
    columns = cases.columns(questions, answers if answer == "electInBuild" else None)
    leader, outcome = elected(questions, columns)
    unclean = np.isin(outcome, [Outcome.LAST_KNOWN, Outcome.UNCLEAN])
    different = [
        (question, expected[answer], int(leader[row]), Outcome(outcome[row]).name)
        for row, (question, expected) in enumerate(zip(questions, answers, strict=True))
        if not cases.has_a_non_replica_in_its_isr(question)
        and (expected[answer]["node"], expected[answer]["unclean"]) != (leader[row], unclean[row])
    ]
    assert different[:3] == []


def elected(questions: Sequence[Case], columns: cases.Columns) -> tuple[np.ndarray, np.ndarray]:
    """[cases] whom the twin elects and with what outcome; each kind of election in one call."""
    leader = np.full(len(questions), NO_BROKER, np.int32)
    outcome = np.full(len(questions), Outcome.NONE, np.int8)
    held = np.array([ElectionKind[question["election"]] for question in questions])
    by_kip1303 = questions[0]["kind"] == "election_kip1303"
    for kind in ElectionKind:
        row = np.flatnonzero(held == kind)
        state = ElectionState(
            columns.broker[row],
            columns.acceptable[row],
            columns.in_isr[row],
            columns.in_elr[row],
            columns.leader[row],
            columns.last_known_leader[row],
        )
        preference = warm_first(columns.eligible[row]) if by_kip1303 else None
        leader[row], outcome[row] = elect(state, kind, preference)
    return leader, outcome


# The loss of each leader, from the state's own columns


@pytest.mark.parametrize("elr_enabled", [True, False])
def test_the_twin_predicts_what_kafka_does_when_a_leader_is_lost(
    oracle: Oracle, elr_enabled: bool
) -> None:
    questions = cases.losses(3_000, SEED, elr_enabled=elr_enabled)
    state = state_of(questions, elr_enabled)
    assert state.topic_names().tolist() == [topic_of(question) for question in questions]
    by_kip1303 = [{**q, "kind": "election_kip1303"} for q in questions]
    for following, asked in (
        (state[NextLeaders], questions),
        (state[NextLeaders.under("kip1303")], by_kip1303),
    ):
        rule, answers = following.kind, oracle.ask(asked)
        leader, outcome = following.leader, following.outcome
        unclean = np.isin(outcome, [Outcome.LAST_KNOWN, Outcome.UNCLEAN])
        different = [
            (rule, question, answer, int(leader[i]), Outcome(outcome[i]).name)
            for i, (question, answer) in enumerate(zip(questions, answers, strict=True))
            if answer["electInBuild"] != {"node": leader[i], "unclean": bool(unclean[i])}
        ]
        assert different[:3] == []


def state_of(questions: Sequence[Case], elr_enabled: bool) -> ShardState:
    """A state with one topic a case; who may not lead is on a failed disk."""
    partitions, topics = [], {}
    for question in questions:
        partition, topic = question["partition"], topic_of(question)
        replicas = partition["replicas"]
        partitions.append(
            Partition(
                topic=topic,
                replicas=tuple(replicas),
                isr=tuple(partition["isr"]),
                elr=tuple(partition["elr"]),
                last_known=tuple(partition["lastKnownElr"]),
                leader=partition["leader"],
                offline=tuple(
                    r
                    for r in replicas
                    if r not in question["acceptable"] and r != partition["leader"]
                ),
                logs={r: Log(size_bytes=2 * MIB) for r in question["eligible"]},
                log=Log(size_bytes=MIB - 1),
            )
        )
        topics[topic] = {
            "min_insync_replicas": question["minIsr"],
            "unclean_leader_election": int(question["election"] == "UNCLEAN"),
        }
    return a_state(
        *partitions,
        topics=topics,
        brokers=cases.BROKERS,
        elr_enabled=int(elr_enabled),
        eligible_local_log_bytes=MIB,
    )


def topic_of(question: Case) -> str:
    return f"t{question['id']:05}"  # the state sorts by name, so rows are in the order of cases
