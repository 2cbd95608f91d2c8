"""Bus topics on a real broker whose policy refuses settings, as those of managed services do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from streaming.bus import bus_topics
from streaming.bus.connection import BusError
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from tests.broker_classes import on_the_class_path

pytestmark = pytest.mark.cluster

POLICY = Path(__file__).parent / "java" / "Policy.java"
MOST_REFUSALS = 8


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node that is broker and controller."""
    folder = tmp_path_factory.mktemp("strict")
    agent = f"-javaagent:{on_the_class_path(folder, POLICY)}"
    local = LocalCluster(
        folder / "cluster", nodes=1, base_port=free_base_port(), metrics=False,
        settings={"create.topic.policy.class.name": POLICY.stem},
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        # Formatting the disk loads the class as well, in a JVM of its own.
        patch.setenv("JAVA_TOOL_OPTIONS", agent)
        try:
            local.start()
            yield local
        finally:
            local.stop()


def configured(folder: Path, cluster: LocalCluster, more: str) -> Config:
    """As from a file."""
    path = folder / "twin.toml"
    path.write_text(f"[cluster]\nbootstrap = '{cluster.bootstrap}'\n{more}")
    return load(path, {})


def test_what_is_refused_can_be_left_out_by_the_lines_that_the_errors_name(
    strict: LocalCluster, tmp_path: Path
) -> None:
    """As a user who knows nothing but the errors."""
    by_topic: dict[str, list[str]] = {}

    def refused() -> str:
        lines = [f"[bus.topics.{topic}]\n" + "\n".join(of) for topic, of in by_topic.items()]
        text = "[bus]\nprefix = 'managed'\n" + "\n".join(lines)
        try:
            bus_topics.ensure_topics(configured(tmp_path, strict, text))
        except BusError as error:
            return str(error)
        return ""

    for _ in range(MOST_REFUSALS):
        if not (why := refused()):
            break
        said = re.search(r'([a-z.]+ = "default") below \[bus\.topics\.([a-z]+)\]', why)
        assert said is not None, why
        assert f"bus topic managed.{said[2]}: cannot be created: Config property" in why
        assert "docs/managed.md" in why
        by_topic.setdefault(said[2], []).append(said[1])
    assert {topic: len(lines) for topic, lines in by_topic.items()} == {
        "observations": 1,
        "snapshots": 4,
    }
    left = overridden(strict, "managed.snapshots")
    assert {"cleanup.policy": "compact", "segment.bytes": "67108864"}.items() <= left.items()
    assert not left.keys() & {"segment.ms", "max.compaction.lag.ms", "delete.retention.ms"}


def overridden(cluster: LocalCluster, topic: str) -> dict[str, str]:
    """The settings that a topic has of its own."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    finally:
        admin.close()
    of_topic = described["topic"][topic]
    return {
        name: config["value"]
        for name, config in of_topic.items()
        if config["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    }


def test_a_value_that_is_out_of_range_can_be_another(strict: LocalCluster, tmp_path: Path) -> None:
    text = """
        [bus]
        prefix = "small"
        [bus.topics.observations]
        segment.ms = "default"
        [bus.topics.snapshots]
        segment.ms = "default"
        min.cleanable.dirty.ratio = "default"
        max.compaction.lag.ms = "default"
        delete.retention.ms = "default"
        segment.bytes = 26214400
    """
    with pytest.raises(BusError, match=r"minimum allowed value of 52428800: another value, or"):
        bus_topics.ensure_topics(configured(tmp_path, strict, text))
    bus_topics.ensure_topics(configured(tmp_path, strict, text.replace("26214400", "52428800")))
    assert overridden(strict, "small.snapshots")["segment.bytes"] == "52428800"


def test_replicas_that_are_refused_lead_to_their_setting(
    strict: LocalCluster, tmp_path: Path
) -> None:
    text = "[bus]\nprefix = 'replicas'\nreplication_factor = 2\n"
    with pytest.raises(BusError, match=r"factor of 2 .*: set bus\.replication_factor to "):
        bus_topics.ensure_topics(configured(tmp_path, strict, text))
