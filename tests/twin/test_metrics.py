"""The table of metrics keeps the promises that dashboards and alert rules rely on."""

from __future__ import annotations

import re

from twin.metrics import BY_NAME, METRICS

PROMISED = """
    up observation_age_seconds observations_refused_total partitions replicas series_dropped_total
    partitions_offline partitions_under_replicated partitions_under_min_isr partitions_at_min_isr
    partitions_leader_not_preferred partitions_leader_thin
    broker_info broker_answered broker_fenced broker_leaders broker_replicas broker_thin_replicas
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


def test_every_promised_metric_is_there():
    assert {f"kafka_twin_{name}" for name in PROMISED.split()} <= BY_NAME.keys()


def test_a_name_stands_once():
    assert len(BY_NAME) == len(METRICS)


def test_names_are_in_our_namespace_and_in_base_units():
    for metric in METRICS:
        assert re.fullmatch(r"kafka_twin(_[a-z][a-z0-9]*)+", metric.name)
        assert not re.search(r"_(ms|millis|kb|mb|kib|mib|percent|count)(_|$)", metric.name)


def test_a_counter_ends_in_total_and_nothing_else_does():
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name


def test_labels_say_what_the_level_is():
    for metric in METRICS:
        assert "cluster" not in metric.labels  # every series has it
        assert ("partition" in metric.labels) == (metric.level in ("partition", "replica"))
        if metric.level == "replica":
            assert metric.labels == ("topic", "partition", "broker", "rack")


def test_help_is_a_sentence():
    for metric in METRICS:
        assert re.fullmatch(r"[A-Z0-9][^\n|]*\.", metric.help), metric.name
