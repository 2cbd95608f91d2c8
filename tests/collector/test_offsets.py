from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kafka.protocol.consumer import ListOffsetsRequest

from streaming.collector.listing import ListedPlacement
from streaming.collector.sources import offsets
from streaming.collector.sources.offsets import OffsetSource, ReplicaOffsets
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.deadline import Deadline
from tests.collector.fake_broker import (
    Error,
    FakeCluster,
    Log,
    Partition,
    Topic,
    World,
    fake_cluster,
)
from tests.collector.test_wire import placement as placed
from tests.waiting import patient_ms
from twin.tables.enums import PendingUpload

ABSENT, KNOWN, NOTHING, ALL, LEARNING = (
    PendingUpload.ABSENT,
    PendingUpload.KNOWN,
    PendingUpload.NOTHING_TIERED,
    PendingUpload.ALL_TIERED,
    PendingUpload.LEARNING,
)
MISSING = Error(35)


@pytest.mark.parametrize(
    ("log", "means"),
    [
        (Log(0, 0, 40, last_tiered=35, pending=36), KNOWN),
        (Log(0, 0, 40, last_tiered=-1, pending=0), KNOWN),
        (Log(0, 400, 400, last_tiered=399, pending=-1), ALL),
        (Log(0, 400, 401, last_tiered=399, pending=-1), LEARNING),
        (Log(0, 400, 400, last_tiered=398, pending=-1), LEARNING),
        (Log(400, 400, 400, last_tiered=18, pending=-1), ALL),  # what is above was deleted
        (Log(0, 7968, 8000, last_tiered=-1, pending=-1), LEARNING),
        (Log(0, 0, 40, last_tiered=-1, pending=-1), NOTHING),
        (Log(0, 0, 0, last_tiered=-1, pending=-1), NOTHING),
        (Log(9, 9, 40, last_tiered=-1, pending=-1), NOTHING),
        (Log(0, 0, 40, last_tiered=35, pending=MISSING), ABSENT),
        (Log(0, 0, 40, last_tiered=MISSING, pending=-1), ABSENT),
        (Log(0, 0, 40, last_tiered=MISSING, pending=36), KNOWN),
        (Log(0, Error(56), 40, last_tiered=-1, pending=-1), NOTHING),
    ],
)
def test_each_meaning_of_the_first_offset_not_tiered(log: Log, means: PendingUpload) -> None:
    world = World(topics={"a": Topic({0: Partition([1], logs={1: log})})})
    with sampled(world, {"a": {0}}) as samples:
        assert samples.pending_upload_is.tolist() == [means]
        assert samples.pending_upload_is.dtype == np.int8


class sampled:  # noqa: N801 - reads as a function
    """The samples of broker 1, which holds these partitions, after ``prepare``."""

    def __init__(self, world: World, held: dict[str, set[int]], prepare: Any = None) -> None:
        self.world, self.held, self.prepare = world, held, prepare
        self.cluster: FakeCluster

    def __enter__(self) -> ReplicaOffsets:
        with fake_cluster(self.world, [1]) as self.cluster:
            if self.prepare is not None:
                self.prepare(self.cluster[1])
            with BrokerConnections(self.cluster.bootstrap, {}, patient_ms(2_000)) as brokers:
                return read(brokers, OffsetSource(2_000, "test"), placed(self.held))

    def __exit__(self, *_: object) -> None:
        pass


def read(
    brokers: BrokerConnections, asker: OffsetSource, held: ListedPlacement, deadline_ms: int = 1_000
) -> ReplicaOffsets:
    replies = brokers.ask(
        [1], lambda b, v: asker.requests(b, v, held), Deadline.after_ms(patient_ms(deadline_ms))
    )
    return asker.read(held, {b: r.bodies for b, r in replies.items()})


def one(**offsets: Any) -> World:
    return World(topics={"a": Topic({0: Partition([1], logs={1: Log(**offsets)})})})


def test_every_offset_goes_to_its_own_column() -> None:
    world = one(log_start=3, local_start=20, log_end=40, last_tiered=30, pending=31)
    with sampled(world, {"a": {0}}) as samples:
        assert (
            samples.log_start[0],
            samples.local_start[0],
            samples.log_end[0],
            samples.last_tiered[0],
            samples.pending_upload[0],
            samples.pending_upload_epoch[0],
            samples.error_code[0],
            samples.answered[0],
        ) == (3, 20, 40, 30, 31, 3, 0, True)


