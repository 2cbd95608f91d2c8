"""The error that a consumer gets from a follower in each of KIP-392's four cases, on Kafka 4.3.1.

Each case is built on real brokers, found by the twin, and asked for by a consumer's fetch: the twin
names the error that the broker answers. The brokers have no replica.selector.class: a follower
answers any consumer that asks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from kafka import KafkaProducer

from streaming.lab.local_cluster import LocalCluster, free_base_port
from tests.cluster.broker_client import BROKER_RESOURCE, EARLIEST, LATEST, BrokerClient
from tests.cluster.conftest import STILL, running
from tests.cluster.debugger import AGENT, stopped
from tests.cluster.topics import produce
from tests.cluster.watching import Watch, keys, watching
from tests.waiting import until
from twin.engine.shard_state import ShardState
from twin.rules.reading.out_of_range import OutOfRange
from twin.rules.reading.selection import LeaderSelectors
from twin.tables.enums import ReplicaSelector
from twin.tables.state import Brokers

pytestmark = pytest.mark.cluster

LAG_S = 8
NAMES = {0: None, 1: "OFFSET_OUT_OF_RANGE", 78: "OFFSET_NOT_AVAILABLE"}
TOPIC, CUT = "out-of-range", "out-of-range-cut"
RECORDS, MORE = 100, 20


@pytest.fixture(scope="module")
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    settings = STILL | {
        "replica.lag.time.max.ms": str(LAG_S * 1_000),
        "replica.selector.class": "",
    }
    home = tmp_path_factory.mktemp("out-of-range")
    three = LocalCluster(home, base_port=free_base_port(), settings=settings, java_opts=(AGENT,))
    with running(three, request.session) as local:
        yield local


@pytest.fixture(scope="module")
def client(brokers: LocalCluster) -> BrokerClient:
    return BrokerClient(brokers)


@pytest.fixture(scope="module")
def watch(brokers: LocalCluster) -> Iterator[Watch]:
    with watching(brokers.bootstrap) as twin:
        yield twin


@dataclass(frozen=True)
class Fetched:
    """The broker's answer to a consumer that fetches one offset."""

    error: str | None
    has_records: bool


def fetched(client: BrokerClient, broker: int, topic: str, offset: int) -> Fetched:
    answer = client.fetch(broker, topic, offset)
    return Fetched(NAMES[answer.error_code], bool(answer.records))


def windows(state: ShardState, topic: str) -> dict[tuple[int, str], tuple[int, int, str | None]]:
    """The first offset, the end, and the error that the twin names, by follower and case."""
    [field] = [f for f in state.catalog.api_fields if f.name == "out_of_range_windows"]
    listed = state.call(field.values, field.reads)[keys(state).index((topic, 0))]
    return {
        (w["broker"], w["case"]): (w["start_offset"], w["end_offset"], w["error"]) for w in listed
    }


def assert_refused(
    client: BrokerClient, state: ShardState, topic: str, broker: int, case: OutOfRange
) -> None:
    """The broker answers as the twin says at both ends of the window."""
    start, end, error = windows(state, topic)[broker, case.name.lower()]
    assert error == case.error
    for offset in {start, end - 1}:
        assert fetched(client, broker, topic, offset) == Fetched(error, has_records=False)


def test_each_case_of_a_follower_that_lags(
    brokers: LocalCluster, client: BrokerClient, watch: Watch
) -> None:
    """Broker 3 stops fetching; while it is in the ISR nothing new is committed."""
    client.create(TOPIC, [[1, 2, 3]], {"min.insync.replicas": "1"})
    produce(brokers, TOPIC, RECORDS)
    end = RECORDS + MORE
    with stopped(brokers.layout.folder(3) / "stdout.log", "ReplicaFetcherThread"):
        with KafkaProducer(bootstrap_servers=brokers.bootstrap, acks=1) as producer:
            for _ in range(MORE):
                producer.send(TOPIC, bytes(1_000))
        until(lambda: client.offset(2, TOPIC, 0, LATEST) == end, 5, "2 does not follow")
        state = watch.look()
        assert client.partition(1, TOPIC).isr == {1, 2, 3}
        assert windows(state, TOPIC) == {
            (2, "uncommitted"): (RECORDS, end, None),
            (3, "too_large"): (RECORDS + 1, end + 1, "OFFSET_OUT_OF_RANGE"),
        }
        assert_refused(client, state, TOPIC, 2, OutOfRange.UNCOMMITTED)
        assert_refused(client, state, TOPIC, 3, OutOfRange.TOO_LARGE)
        assert fetched(client, 3, TOPIC, RECORDS) == Fetched(None, has_records=False)

        until(lambda: client.partition(1, TOPIC).isr == {1, 2}, 4 * LAG_S, "3 is in the ISR")
        state = watch.look()
        assert windows(state, TOPIC) == {
            (3, "unavailable"): (RECORDS + 1, end + 1, "OFFSET_OUT_OF_RANGE")
        }
        assert_refused(client, state, TOPIC, 3, OutOfRange.UNAVAILABLE)
        assert fetched(client, 3, TOPIC, RECORDS) == Fetched(None, has_records=False)
    until(lambda: not windows(watch.look(), TOPIC), 30, "a window is left once 3 is back")


def test_a_follower_whose_retention_has_cut_what_the_leader_has(
    brokers: LocalCluster, client: BrokerClient, watch: Watch
) -> None:
    configs = {"internal.segment.bytes": "16384", "file.delete.delay.ms": "100"}
    client.create(CUT, [[1, 2]], configs)
    produce(brokers, CUT, 200)
    client.configure(BROKER_RESOURCE, "2", log_retention_bytes="50000")
    try:
        until(lambda: client.offset(2, CUT, 0, EARLIEST), 30, "2 deletes nothing")
    finally:
        client.configure(BROKER_RESOURCE, "2", log_retention_bytes="-1")
    start = client.offset(2, CUT, 0, EARLIEST)
    state = watch.look()
    assert windows(state, CUT) == {(2, "too_small"): (0, start, "OFFSET_OUT_OF_RANGE")}
    assert_refused(client, state, CUT, 2, OutOfRange.TOO_SMALL)
    assert fetched(client, 2, CUT, start) == Fetched(None, has_records=True)


def test_brokers_without_a_selector_are_known_to_have_none(watch: Watch) -> None:
    state = watch.look()
    assert len(state[Brokers].broker) == 3
    assert set(state[Brokers].replica_selector.tolist()) == {ReplicaSelector.LEADER}
    assert set(state[LeaderSelectors].replica_selector.tolist()) == {ReplicaSelector.LEADER}
