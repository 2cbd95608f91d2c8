"""Topics that are created while a tap runs, and topics that do not exist."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from streaming.runtime.config import ClusterConfig, Config
from streaming.runtime.kafka.uuids import uuid_text
from streaming.tap.topic_ids import LATER, Topic, TopicIds
from tests.collector import fake_broker
from tests.collector.fake_broker import FakeCluster, Partition, World, fake_cluster
from tests.waiting import until


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with fake_cluster(
        World(topics={"orders": fake_broker.Topic({0: Partition([1])})}), (1,)
    ) as fake:
        yield fake


def topic_ids(cluster: FakeCluster, ask_every_s: float, listed_within_s: float) -> TopicIds:
    config = Config(cluster=ClusterConfig(name="c", bootstrap=cluster.bootstrap))
    return TopicIds(config, ask_every_s=ask_every_s, listed_within_s=listed_within_s)


def test_a_new_topic_is_awaited_and_then_resolved(cluster: FakeCluster) -> None:
    with closing(topic_ids(cluster, ask_every_s=2, listed_within_s=60)) as ids:
        orders = ids.resolve("orders")
        assert orders == Topic("orders", cluster.world.topics["orders"].topic_id.bytes)
        new = cluster.world.topics["new"] = fake_broker.Topic({0: Partition([1])})
        assert ids.resolve("new") == LATER, "the cluster was asked a moment ago"
        by_name = until(lambda: (it := ids.resolve("new")) != LATER and it)
        assert (
            by_name
            == ids.resolve(uuid_text(new.topic_id.bytes))
            == Topic("new", new.topic_id.bytes)
        )


def test_a_topic_that_does_not_exist_is_given_up(cluster: FakeCluster) -> None:
    with closing(topic_ids(cluster, ask_every_s=0.1, listed_within_s=0.2)) as ids:
        assert ids.resolve("no-such") == LATER
        until(lambda: ids.resolve("no-such") is None, otherwise="it is awaited for ever")


def test_nothing_is_given_up_while_the_cluster_does_not_answer(cluster: FakeCluster) -> None:
    with closing(topic_ids(cluster, ask_every_s=0.05, listed_within_s=0.1)) as ids:
        assert isinstance(ids.resolve("orders"), Topic)
        cluster.stop()
        assert ids.resolve("new") == LATER
        until(lambda: (ids.resolve("new"), ids.problem)[1], otherwise="no request has failed")
        time.sleep(0.3)
        assert ids.resolve("new") == LATER, "no answer came since it turned up"


def test_nothing_is_awaited_at_the_end(cluster: FakeCluster) -> None:
    with closing(topic_ids(cluster, ask_every_s=60, listed_within_s=60)) as ids:
        assert ids.resolve("new") == LATER
        cluster.world.topics["new"] = fake_broker.Topic({0: Partition([1])})
        ids.end_waiting()
        assert isinstance(ids.resolve("new"), Topic), "the cluster is asked once more"
        assert ids.resolve("no-such") is None
