from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterRequest, DescribeQuorumRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest, MetadataResponse

from streaming.collector.problem import TIMEOUT, timeout
from streaming.collector.wire.connections import (
    Address,
    BrokerConnections,
    BrokerResponse,
    CollectorError,
    EncodedRequest,
    Versions,
    negotiate_version,
)
from streaming.runtime.config import ConfigError
from streaming.runtime.deadline import Deadline
from tests.collector.fake_broker import FakeCluster, Topic, World, fake_cluster
from tests.waiting import AMPLE_MS, patient_ms, until


@pytest.fixture
def three() -> Iterator[FakeCluster]:
    with fake_cluster(World(topics={"orders": Topic({})})) as cluster:
        yield cluster


@pytest.fixture
def brokers(three: FakeCluster) -> Iterator[BrokerConnections]:
    with BrokerConnections(three.bootstrap, {}, patient_ms(2_000)) as connected:
        yield connected


def everything() -> Any:
    return MetadataRequest(topics=None, allow_auto_topic_creation=False)


def two_requests(_: int, versions: Versions) -> list[EncodedRequest]:
    metadata = negotiate_version(versions, MetadataRequest, 12)
    cluster = negotiate_version(versions, DescribeClusterRequest)
    assert metadata is not None
    assert cluster is not None
    return [
        EncodedRequest.encode(everything(), metadata),
        EncodedRequest.encode(DescribeClusterRequest(), cluster),
    ]


def test_every_broker_answers_in_order_with_the_bytes_it_sent(brokers: BrokerConnections) -> None:
    deadline_ms = patient_ms(2_000)
    replies = brokers.ask([1, 2, 3], two_requests, Deadline.after_ms(deadline_ms))
    assert sorted(replies) == [1, 2, 3]
    for reply in replies.values():
        assert (len(reply.bodies), reply.problem, reply.answered) == (2, None, True)
        assert reply.bodies[0] is not None
        answer = MetadataResponse.decode(reply.bodies[0], version=12)
        assert [t.name for t in answer.topics] == ["orders"]
        assert 0 <= reply.after_ms < deadline_ms


def test_a_silent_broker_is_a_value_once_the_deadline_is_over(
    brokers: BrokerConnections, three: FakeCluster
) -> None:
    three[2].silent = True
    replies = brokers.ask([1, 2, 3], two_requests, Deadline.after_ms(patient_ms(400)))
    assert not replies[2].answered
    assert replies[2].problem == timeout("broker", 2)
    assert replies[2].after_ms == -1
    assert replies[1].answered
    assert replies[3].answered


def test_a_broker_silent_to_one_question_still_answered_the_other(
    brokers: BrokerConnections, three: FakeCluster
) -> None:
    three[2].silent = {DescribeClusterRequest.API_KEY}
    reply = brokers.ask([2], two_requests, Deadline.after_ms(patient_ms(300)))[2]
    assert reply.answered
    assert reply.bodies[0] is not None
    assert reply.bodies[1] is None
    assert reply.problem


def test_a_broker_that_speaks_again_is_heard_again(
    brokers: BrokerConnections, three: FakeCluster
) -> None:
    three[2].silent = True
    assert not brokers.ask([2], two_requests, Deadline.after_ms(patient_ms(200)))[2].answered
    three[2].silent = False

    def reply() -> BrokerResponse | None:
        response = brokers.ask([2], two_requests, Deadline.after_ms(patient_ms(500)))[2]
        return response if response.answered else None

    assert until(reply, pause_s=0.05).problem is None


def test_a_broker_that_is_gone_says_so_at_once(
    brokers: BrokerConnections, three: FakeCluster
) -> None:
    three[3].stop()
    replies = brokers.ask([1, 3], two_requests, Deadline.after_ms(patient_ms(2_000)))
    assert not replies[3].answered
    assert replies[3].problem is not None
    assert replies[3].problem.error != TIMEOUT
    assert "\n" not in replies[3].problem.text
    assert replies[1].answered
    three.brokers.pop(3)


