"""``docker compose up`` as a user starts it, while containers are lost under it."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from docker import DockerClient
from docker.errors import APIError
from docker.models.containers import Container
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from prometheus_client.parser import text_string_to_metric_families

from streaming.exporter.own_metrics import OWN
from streaming.lab.scripts.scenarios import failover
from streaming.lab.scripts.stage import Stage
from streaming.lab.traffic import STEADY, TOPICS
from streaming.runtime.jars import QUICK_SPARK
from tests.cluster.broker_client import BrokerClient, Key, await_in_sync
from tests.containers.stack import NODES, PROJECT, Stack
from tests.reading import is_of_few
from tests.waiting import until
from twin.builtin import CATALOG

PREFERRED = 0  # an ElectionType
UP_WITHIN_S = 180
GRACE_S = 30
"""How long Kubernetes waits for a program that was asked to end, before it kills it."""

KILLED = 128 + signal.SIGKILL
SOON_S = 30
CYCLE_S = 2  # of the collector, in deploy/docker/demo.toml
LIVE_WITHIN_S = 60
"""The bus is on these brokers: while one that holds part of it is frozen, news waits for Kafka."""

METRICS = (*OWN, *CATALOG.all_metrics)
IN_THE_DEMO = {
    "kafka_twin_partition_cold_read_records",
    "kafka_twin_partition_highest_remote_offset",
    "kafka_twin_partition_orphan_bytes",
    "kafka_twin_partition_remote_log_bytes",
}
"""Metrics of few partitions, of which the demo has some."""

ONLY_WHEN_IT_HAPPENS = {
    "kafka_twin_annotations_total",
    "kafka_twin_broker_capacity_after_loss_lost_broker",  # where [capacity] is set
    "kafka_twin_broker_capacity_after_loss_ratio",
    "kafka_twin_broker_metric_contradicted",
    "kafka_twin_caught_up_error_seconds",
    "kafka_twin_frames_skipped_total",
    "kafka_twin_mcp_calls_total",
    "kafka_twin_observations_refused_total",
    "kafka_twin_replica_timestamp_suspect",
    "kafka_twin_snapshots_refused_total",
    "kafka_twin_topic_eligible_local_log_seconds",
    "kafka_twin_uploads_stopped_seconds",  # where a tiered partition is written
} | {metric.series_name for metric in CATALOG.all_metrics if is_of_few(metric)} - IN_THE_DEMO
"""Families without a series while nothing of the kind is there."""

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.containers]


@pytest.fixture(scope="module")
def begun(
    images: dict[str, str],
    watchers: str,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Stack]:
    """The stack, once all of it is healthy."""
    stack = Stack(tmp_path_factory.mktemp("stack"))
    try:
        stack.up()
        yield stack
        if request.session.testsfailed:
            for service in ("collector", "query", "exporter", "tap-1"):
                print(f"--- {service}\n{stack.log(service)[-3_000:]}")
    finally:
        stack.end()


@pytest.fixture
def stack(begun: Stack) -> Stack:
    """The stack as it should be: all containers run, all replicas are in sync, the twin is live."""
    for status in begun.cluster.status():
        if status.state == "paused":
            begun.cluster.resume(status.id)
    begun.cluster.start()
    for node in NODES:
        with suppress(Exception):  # it is connected
            begun.reconnect(f"kafka-{node}")
    await_in_sync(begun.cluster)
    since = time.time()
    until(lambda: begun.observed_since(since), LIVE_WITHIN_S, "the twin is not live")
    return begun


@pytest.fixture
def stage(stack: Stack) -> Stage:
    """The stage for the demo's scripts."""
    return Stage(stack.cluster, stack.exporter, stack.prometheus, print, threading.Event())


@pytest.fixture(scope="module")
def submitted(
    begun: Stack,
    engine: DockerClient,
    images: dict[str, str],
) -> Iterator[Container]:
    """A driver started like that of a SparkApplication, with the master and files of this machine.

    Asked for before it is looked at: Spark starts while a broker is lost.
    """
    driver = engine.containers.run(
        images["twin-spark"],
        ["driver", "--master", "local[2]", "--conf", "spark.driver.memory=700m",
         "--conf", "spark.app.id=given", "local:///opt/kafka-twin/query.py"],
        environment={
            "KAFKA_TWIN_CLUSTER_BOOTSTRAP": "kafka-1:19092,kafka-2:19092,kafka-3:19092",
            "KAFKA_TWIN_BUS_PREFIX": "submitted",
            "KAFKA_TWIN_BUS_SHARDS": "4",
            "KAFKA_TWIN_QUERY_CHECKPOINT": "file:///tmp/checkpoint",
            **QUICK_SPARK,
        },
        working_dir="/tmp",
        network=f"{PROJECT}_default", detach=True, read_only=True, cap_drop=["ALL"],
        tmpfs={"/tmp": "exec,mode=1777"}, restart_policy={"Name": "on-failure"},
    )  # fmt: skip
    try:
        yield driver
    finally:
        driver.remove(force=True, v=True)


