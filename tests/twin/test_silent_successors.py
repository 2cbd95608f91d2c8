"""Next leaders that do not answer: named, with who leads once they are fenced."""

from __future__ import annotations

from typing import Any

import pytest

from tests.asking import partition_object
from tests.builders import NOW_MS, Partition, a_state
from tests.reading import computed
from twin.engine.shard_state import ShardState
from twin.questions import whatif
from twin.rules.brokers.brokers import SILENT_MS

BROKERS = (1, 2, 3)


def after_silence(part: Partition, silent: tuple[int, ...], ms: int, **more: Any) -> ShardState:
    """Those brokers answered at NOW_MS, and not in a cycle that many milliseconds later."""
    state = a_state(part, brokers=BROKERS, **more)
    quiet = Partition(replicas=part.replicas, isr=part.isr, silent=silent)
    return a_state(quiet, brokers=BROKERS, silent=silent, since=state, at_ms=NOW_MS + ms, **more)


def shown(state: ShardState) -> dict[str, Any] | None:
    partition = partition_object(state)
    return partition["silent_successor"]


@pytest.mark.parametrize(
    ("silent", "ms", "expected"),
    [
        ((), 60_000, None),
        ((3,), 60_000, None),  # not the next leader
        ((2,), SILENT_MS, None),  # it may have missed a cycle
        ((2,), SILENT_MS + 1, {"broker": 2, "since_ms": NOW_MS, "then": 3, "outcome": "clean"}),
        ((2, 3), 60_000, {"broker": 2, "since_ms": NOW_MS, "then": -1, "outcome": "none"}),
    ],
)
def test_a_next_leader_that_does_not_answer_is_said_with_who_follows_it(silent, ms, expected):
    state = after_silence(Partition(), silent, ms)
    assert shown(state) == expected
    count = computed(state, "kafka_twin_partitions_with_silent_successor")
    assert count == (expected is not None)


def test_a_silent_broker_leads_nothing_once_another_is_lost():
    """Kafka may elect it until it is fenced; what comes out in the end counts."""
    topics = {"t": {"unclean_leader_election": 0, "min_insync_replicas": 1}}
    for silent, leader, isr in (((), 2, 2), ((2,), 3, 1), ((2, 3), -1, 0)):
        state = after_silence(Partition(), silent, 60_000, topics=topics)
        loss = whatif.lose(state, [1])
        assert (loss.kafka.leader.tolist(), loss.isr.tolist()) == ([leader], [isr])
