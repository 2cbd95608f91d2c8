"""The rights as a policy of AWS, for clusters of Amazon MSK whose users log in with AWS_MSK_IAM.

Such users have no ACLs of Kafka: what kafka-acls.sh grants has no effect on them. AWS' actions do
not include each other as Kafka's operations do, so each is listed.

Source: Semantics of IAM authorization policy actions and resources, MSK developer guide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streaming.checks.rights import Right

_ACTIONS: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("DESCRIBE", "cluster"): ("DescribeCluster",),
    ("ALTER", "cluster"): ("AlterCluster", "DescribeCluster"),
    ("DESCRIBE_CONFIGS", "cluster"): ("DescribeClusterDynamicConfiguration",),
    ("ALTER_CONFIGS", "cluster"): (
        "AlterClusterDynamicConfiguration",
        "DescribeClusterDynamicConfiguration",
    ),
    ("DESCRIBE", "topic"): ("DescribeTopic",),
    ("DESCRIBE_CONFIGS", "topic"): ("DescribeTopicDynamicConfiguration",),
    ("CREATE", "topic"): ("CreateTopic",),
    ("READ", "topic"): ("DescribeTopic", "ReadData"),
    ("WRITE", "topic"): ("DescribeTopic", "WriteData"),
    ("DESCRIBE", "group"): ("DescribeGroup",),
    ("READ", "group"): ("AlterGroup", "DescribeGroup"),
    ("DESCRIBE", "transactional-id"): ("DescribeTransactionalId",),
}
"""AWS' actions for an operation of Kafka on a kind of resource."""

_OF_EACH_CLUSTER: Final = ("Connect",)
_OF_WRITERS: Final = ("WriteDataIdempotently",)


def policy_lines(needed: Iterable[Right], clusters: Mapping[str, str], region: str) -> list[str]:
    """The lines of a policy, JSON, with ACCOUNT for the user to fill in.

    Args:
        needed: the rights.
        clusters: the name of the cluster of each section of the configuration.
        region: of AWS.
    """
    actions: dict[str, set[str]] = {}
    for right in needed:
        cluster = clusters[right.at]
        whole = _arn(region, "cluster", cluster)
        of_cluster = actions.setdefault(whole, set(_OF_EACH_CLUSTER))
        if right.operation == "WRITE":
            of_cluster.update(_OF_WRITERS)
        is_whole = right.resource == "cluster"
        arn = whole if is_whole else _arn(region, right.resource, cluster, right.name)
        actions.setdefault(arn, set()).update(_ACTIONS[right.operation, right.resource])
    return json.dumps(_policy(actions), indent=2).splitlines()


def _arn(region: str, resource: str, cluster: str, name: str = "") -> str:
    named = f"/{name}" if name else ""
    return f"arn:aws:kafka:{region}:ACCOUNT:{resource}/{cluster}/*{named}"


def _policy(actions: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    statements = [
        {
            "Effect": "Allow",
            "Action": [f"kafka-cluster:{action}" for action in sorted(of_resource)],
            "Resource": arn,
        }
        for arn, of_resource in actions.items()
    ]
    return {"Version": "2012-10-17", "Statement": statements}