def exit_code(container: Container) -> int:
    """The exit code of a container that has ended; ``KILLED`` if it did not end when asked."""
    container.reload()
    return int(container.attrs["State"]["ExitCode"])


def leaders(stack: Stack, node: int = 1) -> dict[Key, int]:
    return BrokerClient(stack.cluster).leaders(node)


def predicted(stack: Stack, lost: int) -> dict[Key, int]:
    """The next leaders of the partitions that a broker leads now."""
    led = stack.api(f"partitions?broker={lost}&limit=1000")["partitions"]
    return {
        (p["topic"], p["partition"]): p["next_leaders"]["kafka"]["leader"]
        for p in led
        if p["leader"] == lost
    }


def leads_again(stack: Stack, node: int) -> bool:
    """A broker leads what it is to lead; asked for as long as the twin does not see it."""
    led: dict[str, list[int]] = {}
    for topic, number in leaders(stack):
        led.setdefault(topic, []).append(number)
    with (
        suppress(KafkaError),
        KafkaAdminClient(bootstrap_servers=stack.cluster.bootstrap) as admin,
    ):
        admin.elect_leaders(PREFERRED, led, raise_errors=False)
    return bool(predicted(stack, node))


def test_it_is_up_and_healthy(begun: Stack):
    stack = begun
    services = stack.services()
    expected = {"kafka-1", "traffic", "collector", "tap-1", "query", "exporter", "prometheus"}
    assert expected <= set(services)
    assert {c.status for c in services.values()} == {"running"}
    until(lambda: stack.metrics().is_live, LIVE_WITHIN_S, "the twin is not live")


def test_no_service_runs_as_root_or_writes_beside_its_volumes_or_is_open_to_others(stack: Stack):
    for service, container in stack.services().items():
        host = container.attrs["HostConfig"]
        for bindings in (host["PortBindings"] or {}).values():
            assert [b["HostIp"] for b in bindings] == ["127.0.0.1"]
        if container.attrs["Config"]["Image"].startswith("kafka-twin-test"):
            continue  # what stands here for the public images
        assert host["ReadonlyRootfs"], service
        assert host["CapDrop"] == ["ALL"], service
        assert container.attrs["Config"]["User"] == "10001:10001", service


def test_each_tap_reads_the_logs_of_its_broker_and_of_no_other(stack: Stack):
    for node in NODES:
        logs = [
            (mount["Name"], mount["RW"])
            for mount in stack.container(f"tap-{node}").attrs["Mounts"]
            if mount["Type"] == "volume"
        ]
        assert logs == [(f"{PROJECT}_kafka-{node}-logs", False)]


def test_what_followers_fetch_is_known_of_the_demos_partitions(stack: Stack):
    """A leader's own high watermark is in its answers to fetches, which taps alone read."""
    until(lambda: not of_unknown_fetches(stack), LIVE_WITHIN_S, "fetches are unknown")


def of_unknown_fetches(stack: Stack) -> list[str]:
    """Partitions with traffic and followers, of which no tap has seen a fetch."""
    written_to = [name for name in STEADY if name != "scratch"]  # that has no follower
    partitions = [
        p
        for topic in written_to
        for p in stack.api(f"partitions?topic={topic}&limit=1000")["partitions"]
    ]
    assert len(partitions) == sum(TOPICS[name]["num_partitions"] for name in written_to)
    return [f"{p['topic']}-{p['partition']}" for p in partitions
            if p["high_watermark_source"] != "leader"]  # fmt: skip


def test_every_metric_is_served(stack: Stack):
    has: set[str] = set()  # one moment has not all: cold reads come and go with rounds of retention

    def missing() -> set[str]:
        text = stack.get(f"{stack.exporter}/metrics")
        has.update(f.name for f in text_string_to_metric_families(text) if f.samples)
        names = {m.series_name for m in METRICS if m.series_name.removesuffix("_total") not in has}
        return names - ONLY_WHEN_IT_HAPPENS

    until(lambda: not missing(), LIVE_WITHIN_S, "something is not served")


