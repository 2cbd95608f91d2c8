"""Prediction against reality: the leaders that the twin predicts, and those that Kafka elects.

Losses that several tests are about are played once, by a fixture of the module, which records what
was predicted and what happened; each test can run alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import TopicThreshold
from tests.cluster.broker_client import (
    Key,
    PartitionState,
    await_agreement,
    await_in_sync,
)
from tests.cluster.topics import make_cold_successor
from tests.cluster.watching import Watch, assert_agrees, by_partition, keys, watching
from twin.engine.shard_state import ShardState
from twin.rules.election.next_leader import NextLeaders
from twin.rules.election.predictions import Cause, Predictions, Result
from twin.rules.tiering.coverage import Coverage
from twin.tables.state import Assignment, Partitions, Replicas

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

SEED = 1303
PARTITIONS_A_TOPIC = 6
COLD = "prediction-cold"
ENOUGH_BYTES = 300_000
"""Below what broker 2 keeps of that topic, above what broker 5 had to copy."""


@pytest.fixture(scope="module")
def watch(five_brokers: LocalCluster) -> Iterator[Watch]:
    """A twin of the five brokers once they hold partitions of every replication factor."""
    rng = random.Random(SEED)
    topics = {
        f"prediction-rf{factor}-min{least}": {
            "assignments": {n: rng.sample(range(1, 6), factor) for n in range(PARTITIONS_A_TOPIC)}
            | ({0: [4, 5], 1: [5, 4]} if factor == 2 else {}),  # those lose both of theirs
            "configs": {
                "min.insync.replicas": str(least),
                "unclean.leader.election.enable": "true" if least == 3 else "false",
            },
        }
        for factor in (1, 2, 3, 4)
        for least in (1, 2, 3)
    }
    await_in_sync(five_brokers)
    admin = KafkaAdminClient(bootstrap_servers=five_brokers.bootstrap)
    admin.create_topics(topics, timeout_ms=20_000, wait_for_metadata=True)
    admin.close()
    producer = KafkaProducer(
        bootstrap_servers=five_brokers.bootstrap, acks=1, enable_idempotence=False
    )
    for topic in topics:
        for turn in range(5 * PARTITIONS_A_TOPIC):
            producer.send(topic, bytes(100), partition=turn % PARTITIONS_A_TOPIC)
    producer.close(timeout=30)
    with watching(
        five_brokers.bootstrap, TopicThreshold(name=COLD, local_log_bytes=ENOUGH_BYTES)
    ) as twin:
        yield twin


@pytest.fixture
def five(five_brokers: LocalCluster) -> Iterator[LocalCluster]:
    """All five brokers in sync before the test and after it."""
    await_in_sync(five_brokers)
    yield five_brokers
    five_brokers.start()
    await_in_sync(five_brokers)


@dataclass(frozen=True)
class Loss:
    """The loss of a broker: what the twin predicted, and what then was."""

    led: int  # partitions that the broker led
    predicted: Mapping[Key, int]  # the leader of every partition
    after: Mapping[Key, PartitionState]
    twin_after: ShardState


def lose(
    cluster: LocalCluster, watch: Watch, broker: int, how: Callable[[int], None], *gone: int
) -> Loss:
    """Lose a broker while those in ``gone`` are lost already."""
    before = watch.look()
    leader = before[Partitions].leader
    is_led = leader == broker
    predicted = by_partition(before, leader)
    next_leader = by_partition(before, before[NextLeaders].leader)
    predicted |= {k: next_leader[k] for k, led in zip(keys(before), is_led, strict=True) if led}

    how(broker)
    after = await_agreement(cluster, lost=sorted({broker, *gone}))
    return Loss(int(is_led.sum()), predicted, after, watch.look())


def elect_preferred(cluster: LocalCluster, twin: ShardState, *brokers: int) -> None:
    """Make these brokers the leaders of the partitions whose preferred replica they are."""
    chosen: dict[str, list[int]] = {}
    for (topic, number), preferred in by_partition(twin, twin[Assignment].broker[:, 0]).items():
        if preferred in brokers:
            chosen.setdefault(topic, []).append(number)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.elect_leaders(0, chosen, raise_errors=False)
    await_agreement(cluster)


def assert_came_true(loss: Loss) -> None:
    """Every partition's next leader is the one that was predicted, and the twin sees the same."""
    assert loss.led >= PARTITIONS_A_TOPIC, "too few partitions for a judgement"
    assert {key: state.leader for key, state in loss.after.items()} == loss.predicted
    assert_agrees(loss.twin_after, loss.after)
    assert_scored(loss)