@pytest.mark.parametrize(
    ("version", "kinds"),
    [(11, 5), (10, 4), (9, 4), (8, 3), (7, 2), (6, 2), (5, 2), (4, 2), (1, 2)],
)
def test_an_older_broker_is_asked_only_what_it_knows(version: int, kinds: int) -> None:
    def older(broker: Any) -> None:
        broker.highest[ListOffsetsRequest.API_KEY] = version

    world = one(log_start=3, local_start=20, log_end=40, last_tiered=30, pending=31)
    wanted = sampled(world, {"a": {0}}, older)
    with wanted as samples:
        asked = wanted.cluster[1].asked_of(ListOffsetsRequest)
        assert len(asked) == kinds
        assert {request.replica_id for request in asked} == {-2}
        assert samples.log_end[0] == 40
        assert samples.log_start[0] == 3
        assert samples.local_start[0] == (20 if version >= 8 else -1)
        assert samples.last_tiered[0] == (30 if version >= 9 else -1)
        assert samples.pending_upload[0] == (31 if version >= 11 else -1)
        assert samples.pending_upload_is[0] == (KNOWN if version >= 11 else ABSENT)
        assert samples.error_code[0] == 0
        assert samples.answered[0]


def test_a_broker_that_cannot_list_offsets_has_no_rows() -> None:
    def unable(broker: Any) -> None:
        broker.highest[ListOffsetsRequest.API_KEY] = None

    with sampled(one(log_end=40), {"a": {0}}, unable) as samples:
        assert not samples.answered.any()


def test_the_error_of_a_replica_is_reported_and_its_offsets_are_unknown() -> None:
    failed = Error(56)
    world = one(
        log_start=failed, local_start=failed, log_end=failed, last_tiered=failed, pending=failed
    )
    with sampled(world, {"a": {0}}) as samples:
        assert samples.answered[0]
        assert samples.error_code[0] == 56
        assert samples.log_end[0] == -1
        assert samples.pending_upload_is[0] == ABSENT


def test_the_log_end_is_never_before_a_local_start_read_later() -> None:
    with sampled(one(local_start=41, log_end=40), {"a": {0}}) as samples:
        assert samples.log_end[0] == 41


@pytest.fixture
def connected() -> Iterator[tuple[FakeCluster, BrokerConnections]]:
    world = World(topics={"a": Topic({p: Partition([1]) for p in range(3)})})
    with (
        fake_cluster(world, [1]) as cluster,
        BrokerConnections(cluster.bootstrap, {}, patient_ms(2_000)) as brokers,
    ):
        yield cluster, brokers


def test_a_broker_that_leaves_one_kind_open_has_no_rows(
    connected: tuple[FakeCluster, BrokerConnections],
) -> None:
    cluster, brokers = connected
    answer = cluster[1]._ListOffsetsRequest

    def all_but_one(request: Any, version: int) -> Any:
        if request.topics[0].partitions[0].timestamp == offsets.PENDING_UPLOAD:
            raise OSError("the connection breaks")
        return answer(request, version)

    cluster[1].answers[ListOffsetsRequest.API_KEY] = all_but_one
    samples = read(brokers, OffsetSource(2_000, "test"), placed({"a": {0, 1, 2}}), 300)
    assert not samples.answered.any()


def test_requests_are_encoded_once_while_the_placement_stays() -> None:
    source, held = OffsetSource(2_000, "test"), placed({"a": {0, 1, 2}})
    versions = {ListOffsetsRequest.API_KEY: (0, 11)}
    first = source.requests(1, versions, held)
    assert len(first) == len(offsets.SINCE)
    assert source.requests(1, versions, held) is first
    source.forget({1})
    assert source.requests(1, versions, held) is first
    assert source.requests(1, versions, placed({"a": {0, 1}})) is not first
    again = source.requests(1, versions, held)
    source.forget(set())
    assert source.requests(1, versions, held) is not again


def test_a_broker_without_replicas_is_not_asked(
    connected: tuple[FakeCluster, BrokerConnections],
) -> None:
    cluster, brokers = connected
    samples = read(brokers, OffsetSource(2_000, "test"), placed({}))
    assert len(samples.answered) == 0
    assert not cluster[1].asked_of(ListOffsetsRequest)
