"""Settings of the bus topics: a user's win, some are left out, what would break is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.bus import bus_topics
from streaming.runtime.config import Config, ConfigError
from streaming.runtime.configuration.loading import load
from streaming.runtime.kafka import topic_settings


def loaded(tmp_path: Path, text: str, **environment: str) -> Config:
    path = tmp_path / "twin.toml"
    path.write_text(text)
    return load(path, environment)


@pytest.mark.parametrize("name", ["segment.ms", '"segment.ms"'])
def test_a_setting_of_a_topic_wins_with_and_without_quotes(name: str, tmp_path: Path) -> None:
    config = loaded(tmp_path, f"[bus.topics.snapshots]\n{name} = 600000\nmin.insync.replicas = 2")
    assert bus_topics.topic_configs(config)["kafka-twin.snapshots"] == {
        **bus_topics.topic_configs(Config())["kafka-twin.snapshots"],
        "segment.ms": "600000",
        "min.insync.replicas": "2",
    }


def test_default_leaves_each_setting_out_that_is_not_needed(tmp_path: Path) -> None:
    lines = []
    for topic, names in topic_settings.OURS.items():
        lines.append(f"[bus.topics.{topic}]")
        lines += [
            f'{n} = "default"' for n in names if (topic, n) != ("snapshots", "cleanup.policy")
        ]
    config = loaded(tmp_path, "\n".join(lines))
    assert bus_topics.topic_configs(config) == {
        "kafka-twin.observations": {},
        "kafka-twin.snapshots": {"cleanup.policy": "compact"},
        "kafka-twin.events": {},
    }


def test_the_settings_that_can_be_left_out_are_those_of_the_twin() -> None:
    ours = bus_topics.topic_configs(Config()).items()
    assert {topic.rpartition(".")[2]: set(configs) for topic, configs in ours} == {
        topic: set(names) for topic, names in topic_settings.OURS.items()
    }


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "[bus.topics.snapshots]\nsegment.ms = 600000",
        KAFKA_TWIN_BUS_TOPICS_SNAPSHOTS_SEGMENT_MS="default",
        KAFKA_TWIN_BUS_TOPICS_EVENTS_RETENTION_MS="86400000",
    )
    configs = bus_topics.topic_configs(config)
    assert "segment.ms" not in configs["kafka-twin.snapshots"]
    assert configs["kafka-twin.events"]["retention.ms"] == "86400000"


@pytest.mark.parametrize(
    "name", ["BUS_TOPICS_SNAPSHOT_SEGMENT_MS", "BUS_TOPICS_SNAPSHOTS", "BUS_TOPICS_"]
)
def test_a_variable_that_names_no_topic_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"environment: KAFKA_TWIN_{name} names no setting of a"):
        loaded(tmp_path, "", **{f"KAFKA_TWIN_{name}": "1"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[bus.topics.snapshots]\ncleanup.policy = 'delete'", "must be compact"),
        ("[bus.topics.snapshots]\ncleanup.policy = 'default'", "must be compact"),
        ("[bus.topics.snapshots]\ncleanup.policy = 'compact,delete'", "must be compact"),
        ("[bus.topics.events]\ncleanup.policy = 'compact'", "must be delete"),
        ("[bus.topics.observations]\ncleanup.policy = 'delete,compact'", "must be delete"),
        ("[bus.topics.observations]\nretention.ms = 1", "set bus.observations_retention_ms"),
        ("[bus.topics.events]\nmax.message.bytes = 1048587", "must be at least 1048588"),
        ("[bus.topics.events]\nmax.message.bytes = -1", "must be at least 1048588"),
        ("[bus.topics.events]\nsegement.ms = 'default'", "is not set by the twin, which sets"),
        ("[bus.topics.events]\nsegment_ms = 1", "is not like the name of a topic setting"),
        ("[bus.topics.events]\nretention.ms = [1]", "bus.topics.events[...]: Expected `"),
        ("[bus.topics.event]\nretention.ms = 1", "unknown field `event`"),
        ("[bus.topics]\nevents = 1", "Expected `object`, got `int`"),
    ],
)
def test_what_would_break_the_twin_is_refused_by_name(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, text)
    assert "bus.topics" in str(error.value)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_the_smallest_message_size_is_that_of_the_twin(tmp_path: Path) -> None:
    config = loaded(tmp_path, "[bus.topics.events]\nmax.message.bytes = 1048588")
    assert bus_topics.topic_configs(config)["kafka-twin.events"]["max.message.bytes"] == "1048588"


@pytest.mark.parametrize(
    ("refused", "advice"),
    [
        # thingsboard/thingsboard#8861
        (
            "Config property 'segment.bytes' with value '26214400' is lower than the minimum",
            'another value, or segment.bytes = "default" below [bus.topics.snapshots]',
        ),
        ("segment.ms and max.compaction.lag.ms.", 'segment.ms = "default" max.compaction.lag.ms ='),
        # HermesGermany/galapagos#289
        ("Topic replication factor must be 3", "set bus.replication_factor to what it wants"),
        ("Topics may have at most 3 partitions", "set bus.partitions to what it wants"),
        # tulios/kafkajs#625: no word of the cause
        ("Request parameters do not satisfy the configured policy", "if a setting is the cause"),
        ("local.segment.ms is not allowed", "if a setting is the cause"),
    ],
)
def test_a_refusal_leads_to_the_line_that_helps(refused: str, advice: str) -> None:
    assert advice in topic_settings.advice("snapshots", refused)