def assert_scored(loss: Loss) -> None:
    """The twin's own record has each of these changes once, as predicted."""
    record = loss.twin_after[Predictions]
    of_now = record.pick(record.at_ms == loss.twin_after.observed_at_ms)
    assert len(of_now) == loss.led
    assert (of_now.cause == Cause.LOSS).all()
    assert (of_now.result == Result.RIGHT).all()


@pytest.fixture(scope="module")
def two_losses(five_brokers: LocalCluster, watch: Watch) -> tuple[Loss, Loss]:
    """Broker 4 is killed, and then 5 as well; both are back before the tests."""
    await_in_sync(five_brokers)
    elect_preferred(five_brokers, watch.look(), *range(1, 6))
    assert sum(topic.startswith("prediction") for topic, _ in keys(watch.look())) >= 60
    try:
        one = lose(five_brokers, watch, 4, five_brokers.kill)
        both = lose(five_brokers, watch, 5, five_brokers.kill, 4)
    finally:
        five_brokers.start()
    await_in_sync(five_brokers)
    return one, both


def test_a_killed_broker_and_then_a_second_leave_the_predicted_leaders(
    two_losses: tuple[Loss, Loss],
) -> None:
    one, both = two_losses
    assert_came_true(one)
    assert any(state.leader == -1 for state in one.after.values()), "none went offline"
    assert any(state.elr == {4} for state in one.after.values()), "none has an eligible leader"

    assert_came_true(both)
    assert any(s.leader == -1 and len(s.replicas) > 1 for s in both.after.values())
    assert any(state.last_known_elr for state in both.after.values())


def test_a_broker_killed_among_leaders_that_moved_leaves_the_predicted_ones(
    five: LocalCluster, watch: Watch, two_losses: tuple[Loss, Loss]
) -> None:
    moved = watch.look()
    preferred = moved[Assignment].broker[:, 0]
    assert (moved[Partitions].leader != preferred).any(), "every leader is the preferred one"
    # Leaders of earlier losses are not the preferred replicas, and broker 5 leads few of them.
    elect_preferred(five, moved, 5)
    assert_came_true(lose(five, watch, 5, five.kill))


def test_a_broker_shut_down_hands_over_to_the_predicted_leaders_even_to_a_cold_one(
    five: LocalCluster, watch: Watch
) -> None:
    make_cold_successor(five, COLD)
    await_in_sync(five)
    elect_preferred(five, watch.look(), 4)
    state = watch.look()
    row = keys(state).index((COLD, 0))
    brokers, sizes = state[Assignment].broker[row], state[Replicas].local_log_bytes[row]
    size = dict(zip(brokers.tolist(), sizes.tolist(), strict=True))
    assert size[5] < ENOUGH_BYTES < size[2]
    assert state[NextLeaders].leader[row] == 5
    assert state[NextLeaders].coverage[row] == Coverage.COLD
    assert state[NextLeaders.under("kip1303")].leader[row] == 2
    assert state[NextLeaders.under("kip1303")].coverage[row] == Coverage.WARM

    loss = lose(five, watch, 4, five.term)
    assert_came_true(loss)
    assert loss.after[COLD, 0].leader == 5
