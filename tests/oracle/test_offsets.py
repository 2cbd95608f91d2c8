"""The collector reads from a log's answers what the log knows of its remote storage."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from streaming.collector.sources.offsets import pending_upload_is
from tests.oracle.oracle import Case, Oracle
from twin.declarations.table import UNKNOWN
from twin.tables.enums import PendingUpload

COUNT = 4_000
SEED = 1023
LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = "-1", "-2", "-4", "-5", "-6"


def a_log(number: int) -> Case:
    """A log in any state of its uploads; many of its offsets coincide, as the edges are there."""
    rng = random.Random(SEED * COUNT + number)
    end = rng.choice([0, 1, 5, 40])
    remote = rng.random() < 0.9
    local = rng.randint(0, end) if rng.random() < 0.7 else end
    start = rng.randint(0, local) if remote and rng.random() < 0.7 else local
    tiered = rng.choice([UNKNOWN, end - 1, local - 1, start - 1, rng.randint(UNKNOWN, end - 1)])
    return {
        "id": number,
        "kind": "offsets",
        "remote": remote,
        "logStart": start,
        "localStart": local,
        "logEnd": end,
        "lastTiered": max(tiered, UNKNOWN) if remote else UNKNOWN,
    }


@pytest.fixture(scope="module")
def asked(oracle: Oracle) -> tuple[list[Case], list[Case]]:
    questions = [a_log(number) for number in range(COUNT)]
    return questions, oracle.ask(questions)


def as_answered(question: Case, answer: Case) -> dict[str, int]:
    """The answers of ListOffsets to replica -2, which may fetch up to the log end.

    Source: ReplicaManager.fetchOffset hides an offset that cannot be fetched yet, except for the
    three timestamps that do not depend on remote storage.
    """
    end = question["logEnd"]
    return {
        kind: UNKNOWN
        if kind in (LATEST_TIERED, PENDING_UPLOAD) and answer[kind] >= end
        else answer[kind]
        for kind in (LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD)
    }


def meaning(question: Case, answer: Case) -> PendingUpload:
    """The knowledge of the log, from its state and the answer before anything was hidden."""
    if answer[PENDING_UPLOAD] != UNKNOWN:
        if answer[PENDING_UPLOAD] < question["logEnd"]:
            return PendingUpload.KNOWN
        tiers = question["lastTiered"] != UNKNOWN
        return PendingUpload.ALL_TIERED if tiers else PendingUpload.NOTHING_TIERED
    return PendingUpload.LEARNING if question["remote"] else PendingUpload.NOTHING_TIERED


def test_a_log_answers_with_the_offsets_it_has(asked: tuple[list[Case], list[Case]]) -> None:
    for question, answer in zip(*asked, strict=True):
        assert answer[LATEST] == question["logEnd"]
        assert answer[EARLIEST] == question["logStart"]
        assert answer[EARLIEST_LOCAL] == question["localStart"]
        assert answer[LATEST_TIERED] == question["lastTiered"]


def test_why_a_pending_upload_offset_is_missing_is_what_the_log_knew(
    asked: tuple[list[Case], list[Case]],
) -> None:
    questions, answers = asked
    answered = [as_answered(q, a) for q, a in zip(questions, answers, strict=True)]
    column = {kind: np.array([answer[kind] for answer in answered]) for kind in answered[0]}
    read = pending_upload_is(
        answered=np.ones(COUNT, bool),
        tiered_answered=np.ones(COUNT, bool),
        pending=column[PENDING_UPLOAD],
        last_tiered=column[LATEST_TIERED],
        log_start=column[EARLIEST],
        local_start=column[EARLIEST_LOCAL],
        log_end=column[LATEST],
    )
    means = [meaning(q, a) for q, a in zip(questions, answers, strict=True)]
    different = [
        (question, answer, PendingUpload(one).name, other.name)
        for question, answer, one, other in zip(questions, answers, read, means, strict=True)
        if one != other
    ]
    assert different[:3] == []
    reached = Counter(means)
    assert reached.keys() == set(PendingUpload) - {PendingUpload.ABSENT}
    assert min(reached.values()) > COUNT / 50