def test_prometheus_scrapes_it_and_its_rules_are_in_order(stack: Stack):
    def scraped(name: str) -> list[float]:
        answer = stack.get(f"{stack.prometheus}/api/v1/query?query={name}")
        result = json.loads(answer)["data"]["result"] if answer else []
        return [float(series["value"][1]) for series in result]

    until(lambda: scraped("kafka_twin_up") == [1], SOON_S, "nothing is scraped")
    for name in ("kafka_twin_collector_cycles_total", "kafka_twin_query_batches_total"):
        until(lambda name=name: any(scraped(name)), SOON_S, f"{name} is not scraped")
    groups = json.loads(stack.get(f"{stack.prometheus}/api/v1/rules"))["data"]["groups"]
    health = {rule["health"] for group in groups for rule in group["rules"]}
    assert len(groups) >= 3
    assert health <= {"ok", "unknown"}, health  # unknown: not evaluated yet


@pytest.mark.usefixtures("submitted")
def test_a_killed_broker_leaves_the_predicted_leaders_and_its_alert_fires_and_resolves(
    stage: Stage,
):
    failover(stage)
    stage.await_alerts_resolved()


def test_a_query_that_spark_submit_starts_takes_its_session(submitted: Container):
    def is_alive() -> bool:
        with suppress(APIError):  # it ended, as the broker that it asked did, and is begun again
            return bool(submitted.exec_run(["kafka-twin-alive", "query"]).exit_code == 0)
        return False

    until(is_alive, UP_WITHIN_S, "it does not run")
    memory = submitted.exec_run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).output
    assert b"-Xmx700m" in memory
    submitted.stop(timeout=GRACE_S)
    # Java is asked first here, and ends Spark under the query: the batch is repeated later.
    assert exit_code(submitted) != KILLED
    assert "running" in submitted.logs().decode()


def test_a_paused_broker_is_reported_and_its_partitions_go_to_the_predicted_leaders(stack: Stack):
    expected = predicted(stack, 3)
    assert expected
    stack.cluster.pause(3)
    until(
        lambda: stack.metrics().value("broker_answered", broker=3) == 0, LIVE_WITHIN_S, "not seen"
    )
    asking_others = [n for n in NODES if n != 3]
    until(
        lambda: all(leaders(stack, asking_others[0]).get(k) == v for k, v in expected.items()),
        LIVE_WITHIN_S,
        "Kafka elects others",
    )
    until(
        lambda: stack.metrics().by_partition("leader").items() >= expected.items(),
        LIVE_WITHIN_S,
        "the twin does not see them lead",
    )
    stack.cluster.resume(3)
    until(
        lambda: stack.metrics().value("broker_answered", broker=3) == 1, LIVE_WITHIN_S, "not back"
    )


def test_a_broker_cut_from_the_network_is_as_lost_as_a_dead_one(stack: Stack):
    expected = predicted(stack, 2)
    assert expected
    stack.cut_off("kafka-2")
    until(
        lambda: all(leaders(stack).get(key) == leader for key, leader in expected.items()),
        LIVE_WITHIN_S,
        "Kafka elects others",
    )
    until(
        lambda: stack.metrics().by_partition("leader").items() >= expected.items(),
        LIVE_WITHIN_S,
        "the twin does not see them lead",
    )
    stack.reconnect("kafka-2")
    until(
        lambda: stack.metrics().value("broker_answered", broker=2) == 1, LIVE_WITHIN_S, "not back"
    )


def made(stack: Stack, topic: str) -> bool:
    """The topic is there; asked for as long as it is not.

    A broker that was cut off may wait for the controller on a connection that is dead, for 30 s.
    """
    with KafkaAdminClient(bootstrap_servers=stack.cluster.bootstrap) as admin:
        with suppress(KafkaError):
            admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 3}})
        return topic in admin.list_topics()


def deleted(stack: Stack, topic: str) -> bool:
    """The topic is gone; asked for as long as it is not."""
    with KafkaAdminClient(bootstrap_servers=stack.cluster.bootstrap) as admin:
        with suppress(KafkaError):
            admin.delete_topics([topic])
        return topic not in admin.list_topics()


