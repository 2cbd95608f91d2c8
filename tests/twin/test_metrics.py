"""All metrics follow the conventions that dashboards and alert rules rely on."""

from __future__ import annotations

import re

from streaming.admission.own_metrics import OWN as ADMISSION
from streaming.archive.own_metrics import OWN as ARCHIVE
from streaming.collector.own_metrics import OWN as COLLECTOR
from streaming.exporter.metrics.series import SERIES_LEVELS
from streaming.exporter.own_metrics import OWN
from streaming.query.own_metrics import OWN as QUERY
from streaming.tap.own_metrics import OWN as TAP
from twin.builtin import CATALOG
from twin.declarations.declare import LEVEL_LABELS
from twin.declarations.signature import Reads

METRICS = (*CATALOG.all_metrics, *OWN, *COLLECTOR, *QUERY, *ARCHIVE, *TAP, *ADMISSION)
BY_NAME = {metric.series_name: metric for metric in METRICS}

REFERS_ELSEWHERE = re.compile(
    r"^(it|its|they|their|them|these|those|this|that|of|until|the same)\b"
    r"|\b((those|some|all|none|most|one) of them|of these|the same)\b",
    re.IGNORECASE,
)
"""Words that only another help text could explain."""


def test_a_name_stands_once():
    assert len(BY_NAME) == len(METRICS)


def test_names_are_in_our_namespace_and_in_base_units():
    for name in BY_NAME:
        assert re.fullmatch(r"kafka_twin(_[a-z][a-z0-9]*)+", name)
        assert not re.search(r"_(ms|millis|kb|mb|kib|mib|percent|count)(_|$)", name)


def test_a_unit_is_the_last_word_of_a_name():
    for name in BY_NAME:
        assert not re.search(r"_(seconds|bytes|ratio)_(?!per_second$|total$)", name), name


def test_a_counter_ends_in_total_and_nothing_else_does():
    for name, metric in BY_NAME.items():
        assert name.endswith("_total") == (metric.type == "counter"), name


def test_no_name_ends_as_the_parts_of_a_histogram_do():
    for name in BY_NAME:
        assert not name.endswith(("_sum", "_bucket", "_created")), name


def test_a_name_begins_with_its_level_and_labels_say_what_that_is():
    for name, metric in BY_NAME.items():
        prefix = "kafka_twin_" if metric.level == "cluster" else f"kafka_twin_{metric.level}_"
        assert name.startswith(prefix)
        assert metric.label_names[: len(LEVEL_LABELS[metric.level])] == LEVEL_LABELS[metric.level]
        assert ("partition" in metric.label_names) == (metric.level in SERIES_LEVELS)
        if metric.level == "replica":
            assert metric.label_names == ("topic", "partition", "broker", "rack")


def test_labels_are_written_once_and_none_is_one_that_prometheus_or_the_exporter_sets():
    for name, metric in BY_NAME.items():
        assert len(set(metric.label_names)) == len(metric.label_names), name
        # Every series has the cluster; the others are Prometheus' own.
        assert not {"cluster", "job", "instance", "le", "quantile"} & set(metric.label_names), name
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", label) for label in metric.label_names), name


def test_help_is_a_sentence():
    for name, metric in BY_NAME.items():
        assert re.fullmatch(r"[A-Z0-9][^\n|]*\.", metric.help), name


def test_help_stands_alone():
    for name, metric in BY_NAME.items():
        assert not REFERS_ELSEWHERE.search(metric.help), f"{name}: {metric.help}"
    assert len({metric.help for metric in METRICS}) == len(METRICS)


def test_metrics_that_read_tables_of_each_election_rule_say_which_rule():
    by_rule = [m for m in METRICS if any(p.reads is Reads.EACH_RULE for p in m.reads)]
    assert len(by_rule) > 5
    assert all(metric.labels[0] == "rule" for metric in by_rule)


def test_the_metrics_that_alerts_name_are_declared():
    named = {
        name
        for risk in CATALOG.risks
        for name in re.findall(r"kafka_twin_\w+", risk.alert.description)
    }
    assert named
    assert named <= BY_NAME.keys()
