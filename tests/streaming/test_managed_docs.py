"""docs/managed.md: its excerpts are configurations, and its claims are those of the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streaming.bus import bus_topics
from streaming.runtime.configuration.loading import load
from streaming.runtime.kafka import topic_settings
from tests.collector.managed import SERVICES

PAGE = (Path(__file__).parents[2] / "docs" / "managed.md").read_text()
SECTIONS: dict[str, str] = dict(re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE))
EXCERPTS = {
    title: excerpt
    for title, text in SECTIONS.items()
    for excerpt in re.findall(r"(?s)```toml\n(.*?)```", text)
}
OF_SERVICES = [title for title in SECTIONS if "Sources: " in SECTIONS[title]]

MAY_BE_SET = {"cleanup.policy", "max.message.bytes", "retention.ms"}
"""Of the settings that may be set on MSK Serverless (its developer guide), those of the twin."""


@pytest.mark.parametrize("title", sorted(EXCERPTS))
def test_each_excerpt_is_a_configuration(title: str, tmp_path: Path) -> None:
    path = tmp_path / "twin.toml"
    path.write_text(EXCERPTS[title])
    config = load(path, {"KAFKA_TWIN_CLUSTER_CLIENT_SASL_PLAIN_PASSWORD": "of-the-test"})
    assert len(bus_topics.topic_configs(config)) == 3


def test_each_service_has_a_section_an_excerpt_and_sources() -> None:
    assert len(OF_SERVICES) == 7
    assert set(OF_SERVICES) <= EXCERPTS.keys()
    for title in OF_SERVICES:
        for word in ("Rights", "Bus topics", "Unknown"):
            assert f"\n* {word}" in SECTIONS[title], (title, word)


def test_the_excerpt_of_msk_serverless_sets_only_what_may_be_set(tmp_path: Path) -> None:
    path = tmp_path / "twin.toml"
    path.write_text(EXCERPTS["Amazon MSK Serverless"])
    configs = bus_topics.topic_configs(load(path, {}))
    assert {name for settings in configs.values() for name in settings} == MAY_BE_SET


def test_the_table_of_costs_has_each_setting_of_the_twin() -> None:
    rows = re.findall(r"(?m)^\| ?([a-z]*) \| ([^|]+) \|", SECTIONS["Topics of the twin"])
    topic, found = "", set()
    for name, settings in rows:
        topic = name or topic
        found |= {(topic, setting) for setting in re.findall(r"`([a-z.]+)`", settings)}
    expected = {
        ("all" if setting == "max.message.bytes" else topic, setting)
        for topic, settings in topic_settings.OURS.items()
        for setting in settings
    }
    assert found == expected


def test_the_services_that_are_played_are_named() -> None:
    for service in SERVICES:
        assert service.replace("-", " ") in PAGE.lower(), service
