"""The declared metrics follow Prometheus' conventions."""

from __future__ import annotations

import re

from streaming.exporter.own_metrics import OWN
from streaming.tap.own_metrics import OWN as TAP
from twin.builtin import CATALOG

METRICS = (*OWN, *TAP, *CATALOG.metrics)


def test_a_name_is_declared_once():
    assert len({metric.series_name for metric in METRICS}) == len(METRICS)


def test_names_are_in_our_namespace_and_in_base_units():
    for metric in METRICS:
        assert re.fullmatch(r"kafka_twin(_[a-z][a-z0-9]*)+", metric.series_name)
        assert not re.search(r"_(ms|millis|kb|mb|kib|mib|percent|count)(_|$)", metric.series_name)


def test_a_counter_ends_in_total_and_nothing_else_does():
    for metric in METRICS:
        counts = metric.type == "counter"
        assert metric.series_name.endswith("_total") == counts, metric.series_name


def test_a_label_is_named_once_and_the_cluster_is_on_every_series_anyway():
    for metric in METRICS:
        assert "cluster" not in metric.label_names
        assert len(set(metric.label_names)) == len(metric.label_names), metric.series_name


def test_help_is_a_sentence_that_names_its_subject():
    for metric in METRICS:
        assert re.fullmatch(r"[A-Z0-9][^\n|]*\.", metric.help), metric.series_name
        assert not re.match(r"(The same|Those|Their|Its|These|Of)\b", metric.help), metric.help
