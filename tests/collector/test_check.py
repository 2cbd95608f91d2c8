"""``kafka-twin check`` on clusters of other versions, and without remote storage."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from kafka.admin import ACLOperation as Operation
from kafka.protocol.consumer import OffsetFetchRequest

from streaming.checks.cluster_checks import of_cluster
from streaming.checks.rights import grant_to_user, right_for
from streaming.runtime.config import ClusterConfig, CollectorConfig, Config, EligibilityConfig
from streaming.runtime.kafka.remote_log_access import TOPIC, ReadAccess, read_access
from tests.collector.fake_broker import FakeCluster, Log, Partition, Topic, World, fake_cluster
from tests.collector.fake_groups import GROUP_AUTHORIZATION_FAILED, Group
from tests.collector.older import all_be_kafka
from tests.streaming.test_bootstrapping import hanging
from tests.waiting import patient_ms

NO_DESCRIBE = ": not known without DESCRIBE on the cluster (or before Kafka 2.8)"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    logs = {b: Log(0, 0, 10, first_ms=5_000) for b in (1, 2)}
    with fake_cluster(World(topics={"orders": Topic({0: Partition([1, 2], logs=logs)})})) as three:
        yield three


def configured(cluster: FakeCluster) -> Config:
    return Config(
        cluster=ClusterConfig(bootstrap=cluster.bootstrap),
        collector=CollectorConfig(deadline_ms=patient_ms(900)),
    )


def findings_of(config: Config) -> list[str]:
    """All lines but those on each source (``test_outcomes.py``)."""
    lines = [str(finding) for finding in of_cluster(config)]
    return [line for line in lines if not line.startswith("source ")]


def findings(cluster: FakeCluster) -> list[str]:
    return findings_of(configured(cluster))


@pytest.mark.parametrize("version", ["2.8", "3.3", "3.6", "3.7", "3.9", "4.0"])
@pytest.mark.parametrize(
    ("authorized", "expected"),
    [
        ({Operation.DESCRIBE, Operation.ALTER_CONFIGS}, "ok: ALTER_CONFIGS on the cluster"),
        ({Operation.DESCRIBE}, "missing: ALTER_CONFIGS on the cluster -> `tap --enable`"),
        (None, f"missing: ALTER_CONFIGS on the cluster{NO_DESCRIBE}"),
        ({Operation.DESCRIBE, Operation.ALTER}, "ok: ALTER on the cluster: plans"),
        (None, f"missing: ALTER on the cluster{NO_DESCRIBE}"),
    ],
)
def test_every_version_says_what_is_authorized_on_the_cluster(
    version: str, authorized: set[int] | None, expected: str, cluster: FakeCluster
) -> None:
    all_be_kafka(version, cluster)
    cluster.world.authorized = authorized
    lines = findings(cluster)
    assert [line for line in lines if line.startswith(expected)], lines
    assert lines[-1].startswith("missing: collector.metrics_url")  # it got to the end


def test_the_right_that_plans_alone_need_is_said_with_the_command_that_grants_it(
    cluster: FakeCluster,
) -> None:
    cluster.world.authorized = {Operation.DESCRIBE}
    [line] = [line for line in findings(cluster) if line.startswith("missing: ALTER on")]
    assert line.splitlines() == [
        "missing: ALTER on the cluster -> `plan --apply` and `plan restore`, which alone need it; "
        "plans are printed, and Kafka's own tools apply their files",
        f"mend: kafka-acls.sh --bootstrap-server {cluster.bootstrap} --command-config "
        "admin.properties --add --allow-principal User:NAME --operation Alter --cluster",
    ]


@pytest.mark.parametrize(
    ("client", "user"),
    [
        ({"sasl_mechanism": "PLAIN", "sasl_plain_username": "twin"}, "twin"),
        ({"sasl_mechanism": "GSSAPI", "sasl_kerberos_principal": "twin/host@REALM",
          "sasl_kerberos_keytab": "/etc/twin.keytab"}, "twin"),
        ({"security_protocol": "SSL"}, "NAME"),
    ],
)  # fmt: skip
def test_the_command_grants_the_right_to_whoever_logs_in(client: dict[str, str], user: str) -> None:
    config = Config(cluster=ClusterConfig(bootstrap="b:1", client=client))
    command = grant_to_user(config, right_for(config, "topics"))
    assert f"--allow-principal User:{user} --operation Describe" in command


def test_where_policies_of_aws_grant_rights_there_is_no_command() -> None:
    client = {"sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_region": "eu-west-1"}
    config = Config(cluster=ClusterConfig(bootstrap="b:1", client=client))
    assert grant_to_user(config, right_for(config, "topics")) == ""


def test_a_topic_of_remote_segments_that_is_not_there_cannot_be_read(cluster: FakeCluster) -> None:
    lines = findings(cluster)
    assert not [line for line in lines if line.startswith(f"ok: READ on topic {TOPIC}")]
    [line] = [line for line in lines if TOPIC in line]
    assert line.startswith(f"missing: topic {TOPIC} does not exist: ")
    assert read_access(configured(cluster)) is ReadAccess.NO_TOPIC
    assert ReadAccess.NO_TOPIC.why_not_read == ""


def test_a_topic_of_remote_segments_that_is_there_can_be_read(cluster: FakeCluster) -> None:
    cluster.world.topics[TOPIC] = Topic({0: Partition([1])})
    assert f"ok: READ on topic {TOPIC}: remote segments" in findings(cluster)


def test_a_hidden_topic_is_a_missing_right_and_an_unknown_one_is_not(cluster: FakeCluster) -> None:
    cluster.world.hidden.add(TOPIC)
    assert read_access(configured(cluster)) is ReadAccess.HIDDEN
    assert ReadAccess.HIDDEN.why_not_read == ReadAccess.HIDDEN.value
    config = configured(cluster)
    for broker in cluster.brokers.values():
        broker.stop()
    assert read_access(config) is ReadAccess.UNKNOWN


# ---------------------------------------------------------------- groups


def test_each_address_that_does_not_answer_is_named_though_the_others_are_enough(
    cluster: FakeCluster,
) -> None:
    with hanging() as frozen:
        places = f"{frozen},{cluster.bootstrap},127.0.0.1:1"
        config = configured(cluster)
        config = msgspec.structs.replace(config, cluster=ClusterConfig(bootstrap=places))
        first, *said = [str(finding) for finding in of_cluster(config)]
    assert first.startswith("ok: cluster ")
    [one, other] = [line for line in said if ".bootstrap" in line]
    assert one.startswith(f"missing: cluster.bootstrap {frozen}: cannot be reached: ")
    assert other.startswith("missing: cluster.bootstrap 127.0.0.1:1: cannot be reached: ")
    assert "REFUSED" in other


def about_groups(cluster: FakeCluster) -> list[str]:
    return [line for line in findings(cluster) if "group" in line]


def test_groups_are_counted(cluster: FakeCluster) -> None:
    cluster.world.groups = {
        "a": Group(1, {("orders", 0): 5}),
        "b": Group(2),
        "share": Group(2, type="share"),
    }
    assert about_groups(cluster) == [
        "ok: DESCRIBE on groups: groups",
        "ok: 3 consumer groups with 1 offset; offsets of 1 group are unknown",
    ]


def test_groups_that_may_not_be_described_are_one_line(cluster: FakeCluster) -> None:
    cluster.world.groups = {name: Group(1, error=GROUP_AUTHORIZATION_FAILED) for name in "abcdef"}
    cluster.world.groups_hidden = True
    assert about_groups(cluster)[0].startswith(
        "missing: DESCRIBE on groups -> offsets and members of consumer groups"
    )
    assert about_groups(cluster)[1:] == [
        "ok: 6 consumer groups with 0 offsets; offsets of 6 groups are unknown"
    ]


def test_groups_that_are_not_asked_for_are_said(cluster: FakeCluster) -> None:
    config = configured(cluster)
    collector = msgspec.structs.replace(config.collector, groups_interval_ms=0)
    off = msgspec.structs.replace(config, collector=collector)
    lines = findings_of(off)
    [line] = [line for line in lines if "group" in line]
    assert line.startswith("missing: collector.groups_interval_ms is 0 -> offsets and members of")


def test_a_coordinator_that_says_nothing_is_a_line_of_its_own(cluster: FakeCluster) -> None:
    cluster.world.groups = {"a": Group(1)}
    cluster[1].silent = {OffsetFetchRequest.API_KEY}
    lines = findings(cluster)
    assert any(
        line.startswith("missing: groups of broker 1: did not answer within the deadline -> ")
        for line in lines
    )
    assert any("if the network is slow, set collector.deadline_ms" in line for line in lines)


# ---------------------------------------------------------------- thresholds


def about_thresholds(cluster: FakeCluster, **configs: str) -> list[str]:
    """The lines on the threshold of README's two lines, for a topic with these settings."""
    cluster.world.topics["orders"].configs.update(configs)
    config = msgspec.structs.replace(
        configured(cluster), eligibility=EligibilityConfig(local_log_ms=600_000)
    )
    lines = findings_of(config)
    return [line for line in lines if "threshold" in line or "never cold" in line]