def test_spark_killed_in_mid_batch_goes_on_from_the_volume_and_reports_everything_once(
    stack: Stack,
):
    """All else is ended and begun anew as well; what happened meanwhile is over by then."""

    def created() -> set[str]:
        return {e["id"] for e in stack.events()
                if e["kind"] == "partition_created" and e["topic"] != "meanwhile"}  # fmt: skip

    before, partitions = created(), set(stack.metrics().by_partition("leader"))
    stack.container("query").kill()  # a batch each half second, in which something always runs
    until(lambda: made(stack, "meanwhile"), LIVE_WITHIN_S, "no topic is created")
    time.sleep(3 * CYCLE_S)  # the collector alone sees it
    until(lambda: deleted(stack, "meanwhile"), LIVE_WITHIN_S, "the topic is not deleted")
    time.sleep(3 * CYCLE_S)
    assert not any(e.get("topic") == "meanwhile" for e in stack.events())

    stack.down(keep_volumes=True)
    assert stack.services() == {}
    stack.up()
    since = time.time()
    until(lambda: stack.observed_since(since), LIVE_WITHIN_S, "the twin is not live")
    assert set(stack.metrics().by_partition("leader")) == partitions
    events = [(e["kind"], e["partition"]) for e in stack.events() if e.get("topic") == "meanwhile"]
    for number in (0, 1):
        assert events.count(("partition_created", number)) == 1
        assert events.count(("partition_deleted", number)) == 1
    # A state that began anew would report every partition as new, at another time.
    assert created() == before
    assert "state_discarded" not in {e["kind"] for e in stack.events()}


def test_all_brokers_are_restarted_one_after_the_other(stack: Stack):
    for node in NODES:
        until(lambda node=node: leads_again(stack, node), LIVE_WITHIN_S, "it leads nothing")
        expected = {k: leader for k, leader in predicted(stack, node).items() if leader > 0}
        stack.cluster.term(node)
        other = next(n for n in NODES if n != node)
        led_by = leaders(stack, other)
        assert {key: led_by[key] for key in expected} == expected
        stack.cluster.start()
        await_in_sync(stack.cluster)
        since = time.time()
        until(
            lambda since=since: stack.observed_since(since), LIVE_WITHIN_S, "the twin is not live"
        )
    metrics = stack.metrics()
    assert metrics.by_partition("leader") == leaders(stack)
    assert metrics.total("observations_refused_total") == 0


@pytest.mark.parametrize("service", ["exporter", "collector", "query", "tap-1"])
def test_a_stop_is_clean(stack: Stack, service: str):
    """SIGTERM, an exit of 0, nothing left that hangs until it is killed."""
    container = stack.container(service)
    container.stop(timeout=GRACE_S)
    assert exit_code(container) == 0
    assert "stopped" in stack.log(service)
    container.start()
    # Before it handles any signal, but not before process 1 has begun it: that one's first
    # milliseconds belong to nobody.
    until(lambda: len(container.top()["Processes"]) > 1, SOON_S, "it is not begun")
    container.stop(timeout=GRACE_S)
    assert exit_code(container) != KILLED
    container.start()


def test_beside_it_the_archive_is_written_and_the_exporter_answers_from_it(stack: Stack):
    stack.add("docker-compose.archive.yml")
    until(
        lambda: "archived: " in stack.get(f"{stack.exporter}/healthz"), 120, "nothing is archived"
    )
    assert "Traceback" not in stack.log("archive")

    def archived() -> bool:
        then = stack.api("partitions?limit=1000&at=-30s")
        return bool(then and then["complete"] and then["total"] >= len(leaders(stack)))

    until(archived, 180, "the archive does not reach that far back")
    scraped = f"{stack.prometheus}/api/v1/query?query=kafka_twin_archive_batches_total"
    until(lambda: '"__name__"' in stack.get(scraped), SOON_S, "Prometheus does not scrape it")
    container = stack.container("archive")
    container.stop(timeout=GRACE_S)
    assert exit_code(container) == 0


def test_the_compose_file_names_images_of_one_version_and_files_that_are_there():
    folder = Path(__file__).resolve().parents[2]
    settings = dict(
        line.split("=", 1)
        for line in (folder / ".env").read_text().splitlines()
        if "=" in line and not line.startswith("#")
    )
    assert (folder / settings["TWIN_CONFIG"]).is_file()
    assert (folder / settings["CA_BUNDLE"]).is_file()
    project = (folder / "pyproject.toml").read_text()
    assert f'version = "{settings["KAFKA_TWIN_VERSION"]}"' in project
    for image in ("PROMETHEUS_IMAGE", "ALERTMANAGER_IMAGE", "GRAFANA_IMAGE"):
        assert settings[image].rpartition(":")[2][-1].isdigit(), "a version, no name that moves"
