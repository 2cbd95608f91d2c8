"""The twin keeps the state that Kafka's own leader keeps of a follower."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.kafka_log import reset_replica_state
from tests.oracle.oracle import Case, Oracle
from twin.declarations.table import Int64
from twin.kafka.follower_state import (
    ReplicaState,
    is_caught_up,
    update_fetch_state,
)

COUNT = 3_000
STEPS = 12
SEED = 501


def a_history(number: int) -> Case:
    """A follower that fetches from a leader whose log grows, with elections now and then."""
    rng = random.Random(SEED * COUNT + number)
    at_ms, leader_end, follower, start = rng.randint(0, 5_000), rng.randint(0, 20), 0, 0
    steps = []
    for _ in range(STEPS):
        at_ms += rng.choice([0, 1, 50, 500, 1_000, 20_000])
        leader_end += rng.choice([0, 0, 1, 3, 10])
        step: Case = {"atMs": at_ms, "leaderEnd": leader_end}
        if rng.random() < 0.85:
            follower = max(0, min(leader_end, follower + rng.choice([0, 1, 5, 100, -2])))
            if rng.random() < 0.05:
                follower = leader_end + rng.randint(1, 3)  # ahead of a new leader
            start = min(follower, start + rng.choice([0, 0, 1]))
            step |= {"offset": follower, "start": start}
        else:
            step |= {"newLeader": rng.random() < 0.6, "inIsr": rng.random() < 0.5}
        lag_max_ms = rng.choice([0, 100, 1_000, 30_000])
        step["check"] = {
            "leaderEnd": leader_end + rng.choice([0, 0, 1, 5]),
            "nowMs": at_ms + rng.choice([0, 1, lag_max_ms, lag_max_ms + 1]),
            "lagMaxMs": lag_max_ms,
        }
        steps.append(step)
    return {"id": number, "kind": "follower_state", "steps": steps}


@pytest.fixture(scope="module")
def asked(oracle: Oracle) -> tuple[list[Case], list[Case]]:
    questions = [a_history(number) for number in range(COUNT)]
    return questions, oracle.ask(questions)


def test_every_step_leaves_the_state_that_kafka_keeps(
    asked: tuple[list[Case], list[Case]],
) -> None:
    questions, answers = asked
    assert [a["error"] for a in answers if "error" in a] == []
    state = ReplicaState.blank(COUNT)
    caught_up = 0
    for number in range(STEPS):
        steps = [question["steps"][number] for question in questions]
        state = after(state, steps)
        expected = [answer["steps"][number] for answer in answers]
        for name, column in (
            ("start", state.log_start_offset),
            ("end", state.log_end_offset),
            ("leaderEnd", state.last_fetch_leader_end_offset),
            ("lastFetchAtMs", state.last_fetch_at_ms),
            ("caughtUpAtMs", state.caught_up_at_ms),
        ):
            assert column.tolist() == [one[name] for one in expected], (number, name)
        checks = [step["check"] for step in steps]
        verdict = is_caught_up(
            state, *(numbers(checks, name) for name in ("leaderEnd", "nowMs", "lagMaxMs"))
        )
        assert verdict.tolist() == [one["caughtUp"] for one in expected]
        caught_up += int(verdict.sum())
    assert COUNT * STEPS / 10 < caught_up < COUNT * STEPS * 9 / 10


def after(state: ReplicaState, steps: list[Case]) -> ReplicaState:
    """All histories one step on: some fetch, some elect a leader."""
    is_election = np.array(["newLeader" in step for step in steps])
    at_ms, leader_end = numbers(steps, "atMs"), numbers(steps, "leaderEnd")
    fetched = update_fetch_state(
        state, numbers(steps, "offset"), numbers(steps, "start"), at_ms, leader_end
    )
    is_new, in_isr = (numbers(steps, name).astype(bool) for name in ("newLeader", "inIsr"))
    elected = reset_replica_state(state, at_ms, leader_end, is_new, in_isr)
    return elected.where(is_election, fetched)


def numbers(rows: list[Case], name: str) -> Int64:
    return np.array([int(row.get(name, 0)) for row in rows], np.int64)