def test_a_broker_without_an_address_is_a_value(brokers: BrokerConnections) -> None:
    assert not brokers.ask([99], two_requests, Deadline.after_ms(patient_ms(500)))[99].answered


def test_more_questions_than_the_client_allows_in_flight_are_all_answered(
    brokers: BrokerConnections,
) -> None:
    def many(_: int, versions: Versions) -> list[EncodedRequest]:
        return two_requests(_, versions) * 50

    assert all(
        b is not None
        for b in brokers.ask([1], many, Deadline.after_ms(patient_ms(2_000)))[1].bodies
    )


def test_brokers_are_known_as_soon_as_the_cluster_lists_them(
    brokers: BrokerConnections, three: FakeCluster
) -> None:
    ports = {b.node: b.port for b in three.brokers.values()}
    brokers.update_metadata(
        [Address(7, "127.0.0.1", ports[1], ""), Address(8, "127.0.0.1", ports[2], "")]
    )
    assert brokers.broker_ids() == [7, 8]
    assert brokers.ask([7], two_requests, Deadline.after_ms(patient_ms(2_000)))[7].answered


def test_kept_bytes_are_the_codecs_with_another_correlation_id() -> None:
    request = everything()
    request.API_VERSION = 12
    request.with_header(correlation_id=4_242, client_id="me")
    expected = bytes(request.encode(framed=True, header=True))
    assert EncodedRequest.encode(everything(), 12, "me").encoded(4_242) == expected


@pytest.mark.parametrize(
    ("request_", "version", "throttled"),
    [
        (ListOffsetsRequest(), 1, False),
        (ListOffsetsRequest(), 2, True),
        (OffsetForLeaderEpochRequest(), 2, True),
        (DescribeClusterRequest(), 0, True),
        (DescribeQuorumRequest(), 1, False),
        (ApiVersionsRequest(), 4, False),  # it is behind a list there
    ],
)
def test_the_schema_says_which_responses_begin_with_a_throttle_time(
    request_: Any, version: int, throttled: bool
) -> None:
    assert EncodedRequest.encode(request_, version).throttled is throttled


def test_replacing_bytes_that_are_not_there_as_often_as_said_is_a_bug() -> None:
    with pytest.raises(ValueError, match="0 times, not 1"):
        EncodedRequest.encode(everything(), 12).replaced(b"\xf0\xf1", b"ab", 1)


@pytest.mark.parametrize(
    ("low", "high", "highest", "version"),
    [(0, 20, None, 11), (0, 8, None, 8), (0, 20, 10, 10), (12, 20, None, None), (5, 20, 4, None)],
)
def test_the_best_version_is_the_highest_both_know(
    low: int, high: int, highest: int | None, version: int | None
) -> None:
    assert negotiate_version({2: (low, high)}, ListOffsetsRequest, highest) == version


def test_an_api_the_broker_does_not_know_has_no_version() -> None:
    assert negotiate_version({}, ListOffsetsRequest) is None


def test_an_advertised_name_that_does_not_resolve_is_named_with_its_broker(
    brokers: BrokerConnections, three: FakeCluster
) -> None:
    brokers.update_metadata([Address(3, "broker-3.internal.invalid", 9092, "")])
    problem = brokers.ask([3], two_requests, Deadline.after_ms(AMPLE_MS))[3].problem
    assert problem is not None
    assert str(problem) == (
        "broker 3: advertises broker-3.internal.invalid:9092, a name that this machine cannot "
        "resolve: see advertised.listeners of the broker, the DNS here, or set "
        "client.broker_addresses"
    )


def test_nobody_at_the_bootstrap_address_is_one_line() -> None:
    with pytest.raises(CollectorError, match=r"^cluster.bootstrap 127.0.0.1:1: .*REFUSED") as error:
        BrokerConnections("127.0.0.1:1", {}, patient_ms(300))
    assert "\n" not in str(error.value)


def test_a_wrong_client_setting_never_shows_its_value() -> None:
    with pytest.raises(ConfigError, match=r"cluster.client.sasl_pasword") as error:
        BrokerConnections("127.0.0.1:1", {"sasl_pasword": "hunter2"}, 300)
    assert "hunter2" not in str(error.value)
