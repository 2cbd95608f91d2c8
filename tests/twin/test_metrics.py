"""All metrics of the exporter keep the promises that dashboards and alert rules rely on."""

from __future__ import annotations

import re

from streaming.exporter.own_metrics import OWN
from twin.builtin import CATALOG
from twin.declare import LEVEL_LABELS

METRICS = (*CATALOG.metrics, *OWN)
BY_NAME = {metric.series_name: metric for metric in METRICS}

PROMISED = """
    up observation_age_seconds observations_refused_total partitions replicas series_dropped_total
    partitions_offline partitions_under_replicated partitions_under_min_isr partitions_at_min_isr
    partitions_leader_not_preferred partitions_leader_cold
    broker_info broker_answered broker_fenced broker_leaders broker_replicas broker_cold_replicas
    broker_local_log_bytes broker_loss_partitions broker_loss_under_min_isr_partitions
    partition_leader partition_leader_epoch partition_isr_size partition_elr_size
    partition_replicas partition_log_start_offset partition_local_log_start_offset
    partition_log_end_offset partition_last_tiered_offset partition_pending_upload_offset
    partition_next_leader
    replica_log_start_offset replica_local_log_start_offset replica_log_end_offset
    replica_local_log_bytes replica_local_log_span_seconds replica_in_isr replica_in_sync
    replica_election_eligible replica_caught_up_age_seconds replica_lag_records
"""
"""Names that users were promised: a rename breaks their dashboards."""

REFERS_ELSEWHERE = re.compile(
    r"^(it|its|they|their|them|these|those|this|that|of|until|the same)\b"
    r"|\b((those|some|all|none|most|one) of them|of these|the same)\b",
    re.IGNORECASE,
)
"""Words that only another help text could explain."""


def test_every_promised_metric_is_there():
    assert {f"kafka_twin_{name}" for name in PROMISED.split()} <= BY_NAME.keys()


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
        assert ("partition" in metric.label_names) == (metric.level in ("partition", "replica"))
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


def test_what_is_added_to_a_metric_has_labels_to_add():
    assert CATALOG.additions
    for name in CATALOG.additions:
        assert BY_NAME[name].labels, name


def test_the_metrics_that_alerts_name_are_declared():
    named = {
        name
        for risk in CATALOG.risks
        for name in re.findall(r"kafka_twin_\w+", risk.alert.description)
    }
    assert named
    assert named <= BY_NAME.keys()
