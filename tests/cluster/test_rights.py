"""With a password and few rights: hidden values are unknown and reported, the others are there."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

from streaming.bus import bus_topics
from streaming.checks import check
from streaming.checks.bus import of_bus
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.program import run
from streaming.collector.problem import Problem
from streaming.collector.sources.log_dirs import LogDirSizes
from streaming.collector.sources.offsets import ReplicaOffsets
from streaming.collector.wire.connections import BrokerConnections
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.plans.admin import Admin, LivePartition
from streaming.plans.lock import WatchLock
from streaming.plans.plan import NotAllowed, PlannedChange
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from streaming.runtime.deadline import Deadline
from tests.cluster.conftest import running
from tests.waiting import until
from twin.declarations.table import NO_BROKER

pytestmark = pytest.mark.cluster

SECRET = "hunter2-is-secret"
USERS = {"admin": "top-secret", "watcher": SECRET}
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{LOGIN} username="admin" password="{USERS["admin"]}" '
        + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        + ";"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    # Its own clients would need to log in as well.
    "remote.log.storage.system.enable": "false",
}


def login(user: str, password: str | None = None) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": USERS[user] if password is None else password,
    }


@pytest.fixture(scope="module")
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """One broker that asks for a password, with a topic of two records, and a bus."""
    home = tmp_path_factory.mktemp("guarded")
    node = LocalCluster(home, nodes=1, base_port=free_base_port(), settings=SETTINGS)
    with running(node, request.session) as cluster:
        bus_topics.ensure_topics(config(cluster, "admin"))
        arguments = {"bootstrap_servers": cluster.bootstrap, **login("admin")}
        with KafkaAdminClient(**arguments) as admin:
            admin.create_topics({"data": {"num_partitions": 2}}, wait_for_metadata=True)
            rights = [(ACLOperation.DESCRIBE, "*", ACLResourcePatternType.LITERAL)]
            rights += [
                (operation, "twin", ACLResourcePatternType.PREFIXED)
                for operation in (ACLOperation.READ, ACLOperation.WRITE)
            ]
            admin.create_acls(
                [
                    acl(operation, ResourcePattern(ResourceType.TOPIC, name, pattern))
                    for operation, name, pattern in rights
                ]
            )
        with KafkaProducer(**arguments) as producer:
            for partition in (0, 1):
                producer.send("data", b"x", partition=partition).get(10)
        yield cluster


def acl(operation: ACLOperation, resource: ResourcePattern) -> ACL:
    """An ACL that allows the watcher an operation."""
    return ACL(
        principal="User:watcher",
        host="*",
        operation=operation,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=resource,
    )


def allowing(one: ACL) -> ACLFilter:
    """A filter that matches that ACL alone."""
    return ACLFilter(
        principal=one.principal, host=one.host, operation=one.operation,
        permission_type=one.permission_type, resource_pattern=one.resource_pattern,
    )  # fmt: skip


def config(cluster: LocalCluster, user: str, password: str | None = None) -> Config:
    return Config(
        cluster=ClusterConfig(
            name="guarded", bootstrap=cluster.bootstrap, client=login(user, password)
        ),
        bus=BusConfig(prefix="twin", shards=2, partitions=2),
    )


def observed(cluster: LocalCluster, user: str) -> tuple[Any, Sequence[Problem]]:
    with BrokerConnections(cluster.bootstrap, login(user), 3_000) as brokers:
        collector = Collector(config(cluster, user), brokers)
        observation = collector.observe()
        return observation, collector.problems


def test_with_all_rights_nothing_is_missing(guarded: LocalCluster) -> None:
    observation, problems = observed(guarded, "admin")
    assert problems == ()
    assert (observation.readings[LogDirSizes].local_log_bytes >= 0).all()


def test_the_right_to_describe_topics_is_enough_for_every_offset(guarded: LocalCluster) -> None:
    observation, _ = observed(guarded, "watcher")
    placement, offsets = observation.placement, observation.readings[ReplicaOffsets]
    data = placement.topic_of[placement.partition_of] == placement.topic.index("data")
    assert offsets.answered.all()
    assert offsets.error_code.tolist() == [0] * len(placement.broker)
    assert offsets.log_end[data].tolist() == [1, 1]


def test_what_needs_more_is_unknown_and_said(guarded: LocalCluster) -> None:
    observation, problems = observed(guarded, "watcher")
    assert {p.place for p in problems} == {
        ("reassignments", -1), ("controller quorum", -1), ("broker configs", -1),
        ("broker configs", 1), ("topic configs", -1), ("log dirs", 1),
        ("local start timestamps", -1),
    }  # fmt: skip
    assert set(observation.readings[LogDirSizes].local_log_bytes.tolist()) == {-1}
    assert all(p.is_denied for p in problems)
    rows = observation.brokers.to_pylist()
    assert [(r["answered"], r["log_dir_total_bytes"]) for r in rows] == [(True, -1)]


def test_what_is_observed_arrives_on_the_bus(guarded: LocalCluster) -> None:
    run(config(guarded, "watcher"), cycles=1)
    assert bus_topics.recorded_shards(config(guarded, "watcher")) == 2


def test_check_names_every_missing_right(guarded: LocalCluster) -> None:
    out = io.StringIO()
    assert check(config(guarded, "watcher"), out)
    *every, last = out.getvalue().splitlines()
    lines = [line for line in every if line.startswith("missing: ")]
    assert last == f"the twin can run; {len(lines)} lines above say what it goes without"
    missing = [line.removeprefix("missing: ").partition(" -> ")[0] for line in lines]
    assert missing == [
        "DESCRIBE_CONFIGS on topics",
        "DESCRIBE on the cluster",
        "DESCRIBE_CONFIGS on the cluster",
        "READ on topics (1 of 4: data)",
        "DESCRIBE on transactional ids",
        "DESCRIBE on groups",
        "topic __remote_log_metadata does not exist: the cluster has no remote storage, or another "
        "metadata manager for it",
        "ALTER_CONFIGS on the cluster: not known without DESCRIBE on the cluster (or before "
        "Kafka 2.8)",
        "ALTER on the cluster: not known without DESCRIBE on the cluster (or before Kafka 2.8)",
        "threshold of KIP-1303; set one in twin.toml, e.g. local_log_ms = 600000 under "
        "[eligibility]",
        "collector.metrics_url is not set",
        "READ on group twin.plan-order.guarded",
    ]
    assert (
        f"mend: kafka-acls.sh --bootstrap-server {guarded.bootstrap} --command-config "
        "admin.properties --add --allow-principal User:watcher --operation Read --group "
        "twin.plan-order.guarded"
    ) in out.getvalue().splitlines()


def test_a_plan_without_the_right_is_one_line_and_with_it_is_applied(
    guarded: LocalCluster,
) -> None:
    """The cluster has one broker: an order of one replica is one too."""
    describe, alter = (
        acl(operation, ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"))
        for operation in (ACLOperation.DESCRIBE, ACLOperation.ALTER)
    )
    watcher = config(guarded, "watcher")
    with (
        Admin(watcher) as plans,
        KafkaAdminClient(bootstrap_servers=guarded.bootstrap, **login("admin")) as admin,
    ):
        with pytest.raises(NotAllowed, match="DESCRIBE on the cluster is not granted"):
            plans.read("data", 0)
        admin.create_acls([describe])
        live = until(lambda: _read(plans), 10, "the right to describe does not help")
        same = PlannedChange(
            "data", live.topic_id, 0, live.replicas, live.replicas, 1, live.leader_epoch, NO_BROKER
        )
        with pytest.raises(NotAllowed, match="ALTER on the cluster is not granted"):
            plans.reorder(same, within_s=5)
        with pytest.raises(NotAllowed, match="ALTER on the cluster is not granted"):
            plans.elect_preferred(replace(same, elect=1), within_s=5)
        admin.create_acls([alter])
        until(lambda: _reordered(plans, same), 10, "the right to alter does not help")
        plans.elect_preferred(replace(same, elect=1), within_s=5)
        admin.delete_acls([allowing(describe), allowing(alter)])


def test_a_watch_without_the_right_to_its_group_is_one_line(guarded: LocalCluster) -> None:
    watcher = config(guarded, "watcher")
    describe = acl(ACLOperation.DESCRIBE, ResourcePattern(ResourceType.GROUP, "*"))
    read = acl(
        ACLOperation.READ, ResourcePattern(ResourceType.GROUP, bus_topics.watch_group(watcher))
    )
    with KafkaAdminClient(bootstrap_servers=guarded.bootstrap, **login("admin")) as admin:
        admin.create_acls([describe])  # as the collector has it: that is not enough
        try:
            assert _has_group(watcher) is False
            with pytest.raises(NotAllowed, match=r"READ on group twin\.plan-order\.guarded is"):
                WatchLock(watcher)
            admin.create_acls([read])
            until(lambda: _has_group(watcher), 10, "the right does not help")
            with WatchLock(watcher) as held:
                held.check()
        finally:
            admin.delete_acls([allowing(describe), allowing(read)])


def _has_group(settings: Config) -> bool:
    """The lines of check about the right to the group of a watch."""
    [line] = [line for line in map(str, of_bus(settings)) if "READ on group" in line]
    return line.startswith("ok: ")


def _read(plans: Admin) -> LivePartition | None:
    with suppress(NotAllowed):
        return plans.read("data", 0)
    return None


def _reordered(plans: Admin, change: PlannedChange) -> bool:
    with suppress(NotAllowed):
        plans.reorder(change, within_s=5)
        return True
    return False


@pytest.mark.parametrize("command", [["collector"], ["tail", "observations", "--max", "1"]])
def test_a_wrong_password_is_one_line_without_the_password(
    guarded: LocalCluster, command: list[str]
) -> None:
    """In a process of its own, as a user meets it: other clients' losses are no cause there."""
    client = {
        f"KAFKA_TWIN_CLUSTER_CLIENT_{name.upper()}": str(value)
        for name, value in login("watcher", SECRET + "?").items()
    }
    ended = subprocess.run(
        [sys.executable, "-m", "streaming", *command],
        env={**os.environ, **client, "KAFKA_TWIN_CLUSTER_BOOTSTRAP": guarded.bootstrap},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ended.returncode == 1
    errors = [line for line in ended.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, ended.stderr
    assert re.search(r"Authentication failed|a refused login", errors[0])
    assert SECRET not in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_password_that_becomes_right_is_tried_again(guarded: LocalCluster) -> None:
    """The client itself gives a broker up for good after one refusal."""
    with BrokerConnections(guarded.bootstrap, login("admin"), 1_500) as brokers:
        brokers._manager.config["sasl_plain_password"] = "wrong"

        def ask() -> bool:
            return brokers.ask([1], lambda *_: [], Deadline.after_ms(1_500))[1].answered

        assert not ask()
        brokers._manager.config["sasl_plain_password"] = USERS["admin"]
        until(ask, 10)
