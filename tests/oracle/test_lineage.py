"""The twin says of epochs and remote segments what Kafka's own classes say."""

from __future__ import annotations

import random

import pytest

from tests.kafka_log import epoch_for_offset, next_uploads, segment_at, truncated_from_end
from tests.oracle import lineage_cases
from tests.oracle.oracle import Case, Oracle
from twin.declarations.table import UNKNOWN
from twin.remote_log import segment_lineage
from twin.remote_log.cache import RemoteLogMetadataCache, Segment
from twin.remote_log.epoch_history import (
    Epochs,
    assigned,
    end_offset_for,
    truncated_from_start,
    without_empty_epochs,
)
from twin.tables.enums import SegmentState

COUNT = 2_500
UPLOADS = 500  # each makes the files of a log
SEED = 405


def pairs(entries: list[list[int]]) -> Epochs:
    return tuple((epoch, offset) for epoch, offset in entries)


@pytest.fixture(scope="module")
def histories(oracle: Oracle) -> list[tuple[Case, Case]]:
    return answered(oracle, [lineage_cases.epoch_history(n, SEED) for n in range(COUNT)])


@pytest.fixture(scope="module")
def tiers(oracle: Oracle) -> list[tuple[Case, Case]]:
    return answered(oracle, [lineage_cases.tier(n, SEED) for n in range(COUNT)])


def answered(oracle: Oracle, questions: list[Case]) -> list[tuple[Case, Case]]:
    answers = oracle.ask(questions)
    assert [a["error"] for a in answers if "error" in a] == []
    return list(zip(questions, answers, strict=True))


class TestEpochs:
    def test_every_step_leaves_the_history_that_kafka_keeps(
        self, histories: list[tuple[Case, Case]]
    ) -> None:
        cut = 0
        for question, answer in histories:
            epochs: Epochs = ()
            for step, expected in zip(question["steps"], answer["steps"], strict=True):
                before = len(epochs)
                epochs = after(epochs, step)
                assert epochs == pairs(expected), question
                cut += len(epochs) < before
        assert cut > COUNT / 10

    def test_ends_and_epochs_of_offsets(self, histories: list[tuple[Case, Case]]) -> None:
        for question, answer in histories:
            epochs = pairs(answer["steps"][-1])
            ends = [list(end_offset_for(epochs, *ask)) for ask in question["ends"]]
            assert ends == answer["ends"], (epochs, question["ends"])
            epoch_of_offset = [epoch_for_offset(epochs, offset) for offset in question["of"]]
            assert epoch_of_offset == answer["of"]

    def test_epochs_without_records_are_dropped(self, oracle: Oracle) -> None:
        rng = random.Random(SEED)
        questions = []
        for number in range(COUNT):
            starts = sorted(rng.randint(0, 5) for _ in range(rng.randint(1, 6)))
            epochs = [[2 * i + rng.randint(0, 1), start] for i, start in enumerate(starts)]
            questions.append({"id": number, "kind": "epochs_filtered", "epochs": epochs})
        for question, answer in zip(questions, oracle.ask(questions), strict=True):
            kept = without_empty_epochs(pairs(question["epochs"]))
            assert kept == pairs(answer["epochs"]), question


def after(epochs: Epochs, step: list[int | str]) -> Epochs:
    match step:
        case ["assign", int(epoch), int(offset)]:
            return assigned(epochs, epoch, offset)
        case ["end", int(offset)]:
            return truncated_from_end(epochs, offset)
        case ["start", int(offset)]:
            return truncated_from_start(epochs, offset)
    raise AssertionError(step)


class TestSegments:
    def test_the_cache_holds_and_finds_what_kafkas_does(
        self, tiers: list[tuple[Case, Case]]
    ) -> None:
        refused = 0
        for question, answer in tiers:
            cache, _ = replayed(question)
            states = {str(number_of(s)): int(s.state) for s in cache.segments.values()}
            assert states == answer["states"], question
            segments = [segment_at(cache, *ask) for ask in question["at"]]
            assert [number_of(s) if s else UNKNOWN for s in segments] == answer["at"], question
            epochs = question["ofEpochs"]
            assert [cache.highest_offset(e) for e in epochs] == answer["highest"], question
            listed = [sorted(number_of(s) for s in cache.listed(e)) for e in epochs]
            assert listed == [sorted(numbers) for numbers in answer["listed"]], question
            refused += cache.refused_transitions
        assert refused > COUNT / 20

    def test_segments_belong_to_the_log_as_kafka_says(self, tiers: list[tuple[Case, Case]]) -> None:
        outside = 0
        for question, answer in tiers:
            cache, segments = replayed(question)
            epochs, log_end = pairs(question["epochs"]), question["logEnd"]
            history = without_empty_epochs(epochs)
            within = {
                str(number): segment_lineage.within_lineage(segment, log_end, history)
                for number, segment in segments.items()
            }
            assert within == answer["within"], question
            outside += sum(not ours for ours in within.values())
            remote = segment_lineage.highest_remote_offset(cache, epochs, log_end)
            assert list(remote) == answer["remoteEnd"], question
            start = segment_lineage.remote_log_start(cache, epochs, question["localStart"])
            assert start == answer["logStart"], question
        assert outside > COUNT


class TestUploads:
    def test_a_new_leader_copies_what_kafkas_task_would(self, oracle: Oracle) -> None:
        questions = [lineage_cases.uploads(n, SEED) for n in range(UPLOADS)]
        copied = 0
        for question, answer in answered(oracle, questions):
            uploads = next_uploads(
                question["boundaries"],
                question["highest"],
                question["lastStable"],
                question["logStart"],
            )
            assert [list(segment) for segment in uploads] == answer["uploads"], question
            copied += len(uploads) > 1
        assert copied > UPLOADS / 10


def replayed(question: Case) -> tuple[RemoteLogMetadataCache, dict[int, Segment]]:
    """The events of a case, applied by the twin."""
    segments = {
        one["segment"]: Segment(
            one["segment"].to_bytes(16, "big"), one["start"], one["end"], pairs(one["epochs"])
        )
        for one in question["segments"]
    }
    cache = RemoteLogMetadataCache()
    for number, state in question["events"]:
        if state == SegmentState.COPY_STARTED:
            cache.add(segments[number])
        else:
            cache.update(number.to_bytes(16, "big"), SegmentState(state))
    return cache, segments


def number_of(segment: Segment) -> int:
    return int.from_bytes(segment.id, "big")
