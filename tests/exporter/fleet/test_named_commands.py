"""Commands in answers about one of several clusters name it: whoever pastes them need not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from streaming.cli.main import main
from streaming.exporter.fleet.fleet_application import fleet_application
from streaming.exporter.web_application import application
from streaming.runtime.configuration.chosen import naming
from tests.console.fleet import SMALL, ShownFleet, Simulated, filling, simulated
from tests.exporter.serving import served
from tests.exporter.test_disk_full import MINUTES, volumes
from tests.twin.disks.stage import PLAIN, Growing, cycles, one_shard
from twin.builtin import CATALOG


def with_room_elsewhere() -> Simulated:
    """The disk of a broker will be full, and others have room."""
    fills = Growing(replicas=(1,))
    return one_shard(cycles([fills], volumes([36, 800, 800]), {fills.topic: PLAIN}, MINUTES))


def cold() -> Simulated:
    return simulated(shape=replace(SMALL, eligible_ms=3_600_000))


SHOWN: dict[str, Callable[[], Simulated]] = {
    "/api/v1/plans/demote?broker=1": simulated,
    "/api/v1/runbook": lambda: filling(12),
    "/api/v1/brokers/log-dirs": with_room_elsewhere,
    "/api/v1/partitions/topic-0-0/0/runbook": cold,
}


def texts_in(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for each in value.values():
                yield from texts_in(each)
        case list():
            for each in value:
                yield from texts_in(each)
        case str():
            yield value


def commands_in(answer: Any) -> list[str]:
    """Those of kafka-twin between backticks, or alone."""
    found = [re.findall(r"(?:^|(?<=`))kafka-twin [^`]+", each) for each in texts_in(answer)]
    return [each for them in found for each in them]


@pytest.mark.parametrize("path", SHOWN)
def test_commands_of_one_of_several_clusters_name_it_and_those_of_the_only_one_do_not(path: str):
    shown = ShownFleet()
    shown.show({"orders.eu": SHOWN[path](), "payments": simulated()}, {})
    source = shown.clusters.source("orders.eu")
    alone = commands_in(TestClient(application(source)).get(path).json())
    assert alone
    assert not any("--cluster" in each for each in alone)
    fleet = TestClient(fleet_application(shown.clusters, CATALOG))
    named = commands_in(fleet.get(f"/clusters/orders.eu{path}").json())
    assert named == [f"{each} --cluster orders.eu" for each in alone]


def test_the_command_line_prints_commands_about_the_cluster_that_it_was_asked_about():
    shown = ShownFleet()
    shown.show({"orders.eu": simulated()}, {})
    asked, env = ["plan", "demote", "--broker", "1"], {"KAFKA_TWIN_CLUSTER_NAME": "orders.eu"}
    alone = application(shown.clusters.source("orders.eu"))
    for app, given, said in (
        (alone, [], "`kafka-twin plan restore`"),
        (shown.app(), ["--cluster", "orders.eu"], "`kafka-twin plan restore --cluster orders.eu`"),
    ):
        with served(app) as url:
            output = CliRunner(env=env).invoke(main, [*asked, "--url", url, *given]).output
        assert output.count("kafka-twin ") == output.count(said) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ask `kafka-twin check`.", "ask `kafka-twin check --cluster c`."),
        ("`kafka-twin a` or `kafka-twin b --c`",
         "`kafka-twin a --cluster c` or `kafka-twin b --c --cluster c`"),
        ("`kafka-twin check --cluster other` stays", "`kafka-twin check --cluster other` stays"),
        ("kafka-twin moves no data", "kafka-twin moves no data"),
        ("`kafka-topics.sh --list`", "`kafka-topics.sh --list`"),
        ('{"command":"kafka-twin check"}', '{"command":"kafka-twin check --cluster c"}'),
        ('{"group":"kafka-twin check"}', '{"group":"kafka-twin check"}'),
        (r'{"group":"`kafka-twin \\"}', r'{"group":"`kafka-twin \\"}'),
    ],
)  # fmt: skip
def test_a_command_is_named_once_and_other_text_stays(text: str, expected: str):
    assert naming("c", text) == expected
    assert naming("c", expected) == expected
    assert naming("", text) == text
