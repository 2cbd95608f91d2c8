"""On a cluster with TLS, passwords and ACLs the twin works with the rights that docs/security.md
lists, and with each of them taken away it says what it lost.

Every program runs as a user of its own, who has the rights that are listed for it and no others;
``kafka-twin`` has all of them, but the options'.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Final

import pytest
from kafka import KafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from streaming.checks.bus import of_bus
from streaming.checks.cluster_checks import of_cluster
from streaming.checks.rights import Right, rights
from streaming.runtime.config import (
    BusConfig,
    ClusterConfig,
    CollectorConfig,
    Config,
    EligibilityConfig,
)
from tests.containers.secured import ADMIN, STRANGER, Secured, secured_cluster
from tests.containers.secured_twin import Programs
from tests.containers.test_compose import METRICS, ONLY_WHEN_IT_HAPPENS
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.containers]

USER: Final = "kafka-twin"
PROGRAMS: Final = ("collector", "query", "exporter")
USERS: Final = (ADMIN, USER, *PROGRAMS, "nobody")
PASSWORDS: Final = {user: f"{user}-hunter2" for user in USERS}

OURS: Final = "shop-*"
"""The topics that may be read; a right to read all of them would contain most others."""

LISTED: Final = rights(Config(), OURS)
NEEDED: Final = [right for right in LISTED if " --" not in right.option]  # not only a command does
OF_TAP: Final = next(right for right in LISTED if right.option == "tap --enable")
SHOP: Final = {
    "shop-orders": {
        "num_partitions": 2,
        "replication_factor": 1,
        "configs": {
            "remote.storage.enable": "true",
            "internal.segment.bytes": "102400",
            "local.retention.bytes": "204800",
        },
    },
    "shop-audit": {"num_partitions": 1, "replication_factor": 1},
}
REFUSED: Final = r"(?i)authoriz|no \w+ right|traceback"
LIVE_WITHIN_S: Final = 90
SOON_S: Final = 40
OF_COMMANDS: Final = (
    "missing: ALTER_CONFIGS on the cluster",
    "missing: ALTER on the cluster",
    "missing: READ on group ",
)
ONE_BROKER: Final = {
    "kafka_twin_broker_fetch_follower_local_p99_seconds",
    "kafka_twin_broker_fetch_follower_p99_seconds",
    "kafka_twin_broker_fetch_follower_queue_p99_seconds",
    "kafka_twin_partition_at_risk",
    "kafka_twin_partition_cold_read_records",
}
"""Families about followers, of which there is none. A single replica is not at risk."""

OF_GROUPS: Final = {
    metric.series_name
    for metric in METRICS
    if metric.series_name.startswith(("kafka_twin_group_", "kafka_twin_broker_loss_remote_read_"))
}
"""Families about groups, of which there is none: with one, a topic of offsets comes that this user
may not read."""


@pytest.fixture(scope="module")
def cluster(images: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    with secured_cluster(images["kafka"], folder, PASSWORDS) as secured:
        secured.grant(USER, NEEDED)
        for program in PROGRAMS:
            secured.grant(program, [right for right in NEEDED if program in right.programs])
        secured.admin.create_topics(SHOP, wait_for_metadata=True)
        with KafkaProducer(bootstrap_servers=secured.bootstrap, **secured.login(ADMIN)) as producer:
            for i in range(600):
                producer.send("shop-orders", bytes(1_000), partition=i % 2)
            producer.send("shop-audit", b"x")
            producer.flush()
        yield secured


@pytest.fixture(scope="module", autouse=True)
def programs(
    cluster: Secured, images: dict[str, str], request: pytest.FixtureRequest
) -> Iterator[Programs]:
    """The three programs, in containers. They become live while the first tests run."""
    with Programs(cluster, images, PASSWORDS) as running:
        for program in PROGRAMS:
            running.start(program)
        yield running
        if request.session.testsfailed:
            for program in PROGRAMS:
                print(f"--- {program}\n{running.log(program)[-3_000:]}")


def config(cluster: Secured, user: str = USER, prefix: str = "kafka-twin") -> Config:
    return Config(
        cluster=ClusterConfig(
            name="secured", bootstrap=cluster.bootstrap, client=cluster.login(user)
        ),
        bus=BusConfig(prefix=prefix, shards=2, partitions=2, replication_factor=1),
        collector=CollectorConfig(deadline_ms=2_000),
        eligibility=EligibilityConfig(local_log_ms=600_000),  # or check says that nothing is judged
    )


def missing(settings: Config, at: str) -> list[str]:
    """The configured rights that ``kafka-twin check`` misses on the cluster or the bus."""
    findings = [str(finding) for finding in {"cluster": of_cluster, "bus": of_bus}[at](settings)]
    lines = [line for line in findings if line.startswith("missing: ")]
    return [line for line in lines if not line.startswith("missing: collector.metrics_url")]


def test_with_exactly_these_rights_nothing_is_missing(programs: Programs):
    """In the container of the query, which has all that any program needs."""
    code, output = programs.run("query", USER, "check")
    assert code == 0, output
    *others, verdict = output.splitlines()
    fine = ("ok: ", "source ", "mend: ")
    lines = [line for line in others if not line.startswith(fine)]
    assert len(lines) == len(OF_COMMANDS), lines
    for line, start in zip(lines, OF_COMMANDS, strict=True):
        assert line.startswith(start)
        assert " -> `tap --enable`" in line or " -> `plan " in line
    said = f"the twin can run; {len(lines)} lines above say what it goes without"
    assert verdict == said


@pytest.mark.parametrize("right", NEEDED, ids=str)
def test_a_right_that_is_taken_away_is_said_with_what_it_loses(cluster: Secured, right: Right):
    settings = config(cluster)
    if right.operation == "CREATE":  # of topics that are there nobody asks for it
        settings = config(cluster, prefix=f"kafka-twin.{time.time_ns()}")
    [named] = [
        r for r in rights(settings) if (r.operation, r.wants) == (right.operation, right.wants)
    ]
    lines: list[str] = []

    def says_so() -> bool:
        found = missing(settings, right.at)
        lines[:] = [line for line in found if not line.startswith(OF_COMMANDS)]
        return len(lines) == 1 and lines[0].startswith(f"missing: {named}")

    cluster.revoke(USER, [right])
    try:
        until(says_so, SOON_S, f"it says {lines}")
        said, mend = lines[0].splitlines()
        assert said.endswith(f" -> {named.without}")
        assert mend.startswith("mend: kafka-acls.sh ")
        assert named.without
    finally:
        cluster.grant(USER, [right])


def test_an_option_without_its_right_says_so_and_works_with_it(
    cluster: Secured, programs: Programs
):
    def is_missing() -> bool:
        lines = missing(config(cluster), "cluster")
        return any(line.startswith(f"missing: {OF_TAP} -> ") for line in lines)

    switch = ["tap", "enable", "--broker", "1", "--seconds", "0.1"]
    until(is_missing, SOON_S, "it does not say so")
    code, output = programs.run("collector", USER, *switch)
    assert code == 1
    assert output.splitlines()[-1].startswith("Error: broker 1: kafka.request.logger cannot be ")
    assert "ClusterAuthorizationFailed" in output
    cluster.grant(USER, [OF_TAP])
    try:
        until(lambda: not is_missing(), SOON_S, "it does not help")
        code, output = programs.run("collector", USER, *switch)
        assert code == 0, output
        assert "request log enabled" in output
        assert "request log restored" in output
    finally:
        cluster.revoke(USER, [OF_TAP])


def test_check_lists_each_right_for_a_user_who_has_none(cluster: Secured, programs: Programs):
    code, output = programs.run("query", "nobody", "check")
    assert code == 1
    for right in rights(Config(cluster=ClusterConfig(name="secured"))):
        if right.operation != "CREATE":  # the topics are there, somebody has created them
            assert f"missing: {right}" in output, right
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"CLUSTER_CLIENT_SASL_PLAIN_PASSWORD": "wrong"}, "Authentication failed|a refused login"),
        ({"CLUSTER_CLIENT_SSL_CAFILE": "/secrets/other-ca.pem"}, "certificate verify failed: self"),
        ({"CLUSTER_BOOTSTRAP": STRANGER}, "Hostname mismatch, certificate is not valid for 'str"),
        ({"CLUSTER_CLIENT_SECURITY_PROTOCOL": "SASL_PLAINTEXT"}, "a wrong security_protocol"),
        ({"CLUSTER_CLIENT_SSL_CAFILE": "/nowhere.pem"}, "cluster.client.ssl_cafile: there is no"),
    ],
    ids=["password", "authority", "name", "protocol", "file"],
)
def test_what_is_wrong_with_the_connection_is_one_line(
    programs: Programs, settings: dict[str, str], cause: str
):
    # Its container runs one already, at the port of the image.
    settings = settings | {"METRICS_COLLECTOR_PORT": "0"}
    code, output = programs.run("collector", USER, "collector", **settings)
    assert code == 1
    overridden, line = output.splitlines()
    assert "the environment wins over the file" in overridden
    assert line.startswith("Error: ")
    assert re.search(cause, line)


def test_with_exactly_their_rights_the_programs_serve_everything(
    cluster: Secured, programs: Programs
):
    until(lambda: programs.metrics().is_live, LIVE_WITHIN_S, "the twin is not live")
    # Something to report, so that events go through the query to the exporter.
    cluster.admin.create_topics({"shop-new": {"num_partitions": 1, "replication_factor": 1}})

    def absent() -> set[str]:
        served = {f.name for f in text_string_to_metric_families(programs.served()) if f.samples}
        names = {
            m.series_name for m in METRICS if m.series_name.removesuffix("_total") not in served
        }
        return names - ONLY_WHEN_IT_HAPPENS - ONE_BROKER - OF_GROUPS

    until(lambda: not absent(), SOON_S, f"not served: {absent()}")
    assert set(programs.metrics().by_partition("leader").values()) == {1}
    for program in PROGRAMS:
        assert not re.search(REFUSED, programs.log(program)), program


def test_what_the_collector_may_not_see_any_more_is_kept_and_said(
    cluster: Secured, programs: Programs
):
    """Kafka leaves such topics out of its list, as if they were deleted."""
    before = programs.metrics().by_partition("leader")
    rights_on_shops = [r for r in NEEDED if r.name == OURS or "topics" in r.wants]
    assert len(rights_on_shops) == 2
    cluster.revoke("collector", rights_on_shops)
    try:
        programs.until_logged(
            "collector", r"unavailable +\[collector\].* source=topics .* that were listed", SOON_S
        )
        since = time.time()
        until(lambda: programs.observed_since(since), SOON_S, "the twin is not live")
        assert programs.metrics().by_partition("leader") == before
    finally:
        cluster.grant("collector", rights_on_shops)
    programs.until_logged("collector", r"recovered +\[collector\] source=topics", SOON_S)
    assert "partition_deleted" not in programs.served()


def test_what_the_collector_may_not_write_is_said_and_goes_on_later(
    cluster: Secured, programs: Programs
):
    taken = [r for r in NEEDED if "writing observations" in r.wants]
    log_length = len(programs.log("collector"))
    cluster.revoke("collector", taken)
    try:
        programs.until_logged(
            "collector",
            r"source=bus text='.*kafka-twin.observations.*TopicAuthorizationFailed",
            SOON_S,
            after=log_length,
        )
        until(lambda: programs.metrics().age_s > 5, SOON_S, "it writes on")
    finally:
        cluster.grant("collector", taken)
    since = time.time()
    until(lambda: programs.observed_since(since), SOON_S, "it does not go on")


@pytest.mark.parametrize("wants", ["reading snapshots", "reading events"])
def test_what_the_exporter_may_not_read_is_said_and_goes_on_later(
    cluster: Secured, programs: Programs, wants: str
):
    taken = [r for r in NEEDED if wants in r.wants]
    log_length = len(programs.log("exporter"))
    cluster.revoke("exporter", taken)
    try:
        programs.until_logged(
            "exporter", rf"the bus cannot be read .*{taken[0].name}", SOON_S, after=log_length
        )
    finally:
        cluster.grant("exporter", taken)
    since = time.time()
    until(lambda: programs.observed_since(since), SOON_S, "it does not go on")


def test_remote_segments_that_may_not_be_read_are_said_and_the_rest_goes_on(
    cluster: Secured, programs: Programs
):
    """Kafka hides the topic from Spark, which asks by a pattern and would silently find nothing."""
    [taken] = [r for r in NEEDED if "remote segments" in r.wants]

    def log_line(event: str) -> str:
        return rf"{event} +\[query\] what={taken.name}"

    assert not re.search(log_line("unavailable"), programs.log("query"))
    cluster.revoke("query", [taken])
    try:
        programs.until_logged("query", log_line("unavailable"), SOON_S)
        since = time.time()
        until(lambda: programs.observed_since(since), SOON_S, "the rest does not go on")
    finally:
        cluster.grant("query", [taken])
    programs.until_logged("query", log_line("recovered"), SOON_S)


@pytest.mark.parametrize("wants", ["writing snapshots"])
def test_a_query_that_may_not_write_ends_with_one_line_and_goes_on_when_started_again(
    cluster: Secured, programs: Programs, wants: str
):
    [taken] = [r for r in NEEDED if wants in r.wants]
    cluster.revoke("query", [taken])
    try:
        [line] = until(lambda: errors(programs.log("query")), LIVE_WITHIN_S, "it does not end")
    finally:
        cluster.grant("query", [taken])
    assert "TopicAuthorization" in line
    assert taken.name in line
    assert "Traceback" not in programs.log("query")
    since = time.time()
    until(lambda: programs.observed_since(since), LIVE_WITHIN_S, "it does not go on")


def errors(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith("Error: ")]


def test_no_password_is_in_what_anybody_says(programs: Programs):
    for program in PROGRAMS:
        log = programs.log(program)
        assert len(log) > 100
        assert not [password for password in PASSWORDS.values() if password in log]


def test_spark_leaves_no_password_on_its_disk(programs: Programs):
    """Neither in its checkpoint nor in its log, nor in the states that its workers hand on."""
    _, output = programs.shell("query", "ls -R /var/lib/kafka-twin /tmp")
    assert {"metadata", "spark.log"} <= set(output.split())
    # A file that is replaced while grep comes to it is an error of grep, so it looks again.
    until(
        lambda: programs.shell("query", "grep -rl hunter2 /var/lib/kafka-twin /tmp") == (1, ""),
        otherwise="a file holds the password, or grep never came through",
    )
