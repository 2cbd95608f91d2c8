"""``kafka-twin check`` compares the settings of real bus topics with those that are needed."""

from __future__ import annotations

import shlex

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from streaming.bus import bus_topics
from streaming.checks.bus import of_bus
from streaming.checks.bus_settings import cost_of
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from tests.waiting import until

pytestmark = pytest.mark.cluster

FINE = "ok: bus topics have the settings that the programs need"


def configured(cluster: LocalCluster, prefix: str) -> Config:
    return Config(
        cluster=ClusterConfig(bootstrap=cluster.bootstrap),
        bus=BusConfig(prefix=prefix, shards=2, replication_factor=3),
    )


def said(config: Config) -> list[str]:
    """The lines on bus topics' settings, without their commands."""
    lines = [line for each in of_bus(config) for line in str(each).splitlines()]
    return [line for line in lines if (" = " in line and "bus topic " in line) or line == FINE]


def alter(config: Config, topic: str, **settings: str) -> None:
    values = {name.replace("_", "."): value for name, value in settings.items()}
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, values)
    with KafkaAdminClient(bootstrap_servers=config.cluster.bootstrap) as admin:
        admin.alter_configs([resource], raise_on_unknown=False, incremental=True)


def test_every_setting_has_a_cost() -> None:
    config = Config(cluster=ClusterConfig(bootstrap="localhost:1"))
    for name, settings in bus_topics.topic_configs(config).items():
        short = name.removeprefix(f"{config.bus.prefix}.")
        assert [s for s in settings if cost_of(short, s) is None] == []


def test_topics_that_the_twin_has_created_have_the_settings_that_it_needs(
    cluster: LocalCluster,
) -> None:
    config = configured(cluster, "settings-fine")
    bus_topics.ensure_topics(config)
    until(lambda: said(config) == [FINE], otherwise=lambda: f"said: {said(config)}")


@pytest.mark.parametrize(
    ("topic", "setting", "value", "cost"),
    [
        ("snapshots", "cleanup.policy", "delete", "compaction, or snapshots that last: "),
        ("observations", "retention.ms", "60000", "cycles that the query has not read"),
        ("events", "max.message.bytes", "1000", "large frames: the broker refuses those"),
    ],
)
def test_a_difference_is_said_with_its_cost_and_the_command_that_mends_it(
    cluster: LocalCluster, topic: str, setting: str, value: str, cost: str
) -> None:
    config = configured(cluster, f"settings-{topic}")
    bus_topics.ensure_topics(config)
    name = f"settings-{topic}.{topic}"
    wanted = bus_topics.topic_configs(config)[name][setting]
    alter(config, name, **{setting: value})
    until(lambda: said(config) != [FINE], otherwise="the difference is not found")
    [finding] = [str(each) for each in of_bus(config) if f"bus topic {name}" in str(each)]
    line, mend = finding.splitlines()
    assert line.startswith(
        f"missing: bus topic {name}: {setting} = {value}, not {wanted} -> {cost}"
    )
    assert shlex.split(mend) == [
        "mend:", "kafka-configs.sh", "--bootstrap-server", cluster.bootstrap, "--command-config",
        "admin.properties", "--alter", "--topic", name, "--add-config", f"{setting}={wanted}",
    ]  # fmt: skip
    alter(config, name, **{setting: wanted})
    until(lambda: said(config) == [FINE], otherwise="the command does not mend it")


def test_a_better_value_than_needed_is_no_difference(cluster: LocalCluster) -> None:
    config = configured(cluster, "settings-better")
    bus_topics.ensure_topics(config)
    alter(config, "settings-better.events", retention_ms="-1", max_message_bytes="20000000")
    assert said(config) == [FINE]


@pytest.mark.parametrize(
    ("min_isr", "expected"),
    [
        ("4", "= 4, but its partitions have 3 replicas -> all writes: "),
        ("3", "= 3 equals the number of replicas -> writes while a broker is away"),
    ],
)
def test_a_min_isr_that_stops_writes_is_said(
    cluster: LocalCluster, min_isr: str, expected: str
) -> None:
    config = configured(cluster, f"settings-isr-{min_isr}")
    bus_topics.ensure_topics(config)
    name = f"settings-isr-{min_isr}.events"
    alter(config, name, min_insync_replicas=min_isr)
    until(lambda: said(config) != [FINE], otherwise="the difference is not found")
    [finding] = [each for each in of_bus(config) if f"bus topic {name}: min" in str(each)]
    assert f"min.insync.replicas {expected}" in str(finding)
    assert finding.mend.endswith("--add-config min.insync.replicas=2")
    assert finding.essential == (min_isr == "4")
