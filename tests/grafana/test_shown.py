"""Every finding that is exported is on a panel or in an alert, or it is said why it is not."""

from __future__ import annotations

import re
from typing import Final

from grafana.__main__ import DASHBOARDS
from tests.grafana.pages import ROOT
from tests.grafana.test_dashboards import parsed, queries, selectors
from twin.builtin import CATALOG

RULES: Final = ROOT / "deploy" / "prometheus" / "rules"

NOT_SHOWN: Final = {
    "a panel shows the same by topic, by group or in bytes": (
        "partition_cold_read_records",
        "group_if_leader_lost_remote_records",
        "group_topic_if_leader_lost_remote_records",
        "group_topic_if_leader_lost_remote_bytes",
        "group_partition_if_leader_lost_remote_bytes",
        "group_topic_until_remote_seconds",
        "group_topic_until_loss_seconds",
        "group_topic_lag_seconds",
        "group_partition_lag_seconds",
        "group_topic_remote_records",
        "orphan_segments",
        "remote_lineage_bytes",
        "broker_loss_remote_read_seconds",
        "broker_one_replica_partitions",
        "broker_one_replica_accepted_partitions",
        "broker_leader_even_share_ratio",
        "broker_min_insync_replicas",
        "broker_log_cleaner_dead_threads",
        "broker_uncleanable_partitions",
    ),
    "a panel shows what follows from it": (
        "replicas",
        "partitions_leader_not_preferred",
        "partitions_by_replica_selector",
        "broker_upload_lag_open_bytes",
        "broker_metric_difference",
    ),
    "the console and the API show it for a partition or a replica": (
        "partition_leader_epoch",
        "partition_elr_size",
        "replica_timestamp_suspect",
        "partitions_in_tier_disorder",
        "partitions_by_tier_state",
        "partition_overdue_bytes",
    ),
    "it counts what is not known or not judged; kafka-twin check and the API say why": (
        "replicas_coverage_not_judged",
        "partitions_cold_read_unknown",
        "partitions_tiered_compacted",
        "segments_not_described",
        "group_offsets_left_out",
        "broker_metrics_age_seconds",
        "frames_skipped_total",
    ),
    "an estimate for whoever discusses KIP-1303": ("kip1303_reports_per_second",),
}


def test_each_finding_is_on_a_panel_or_in_an_alert_or_it_is_said_why_not():
    on_panels = {
        selector.name
        for dashboard in DASHBOARDS
        for _, expr, _ in queries(dashboard)
        for selector in selectors(parsed(expr))
    }
    rules = "".join(path.read_text() for path in RULES.rglob("*.y*ml"))
    shown = on_panels | set(re.findall(r"\bkafka_twin_\w+", rules))
    exported = {
        metric.series_name: metric.series_names
        for metric in CATALOG.all_metrics
        if metric.compute is not None
    }
    left_out = {name for name, series in exported.items() if not shown.intersection(series)}
    listed = [f"kafka_twin_{name}" for names in NOT_SHOWN.values() for name in names]
    assert sorted(left_out) == sorted(listed)
