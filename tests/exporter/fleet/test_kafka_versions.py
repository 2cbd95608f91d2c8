"""Which Kafka the brokers of a cluster run: one, several, or nobody knows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest

from streaming.exporter.fleet.kafka_versions import kafka_version_of
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.metrics.formats import PLAIN
from streaming.exporter.views.cluster import brokers
from streaming.runtime.config import ExporterConfig
from tests.builders import NOW_MS, Partition, a_state, brokers_frame
from tests.console.fleet import behind, simulated, view_of
from twin.builtin import CATALOG
from twin.step import step
from twin.tables.state import Brokers


def table(versions: Mapping[int, str], unlisted: Sequence[int] = ()) -> Brokers:
    frame = brokers_frame(at_ms=NOW_MS + 1, kafka_versions=versions, unlisted=unlisted)
    state, _ = step(a_state(Partition(), brokers=(1, 2, 3)), [frame], NOW_MS + 1)
    return state[Brokers]


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({}, None),
        ({1: "4.0", 2: "4.0", 3: "4.0"}, "4.0"),
        ({1: "4.0", 3: "3.9"}, "3.9 to 4.0"),
        ({1: "3.10", 2: "3.9"}, "3.9 to 3.10"),
        ({1: "0.10.2", 2: "4.3+", 3: "2.8"}, "0.10.2 to 4.3+"),
        ({2: "4.1"}, "4.1"),
        ({1: "trunk", 2: "4.1"}, "trunk to 4.1"),
    ],
)
def test_a_cluster_runs_what_its_brokers_run(versions: Mapping[int, str], expected: str | None):
    assert kafka_version_of(table(versions)) == expected


def test_a_broker_that_is_not_listed_runs_nothing():
    assert kafka_version_of(table({1: "4.0", 2: "3.9", 3: "4.0"}, unlisted=[2])) == "4.0"


def test_each_broker_has_its_version_in_the_api_and_as_a_label():
    view = view_of("c", simulated(behind))
    listed = brokers(view, NOW_MS)["brokers"]
    assert [each["kafka_version"] for each in listed] == ["4.2", "4.2", "4.1", "4.1", "4.1"]
    rendered = Renderer(CATALOG, "c", ExporterConfig()).render(view)
    series = b"".join(rendered.blocks_in(PLAIN)).decode().splitlines()
    infos = [line for line in series if line.startswith("kafka_twin_broker_info{")]
    assert [re.findall('kafka_version="(.*?)"', each) for each in infos] == [
        ["4.2"], ["4.2"], ["4.1"], ["4.1"], ["4.1"],
    ]  # fmt: skip


def test_a_version_that_nobody_knows_is_null():
    view = view_of("c", (a_state(Partition(), brokers=(1,)), simulated()[1]))
    assert [each["kafka_version"] for each in brokers(view, NOW_MS)["brokers"]] == [None]
