"""docs/metrics.md describes every metric that a program serves, and no other."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streaming.admission.own_metrics import OWN as ADMISSION
from streaming.archive.own_metrics import OWN as ARCHIVE
from streaming.collector.own_metrics import OWN as COLLECTOR
from streaming.exporter.metrics.kafka_exporter import NAMES as KAFKA_EXPORTER
from streaming.exporter.own_metrics import OWN as EXPORTER
from streaming.query.own_metrics import OWN as QUERY
from streaming.runtime.exposition.application import WithoutCreated
from streaming.runtime.program_metrics import ProgramMetrics
from streaming.tap.own_metrics import OWN as TAP
from tests.documented import on_page, undocumented
from tests.exporter.test_exporter import a_busy_store, a_full_store, exposition
from twin.builtin import CATALOG
from twin.declarations.declare import LEVEL_LABELS

PROGRAMS = {
    "admission": ADMISSION, "archive": ARCHIVE, "collector": COLLECTOR, "query": QUERY, "tap": TAP,
}  # fmt: skip


@pytest.mark.parametrize("granularity", ["cluster", "topic", "partition"])
@pytest.mark.parametrize("compatibility", ["", "kafka_exporter"])
def test_every_series_of_an_exporter_is_documented(granularity: str, compatibility: str) -> None:
    """The store has groups, and what JMX exporters and taps add."""
    for store in (a_full_store(), a_busy_store()):
        text = exposition(store, granularity=granularity, compatibility=compatibility)
        assert undocumented(text) == []


def test_the_exposition_that_is_compared_has_metrics_of_every_level() -> None:
    text = exposition(a_full_store(), compatibility="kafka_exporter")
    served = {family.name for family in text_string_to_metric_families(text)}
    for level in LEVEL_LABELS:
        at_level = {metric.series_name for metric in CATALOG.all_metrics if metric.level == level}
        assert served & at_level, level
    assert served.issuperset(KAFKA_EXPORTER)


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_every_series_of_a_program_is_documented(program: str) -> None:
    metrics = ProgramMetrics("c", PROGRAMS[program])
    for metric in PROGRAMS[program]:
        labels = ("x",) * len(metric.label_names)
        if metric.type == "counter":
            metrics.add(metric, 1, *labels)
        elif metric.type == "histogram":
            metrics.observe(metric, 1)
        else:
            metrics.set(metric, 1, *labels)
    text = generate_latest(WithoutCreated(metrics.registry)).decode()
    assert len(list(text_string_to_metric_families(text))) == len(PROGRAMS[program])
    assert undocumented(text) == []


def test_nothing_is_documented_that_no_program_declares() -> None:
    programs = [metric for declared in PROGRAMS.values() for metric in declared]
    declared = (*CATALOG.all_metrics, *EXPORTER, *programs)
    assert set(on_page()) == {metric.series_name for metric in declared} | set(KAFKA_EXPORTER)


def test_a_series_that_is_not_documented_is_noticed() -> None:
    one = "# HELP kafka_twin_up 1 while up.\n# TYPE kafka_twin_up gauge\nkafka_twin_up 1\n"
    another = one.replace("kafka_twin_up", "kafka_twin_new")
    assert undocumented(another) == ["kafka_twin_new is not in docs/metrics.md"]
    assert undocumented(one) == [
        f"kafka_twin_up is another in docs/metrics.md: gauge, {on_page()['kafka_twin_up'].meaning}"
    ]
    [row] = [line for line in exposition(a_busy_store()).splitlines() if "_shards{" in line]
    text = f"# HELP kafka_twin_shards {on_page()['kafka_twin_shards'].meaning}\n"
    text += "# TYPE kafka_twin_shards gauge\n"
    assert undocumented(f"{text}{row}\n") == []
    assert undocumented(f'{text}kafka_twin_shards{{shard="1"}} 1\n') == [
        "kafka_twin_shards has the labels shard"
    ]
