"""The list of rights itself; tests/containers/test_security.py tries it on Kafka."""

from __future__ import annotations

import json
import shlex
from itertools import permutations
from typing import Any

from click.testing import CliRunner

from streaming.checks.iam_policy import policy_lines
from streaming.checks.rights import WITHOUT, Right, commands, right_for, rights
from streaming.cli.main import main
from streaming.runtime.config import BusConfig, ClusterConfig, CollectorConfig, Config, QueryConfig

CONTAINS = {
    "READ": {"DESCRIBE"},
    "WRITE": {"DESCRIBE"},
    "ALTER_CONFIGS": {"DESCRIBE_CONFIGS"},
}
"""Operations that Kafka's authorizer grants with another one."""


def covers(one: Right, other: Right) -> bool:
    """Kafka grants the second right to a user with the first."""
    same_names = one.of_any_topic or one.name == other.name
    prefixed = one.is_prefix and other.name.startswith(one.name.removesuffix("*"))
    return (
        one.resource == other.resource
        and (same_names or prefixed)
        and other.operation in {one.operation} | CONTAINS.get(one.operation, set())
    )


def _of_command(right: Right) -> bool:
    """A command of an operator needs the right, and no program that runs all the time."""
    return " --" in right.option


def test_no_right_is_contained_in_another_but_in_those_of_options():
    for one, other in permutations(rights(Config(), readable="orders"), 2):
        assert _of_command(one) or not covers(one, other), (one, other)


def test_a_right_to_read_all_topics_contains_most_others():
    [read] = [r for r in rights(Config()) if "local start timestamps" in r.wants]
    assert sum(covers(read, r) for r in rights(Config())) == 6


def test_each_says_what_is_lost_and_who_needs_it():
    for right in rights(Config()):
        assert right.without == "; ".join(WITHOUT[what] for what in right.wants)
        assert set(right.programs) <= {"collector", "query", "exporter", "tap", "plan", "archive"}
        assert right.programs
        for what in right.wants:
            assert right_for(Config(), what) == right


def test_they_follow_the_prefix_of_the_bus():
    mine = Config(bus=BusConfig(prefix="mine"))
    named = {str(r) for r in rights(mine) if r.at == "bus"}
    assert "CREATE on topics mine.*" in named
    assert "WRITE on topic mine.events" in named
    assert not [name for name in named if "kafka-twin" in name]


def parsed(lines: list[str]) -> set[tuple[str, str, str, str]]:
    """The grants of kafka-acls.sh: (bootstrap, operation, resource, pattern)."""
    granted = set()
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "kafka-acls.sh"
        options: dict[str, list[str]] = {}
        for word in words[1:]:
            if word.startswith("--"):
                options.setdefault(name := word, [])
            else:
                options[name].append(word)
        assert options.pop("--add") == []
        assert options.pop("--allow-principal") == ["User:twin"]
        assert options.pop("--command-config") == ["admin.properties"]
        [bootstrap] = options.pop("--bootstrap-server")
        operations = options.pop("--operation")
        [pattern] = options.pop("--resource-pattern-type", ["literal"])
        [(kind, names)] = options.items()
        resource = f"{kind.removeprefix('--')} {' '.join(names)}".strip()
        granted |= {(bootstrap, operation, resource, pattern) for operation in operations}
    return granted


def test_the_lines_for_kafkas_tool_grant_exactly_the_list():
    config = Config(cluster=ClusterConfig(bootstrap="a:1"), bus=BusConfig(bootstrap="b:2"))
    lines = [line for line in commands(config, "User:twin") if not line.startswith("#")]
    assert parsed(lines) == {
        ("b:2" if right.at == "bus" else "a:1",
         {"DESCRIBE_CONFIGS": "DescribeConfigs"}.get(right.operation, right.operation.title()),
         "cluster" if right.resource == "cluster"
         else f"{right.resource} {right.name.removesuffix('*') or '*'}",
         "prefixed" if right.is_prefix else "literal")
        for right in rights(config) if not _of_command(right)
    }  # fmt: skip