def test_topics_that_are_not_tiered_are_said_to_be_out_of_its_reach(cluster: FakeCluster) -> None:
    assert about_thresholds(cluster, **{"remote.storage.enable": "false"}) == [
        "ok: threshold of KIP-1303 for all topics",
        "ok: 1 partition of 1 topic not tiered: their replicas have the whole log on disk and are "
        "never cold",
    ]


@pytest.mark.parametrize(("retention_ms", "is_short"), [("599999", True), ("600000", False)])
def test_local_retention_below_the_threshold_is_said_before_anybody_is_paged(
    retention_ms: str, is_short: bool, cluster: FakeCluster
) -> None:
    lines = about_thresholds(
        cluster, **{"remote.storage.enable": "true", "local.retention.ms": retention_ms}
    )
    short = (
        "missing: threshold of KIP-1303 within local retention, which is shorter for 1 partition "
        "of 1 topic (orders) -> warm replicas of these topics while they are written to: lower the "
        "threshold, or raise local.retention.ms or local.retention.bytes"
    )
    assert lines[1:] == ([short] if is_short else [])


@pytest.mark.parametrize(
    ("version", "missing"),
    [("3.7", ["-5", "-6"]), ("3.9", ["-6"]), ("4.0", ["-6"])],
)
def test_questions_that_brokers_do_not_know_are_said_where_a_topic_is_tiered(
    version: str, missing: list[str], cluster: FakeCluster
) -> None:
    all_be_kafka(version, cluster)

    def about_offsets() -> list[str]:
        return [line for line in findings(cluster) if "ListOffsets" in line]

    assert about_offsets() == []
    cluster.world.topics["orders"].configs["remote.storage.enable"] = "true"
    lines = about_offsets()
    assert [line.split()[2].rstrip(",") for line in lines] == ["-5", "-6"]
    assert [line.split()[2].rstrip(",") for line in lines if line.startswith("missing")] == missing
    assert lines[1] == (
        "missing: ListOffsets -6, which Kafka 4.2 and later answer (not brokers 1, 2, 3) -> the "
        "offset at which leaders let a new follower start (KIP-1023)"
    )
