"""The twin sends a consumer where Kafka's own selector sends it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.oracle.oracle import Case, Oracle
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.rules.reading.selection import ReplicaViews, select

COUNT = 6_000
SEED = 392
RACKS = ("az-a", "az-b", "az-c")
WIDTH = 5


def cases() -> list[Case]:
    """Partitions with ties in every key the selector sorts by, and clients of any rack or none."""
    rng = random.Random(SEED)
    made = []
    for number in range(COUNT):
        brokers = rng.sample(range(1, 12), rng.randint(1, WIDTH))
        leader = rng.choice(brokers)
        made.append(
            {
                "id": number,
                "kind": "selector",
                "leader": leader,
                "rack": rng.choice([*RACKS, "az-unknown", ""]),
                "replicas": [
                    {
                        "broker": broker,
                        "end": rng.randint(10, 13),
                        "sinceCaughtUpMs": 0 if broker == leader else rng.choice([0, 5, 9]),
                    }
                    | ({"rack": rng.choice(RACKS)} if rng.random() < 0.9 else {})
                    for broker in brokers
                ],
            }
        )
    return made


def as_views(questions: list[Case]) -> tuple[ReplicaViews, np.ndarray, np.ndarray]:
    """The same as arrays, in slots of a shuffled order: the order must not matter."""
    rng = random.Random(SEED + 1)
    shape = (len(questions), WIDTH)
    broker, rack = np.full(shape, NO_BROKER), np.full(shape, UNKNOWN)
    end, since = np.full(shape, UNKNOWN), np.zeros(shape, np.int64)
    is_leader = np.zeros(shape, bool)
    for i, question in enumerate(questions):
        slots = rng.sample(range(WIDTH), len(question["replicas"]))
        for slot, replica in zip(slots, question["replicas"], strict=True):
            broker[i, slot], end[i, slot] = replica["broker"], replica["end"]
            since[i, slot] = replica["sinceCaughtUpMs"]
            rack[i, slot] = RACKS.index(replica["rack"]) if "rack" in replica else UNKNOWN
            is_leader[i, slot] = replica["broker"] == question["leader"]
    client = [RACKS.index(q["rack"]) if q["rack"] in RACKS else UNKNOWN for q in questions]
    return ReplicaViews(broker, rack, end, since, is_leader), broker != NO_BROKER, np.array(client)


@pytest.fixture(scope="module")
def asked(oracle: Oracle) -> tuple[list[Case], list[Case]]:
    questions = cases()
    return questions, oracle.ask(questions)


def test_the_twin_selects_the_replica_that_kafka_selects(
    asked: tuple[list[Case], list[Case]],
) -> None:
    questions, answers = asked
    views, candidates, rack = as_views(questions)
    selected = select(views, candidates, rack)
    assert selected.tolist() == [answer["selected"] for answer in answers]


def test_cases_reach_leaders_followers_and_ties(asked: tuple[list[Case], list[Case]]) -> None:
    questions, answers = asked
    leaders = sum(q["leader"] == a["selected"] for q, a in zip(questions, answers, strict=True))
    assert COUNT - leaders > COUNT / 10
    tied = 0
    for question, answer in zip(questions, answers, strict=True):
        near = [r for r in question["replicas"] if r.get("rack") == question["rack"]]
        best = [r for r in near if r["broker"] == answer["selected"]]
        tied += (
            bool(best)
            and sum(
                (r["end"], r["sinceCaughtUpMs"]) == (best[0]["end"], best[0]["sinceCaughtUpMs"])
                for r in near
            )
            > 1
        )
    assert tied > COUNT / 100