def test_what_only_an_option_needs_is_a_comment_while_it_is_off():
    off = Config(
        collector=CollectorConfig(timestamps=False, groups_interval_ms=0),
        query=QueryConfig(remote_log_metadata=False),
    )
    for config, more in ((Config(), 3), (off, 0)):
        granted = [line for line in commands(config, "User:twin") if not line.startswith("#")]
        without_option = {(r.at, r.resource, r.name) for r in rights(config) if not r.option}
        assert len(granted) == len(without_option) + more
    lines = list(commands(off, "User:twin"))
    at = lines.index("# only for tap --enable:")
    assert lines[at + 1].startswith("# kafka-acls.sh ")
    assert lines[at + 1].endswith(" --operation AlterConfigs --cluster")
    at = lines.index("# only for plan order --watch:")
    assert lines[at + 1].endswith(" --operation Read --group kafka-twin.plan-order.kafka")
    at = lines.index("# only for plan --apply:")
    assert lines[at + 1].startswith("# kafka-acls.sh ")
    assert lines[at + 1].endswith(" --operation Alter --cluster")


def test_check_prints_the_lines_and_asks_nobody():
    result = CliRunner().invoke(main, ["check", "--acls", "User:twin"], env={})
    assert result.exit_code == 0
    assert result.output.splitlines() == list(commands(Config(), "User:twin"))


IAM: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"}


def policy(config: Config) -> dict[str, set[str]]:
    """The actions of the policy that is printed, by resource; nothing else is printed."""
    found = json.loads("\n".join(commands(config, "User:twin")))
    assert found["Version"] == "2012-10-17"
    assert {each["Effect"] for each in found["Statement"]} == {"Allow"}
    return {
        each["Resource"]: {action.removeprefix("kafka-cluster:") for action in each["Action"]}
        for each in found["Statement"]
    }


def test_for_users_of_aws_a_policy_grants_what_acls_cannot():
    config = Config(cluster=ClusterConfig(client={**IAM, "sasl_aws_region": "eu-west-1"}))
    granted, at = policy(config), "arn:aws:kafka:eu-west-1:ACCOUNT"
    assert granted[f"{at}:cluster/CLUSTER/*"] == {
        "Connect", "DescribeCluster", "DescribeClusterDynamicConfiguration", "WriteDataIdempotently"
    }  # fmt: skip
    assert granted[f"{at}:topic/CLUSTER/*/*"] == {
        "DescribeTopic",
        "DescribeTopicDynamicConfiguration",
        "ReadData",
    }
    assert granted[f"{at}:topic/CLUSTER/*/kafka-twin.*"] == {"CreateTopic"}
    assert granted[f"{at}:topic/CLUSTER/*/kafka-twin.events"] == {
        "DescribeTopic",
        "ReadData",
        "WriteData",
    }
    assert granted[f"{at}:transactional-id/CLUSTER/*/*"] == {"DescribeTransactionalId"}
    assert granted[f"{at}:group/CLUSTER/*/*"] == {"DescribeGroup"}
    assert not any("Alter" in action for actions in granted.values() for action in actions)


def test_a_bus_elsewhere_has_its_own_cluster_in_the_policy_or_acls_beside_it():
    both = Config(cluster=ClusterConfig(client=IAM), bus=BusConfig(bootstrap="b:2", client=IAM))
    assert "arn:aws:kafka:REGION:ACCOUNT:topic/BUS/*/kafka-twin.events" in policy(both)
    one = Config(cluster=ClusterConfig(client=IAM), bus=BusConfig(bootstrap="b:2"))
    lines = list(commands(one, "User:twin"))
    acls = [line for line in lines if line.startswith("kafka-acls.sh ")]
    assert {word for line in acls for word in shlex.split(line) if ":2" in word} == {"b:2"}
    text = "\n".join(lines)
    assert "/BUS/" not in text
    assert '"arn:aws:kafka:REGION:ACCOUNT:cluster/CLUSTER/*"' in text


def test_aws_has_an_action_for_each_right():
    on = Config(
        cluster=ClusterConfig(client=IAM),
        collector=CollectorConfig(timestamps=True, groups_interval_ms=60_000),
        query=QueryConfig(remote_log_metadata=True),
    )
    assert policy_lines(rights(on), {"cluster": "c", "bus": "b"}, "eu-west-1")
