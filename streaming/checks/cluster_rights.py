"""Checks the rights on the watched cluster.

Most follow from an observation: a refused request shows a missing right, complete data a granted
one. For the others, Kafka's list of authorized operations is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, Literal
from uuid import uuid4

from kafka import KafkaAdminClient
from kafka.admin import ACLOperation
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    TransactionalIdAuthorizationFailedError,
)
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

from streaming.checks.finding import CheckResult, missing, not_known, there
from streaming.checks.rights import Right, rights
from streaming.collector.problem import Problem
from streaming.collector.sources.metadata import MetadataSource
from streaming.collector.wire.connections import (
    BrokerConnections,
    CollectorError,
    EncodedRequest,
    Versions,
    negotiate_version,
)
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.kafka import clients
from streaming.runtime.kafka.remote_log_access import ReadAccess, read_access

_MOST_NAMES: Final = 5

_OLDEST: Final = 0
"""Version of DescribeCluster, where each returns the authorized operations, and DescribeGroups."""


def of_rights(
    config: Config, has_topics: bool, problems: Collection[Problem]
) -> Iterator[CheckResult]:
    """One result for each right, from an observation or Kafka's authorized operations.

    Args:
        config: says which features are switched on.
        has_topics: whether there is a topic to ask about.
        problems: what is missing from the observation, and why.
    """
    incomplete = {problem.source for problem in problems}
    refused = {problem.source for problem in problems if problem.is_denied}
    arguments = clients.arguments(config.cluster.bootstrap, config.cluster.client, "cluster")
    try:
        with KafkaAdminClient(**arguments) as admin:
            for right in rights(config):
                if right.at == "bus":
                    continue
                asks = (ask for want, ask in _ASKS.items() if want in right.wants)
                if finding := next(asks, _nothing)(config, right, admin):
                    yield finding
                elif right.of_any_topic and not has_topics:
                    yield not_known(right, ", there is no topic to ask of")
                elif refused & set(right.wants):
                    yield missing(config, right)
                elif not incomplete & set(right.wants):
                    yield there(right)
    except (CollectorError, KafkaError, OSError, ValueError) as error:
        yield CheckResult(f"rights: {clients.one_line(error)}", "saying which are missing")


def may_not(right: Right, topic: Mapping[str, Any]) -> bool:
    """Whether Kafka reports a missing right; before Kafka 2.3 it does not report rights."""
    allowed: Any = topic.get("authorized_operations")
    return topic["error_code"] == clients.TOPIC_NOT_ALLOWED or (
        bool(allowed) and right.operation not in allowed
    )


def _nothing(_: Config, __: Right, ___: KafkaAdminClient) -> CheckResult | None:
    """No result: the observation shows whether the right is there."""
    return None


def _topics(config: Config, right: Right, admin: KafkaAdminClient) -> CheckResult | None:
    """A topic with a random name may not be described, so other topics may be hidden as well."""
    [topic] = admin.describe_topics([f"kafka-twin-check-{uuid4().hex}"])
    return missing(config, right) if topic["error_code"] == clients.TOPIC_NOT_ALLOWED else None


def _commands(config: Config, right: Right, _: KafkaAdminClient) -> CheckResult | None:
    """Ask Kafka which operations are authorized; trying would alter the cluster."""
    allowed = _authorized_on_cluster(config)
    if not allowed:  # without DESCRIBE on the cluster Kafka does not report its rights
        return not_known(right, " without DESCRIBE on the cluster (or before Kafka 2.8)")
    if right.operation in allowed:
        return there(right)
    return missing(config, right)


def _authorized_on_cluster(config: Config) -> frozenset[str]:
    """Names of the operations that are authorized on the cluster, empty if Kafka returns none.

    Uses its own request: kafka-python's ``describe_cluster`` (3.0.12) ends with a
    KeyError where the brokers have no DescribeCluster v1, which came with Kafka 3.7.
    """
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    body = first_answer(config, request, _OLDEST)
    if body is None:
        return frozenset()
    described = DescribeClusterResponse.decode(body, version=_OLDEST)
    allowed = described.authorized_operations or ()
    return frozenset(each.name for each in ACLOperation if each in allowed)


def first_answer(
    config: Config, request: Any, highest: int, at: Literal["cluster", "bus"] = "cluster"
) -> bytes | None:
    """The response of the first broker that gives one; ``highest`` is the highest version.

    Raises:
        CollectorError: no broker can be reached.
    """

    def make(_: int, versions: Versions) -> list[EncodedRequest]:
        version = negotiate_version(versions, type(request), highest)
        return [] if version is None else [EncodedRequest.encode(request, version)]

    deadline_ms = config.collector.deadline_ms
    place = (config.cluster.bootstrap, config.cluster.client)
    if at == "bus":
        place = (config.bus_bootstrap, config.bus_client)
    with BrokerConnections(*place, deadline_ms) as brokers:
        for broker in brokers.broker_ids():
            body = brokers.ask([broker], make, Deadline.after_ms(deadline_ms))[broker].first
            if body is not None:
                return body
    return None


def _groups(config: Config, right: Right, _: KafkaAdminClient) -> CheckResult | None:
    """A group with a random name may not be described, so other groups may be hidden as well."""
    if not config.collector.groups_interval_ms:
        return CheckResult(f"{right.option} is 0", right.without)
    name = f"kafka-twin-check-{uuid4().hex}"
    body = first_answer(config, DescribeGroupsRequest(groups=[name]), _OLDEST)
    if body is None:
        return not_known(right, ", no broker has described a group")
    [group] = DescribeGroupsResponse.decode(body, version=_OLDEST).groups
    is_denied = group.error_code == GroupAuthorizationFailedError.errno
    return missing(config, right) if is_denied else there(right)


def _transactional_ids(config: Config, right: Right, _: KafkaAdminClient) -> CheckResult | None:
    """A transactional id with a random name may not be described, so others may be hidden too."""
    request = DescribeTransactionsRequest(transactional_ids=[f"kafka-twin-check-{uuid4().hex}"])
    body = first_answer(config, request, _OLDEST)
    if body is None:
        return not_known(right, ", no broker describes transactions (Kafka before 3.0)")
    [state] = DescribeTransactionsResponse.decode(body, version=_OLDEST).transaction_states
    is_denied = state.error_code == TransactionalIdAuthorizationFailedError.errno
    return missing(config, right) if is_denied else there(right)


def _timestamps(config: Config, right: Right, admin: KafkaAdminClient) -> CheckResult | None:
    """Ask for all topics at once; an observation reads timestamps of a few at a time."""
    if not config.collector.timestamps:
        return CheckResult("collector.timestamps is off", right.without)
    is_included = MetadataSource(config, "check").is_wanted
    watched = [t for t in admin.describe_topics() if not t["error_code"] and is_included(t["name"])]
    if not watched:
        return None
    apart = {other.name for other in rights(config)}  # reported separately
    denied = sorted(t["name"] for t in watched if may_not(right, t) and t["name"] not in apart)
    if not denied:
        return there(right)
    some = ", ".join(denied[:_MOST_NAMES]) + (", ..." if len(denied) > _MOST_NAMES else "")
    return missing(config, right, f" ({len(denied)} of {len(watched)}: {some})")


def _remote_segments(config: Config, right: Right, _: KafkaAdminClient) -> CheckResult | None:
    """Kafka's own topic of remote segments, which the query reads."""
    if not config.query.remote_log_metadata:
        return CheckResult("query.remote_log_metadata is off", right.without)
    access = read_access(config)
    if access is ReadAccess.NO_TOPIC:
        why = "the cluster has no remote storage, or another metadata manager for it"
        return CheckResult(f"topic {right.name} does not exist: {why}", right.without)
    if access is ReadAccess.UNKNOWN:
        return not_known(right, ", no broker has described the topic")
    return there(right) if access is ReadAccess.ALLOWED else missing(config, right)


_ASKS: Final[dict[str, Callable[[Config, Right, KafkaAdminClient], CheckResult | None]]] = {
    "topics": _topics,
    "request logs": _commands,
    "plans": _commands,
    "groups": _groups,
    "local start timestamps": _timestamps,
    "remote segments": _remote_segments,
    "transactional ids": _transactional_ids,
}
"""The function that checks a right, by the purpose of the right."""
