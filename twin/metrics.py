"""What is exported, as a table: name, type, labels, meaning, and when.

The exporter renders these and nothing else; docs/metrics.md is generated from here; dashboards and
alert rules are checked against it. Units are in the names, as Prometheus wants them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Level = Literal["always", "topic", "partition", "replica"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One family of series. Every series carries ``cluster`` beside its own labels."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...] = ()
    level: Level = "always"


_P, _R = ("topic", "partition"), ("topic", "partition", "broker", "rack")


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"kafka_twin_{name}", "gauge", text, labels)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"kafka_twin_{name}_total", "counter", text, labels)


def _topic(name: str, text: str) -> Metric:
    return Metric(f"kafka_twin_topic_{name}", "gauge", text, ("topic",), "topic")


def _partition(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"kafka_twin_partition_{name}", "gauge", text, (*_P, *labels), "partition")


def _replica(name: str, text: str) -> Metric:
    return Metric(f"kafka_twin_replica_{name}", "gauge", text, _R, "replica")


METRICS: Final = (
    _gauge("up", "1 while the twin's knowledge is complete and fresh, else 0."),
    _gauge("observation_age_seconds", "Age of the stalest shard's newest observation."),
    _gauge("shards", "Shards whose snapshot has been read."),
    _gauge("cycle_seconds", "Time between the two newest cycles of the collector."),
    _gauge("told_after_seconds",
           "From the newest observations to the snapshots made of them, of the slowest shard."),
    _gauge("state_bytes", "Size of the query's state, as it is on disk and on the bus."),
    _counter("observations_refused", "Observations the twin could not use.", "reason"),
    _counter("snapshots_refused", "Snapshots and events the exporter could not use.", "reason"),
    _counter("events", "Changes the twin told of.", "kind"),
    _counter("annotations",
             "Grafana annotations: posted, gathered (events that became one), dropped, refused.",
             "result"),
    _counter("exporter_snapshots_read", "Snapshots the exporter took, parts counted one by one."),
    _gauge("exporter_render_seconds", "Time it took to render the newest snapshots."),
    _gauge("exporter_series", "Series of partitions and replicas in the exposition."),
    _counter("series_dropped", "Series left out of an exposition because of max_series."),
    _gauge("partitions", "Partitions the twin knows."),
    _gauge("replicas", "Assigned replicas the twin knows."),
    _gauge("partitions_offline", "Partitions without a leader."),
    _gauge("partitions_under_replicated",
           "Partitions with fewer in-sync replicas than assigned, not counting those being added."),
    _gauge("partitions_under_min_isr", "Partitions with fewer in-sync replicas than min ISR."),
    _gauge("partitions_at_min_isr", "Partitions with exactly min ISR in-sync replicas."),
    _gauge("partitions_leader_not_preferred", "Partitions led by another than replica 0."),
    _gauge("partitions_leader_thin", "Partitions whose leader is thin (KIP-1303)."),
    _gauge("partitions_thin_leader_kept",
           "Thin leaders that KIP-1303 leaves in place: the first in its order cannot lead."),
    _gauge("partitions_balancer_noop",
           "Partitions that balancing visits for nothing under KIP-1303: replica 0 is thin."),
    _gauge("partitions_at_risk", "Partitions with a risk.", "risk", "severity"),
    _gauge("replicas_coverage_assumed", "Replicas taken as eligible because a number is unknown."),
    _gauge("replicas_local_log_unknown", "Replicas whose local log no sum of bytes can include."),
    _gauge("replicas_timestamp_suspect",
           "Replicas whose first local record is dated before it can have been written."),
    _gauge("kip1303_reports_per_second",
           "AlterPartition reports KIP-1303 would add, by what is reported.", "report"),
    _gauge("partitions_by_join_path",
           "Partitions by where an empty follower would start, with KIP-1023 on and off.",
           "feature", "path"),
    _gauge("join_bytes",
           "What empty followers of all partitions would copy, estimated, KIP-1023 on and off.",
           "feature"),
    _gauge("replicas_joining", "Replicas on their way into the ISR, by the path they took.",
           "path"),
    _gauge("replicas_joining_stuck", "Those of them that do not move, by reason.", "reason"),
    _gauge("replicas_out_of_range_window",
           "Followers that cannot serve a window of offsets, by KIP-392's cases.", "case"),
    _gauge("isr_shrinks_recent", "Replicas that left an ISR in the last 10 minutes.", "verdict"),
    _gauge("isr_shrinks_preventable",
           "The same, by whether KIP-501's solution 1 would have kept them: yes, no, unknown.",
           "kept"),
    _gauge("isr_flaps", "Those of them that came back."),
    _gauge("partitions_with_known_segments", "Partitions whose remote segments are known."),
    _gauge("remote_log_bytes", "Finished copies in remote storage, of those partitions."),
    _gauge("remote_lineage_bytes", "Of these, what belongs to the logs."),
    _gauge("orphan_segments", "Finished copies that belong to no log any more."),
    _gauge("orphan_bytes", "Their size."),
    _gauge("dangling_uploads", "Copies that were started and not finished."),
    _gauge("tier_gaps", "Partitions with offsets in no copy and on no live replica."),
    _gauge("tier_overlaps", "Copies that begin inside another of the same log."),
    _gauge("segment_transitions_refused", "Events of segments that none can go through."),
    _gauge("rack_leaders", "Leaders in the rack, now or once leaders are balanced under a rule.",
           "rack", "rule"),
    _gauge("rack_leader_skew", "Leaders of the rack with the most over the mean of all racks.",
           "rule"),
    _gauge("rack_preferred_thin", "Preferred leaders (replica 0) in the rack that are thin.",
           "rack"),
    _gauge("rack_preferred_never_eligible",
           "Those of them that cannot reach a threshold as things are.", "rack"),
    _gauge("rack_preferred_eligible_unknown",
           "Those of them of which nobody can tell when they will.", "rack"),
    _gauge("rack_seconds_to_balance",
           "Until the last of the others is eligible and leaders can be balanced.", "rack"),
    _gauge("broker_info", "1 for every registered broker.", "broker", "rack", "host"),
    _gauge("broker_answered", "1 if it answered the newest cycle in time.", "broker", "rack"),
    _gauge("broker_fenced", "1 if the controller keeps the broker out.", "broker", "rack"),
    _gauge("broker_leaders", "Partitions the broker leads.", "broker", "rack"),
    _gauge("broker_replicas", "Replicas assigned to the broker.", "broker", "rack"),
    _gauge("broker_thin_replicas", "Its replicas with too little local log to lead (KIP-1303).",
           "broker", "rack"),
    _gauge("broker_local_log_bytes", "Local log of its replicas, of those whose size is known.",
           "broker", "rack"),
    _gauge("broker_log_dir_usable_bytes", "Free space of its log volumes.", "broker", "rack"),
    _gauge("broker_loss_partitions",
           "Partitions the broker leads, by what losing it would do to them under a rule.",
           "broker", "rack", "rule", "outcome"),
    _gauge("broker_loss_under_min_isr_partitions",
           "Partitions that losing the broker would leave with fewer than min ISR in sync.",
           "broker", "rack"),
    _gauge("broker_cold_read_partitions",
           "Partitions for which consumers are sent to it to read from remote storage for no need.",
           "broker", "rack"),
    _gauge("broker_isr_shrinks_recent",
           "Replicas that left the ISR of partitions it leads in the last 10 minutes.",
           "broker", "rack"),
    _gauge("broker_metrics_age_seconds",
           "Age of what was last read from the broker's JMX exporter, at the newest cycle.",
           "broker", "rack"),
    _gauge("broker_fetch_follower_p99_seconds",
           "Slowest hundredth of followers' fetches, waiting included, by the broker.",
           "broker", "rack"),
    _gauge("broker_fetch_follower_local_p99_seconds",
           "The same, only the time the broker worked on them.", "broker", "rack"),
    _gauge("broker_request_queue_size", "Requests that wait for a handler, by the broker.",
           "broker", "rack"),
    _gauge("broker_remote_copy_lag_bytes",
           "Closed segments the broker says it has not uploaded, internal topics left out.",
           "broker", "rack"),
    _gauge("broker_remote_copy_errors_per_second", "Uploads that failed, by the broker.",
           "broker", "rack"),
    _gauge("broker_remote_fetch_requests_per_second",
           "Reads from remote storage for consumers, by the broker.", "broker", "rack"),
    _gauge("broker_remote_fetch_bytes_per_second", "Bytes of these.", "broker", "rack"),
    _gauge("broker_remote_fetch_errors_per_second", "Those of them that failed.",
           "broker", "rack"),
    _gauge("broker_remote_reader_queue_size", "Reads that wait for a reader thread.",
           "broker", "rack"),
    _gauge("broker_remote_reader_idle_ratio",
           "Share of the broker's reader threads that have nothing to do.", "broker", "rack"),
    _gauge("broker_aux_state_builds_per_second",
           "Starts of its followers at the tier (KIP-1023), attempts included.", "broker", "rack"),
    _gauge("broker_aux_state_errors_per_second", "Those of them that failed.", "broker", "rack"),
    _gauge("broker_upload_lag_bytes",
           "Records not uploaded yet of the partitions it leads, estimated, of those known.",
           "broker", "rack"),
    _gauge("metric_disagreement",
           "The twin's value less the broker's own. Of upload_lag_bytes the broker leaves out the "
           "open segments.", "broker", "metric"),
    _gauge("caught_up_error_seconds",
           "How far the twin's caught-up times were off at most, of those that leaders' logs stated"
           " in the last 10 minutes."),
    _topic("partitions", "Partitions of the topic."),
    _topic("partitions_at_risk", "Partitions of the topic with any risk."),
    _topic("local_log_bytes", "Local log of its replicas, of those whose size is known."),
    _topic("eligible_local_log_seconds",
           "KIP-1303's threshold in time, as configured here; no series where it is off."),
    _topic("eligible_local_log_bytes", "The same in bytes."),
    _topic("cold_read_records",
           "Offsets consumers read from remote storage though a replica has them on disk."),
    _partition("leader", "Broker id of the leader, -1 without one."),
    _partition("leader_epoch", "Leader epoch."),
    _partition("isr_size", "In-sync replicas."),
    _partition("elr_size", "Eligible leader replicas (KIP-966)."),
    _partition("replicas", "Assigned replicas."),
    _partition("log_start_offset", "First offset of the log, by its leader."),
    _partition("local_log_start_offset", "First offset on the leader's disk."),
    _partition("log_end_offset", "Offset of the leader's next record."),
    _partition("last_tiered_offset", "Last offset in remote storage, by its leader."),
    _partition("pending_upload_offset", "First offset not yet in remote storage, by its leader."),
    _partition("next_leader", "Who leads once the leader is lost, -1 for nobody.", "rule"),
    _partition("at_risk", "1 for each risk the partition has.", "risk", "severity"),
    _partition("appended_records_per_second", "Records written a second, a moving average."),
    _partition("upload_lag_records", "Records its leader has not uploaded."),
    _partition("upload_lag_bytes", "Those records, estimated at the size of its local records."),
    _partition("join_start_offset", "First offset an empty follower would copy.", "feature"),
    _partition("join_records", "Records an empty follower would copy.", "feature"),
    _partition("cold_read_records",
               "Offsets consumers read from remote storage though a replica has them on disk."),
    _partition("remote_log_bytes", "Finished copies of it in remote storage."),
    _partition("orphan_bytes", "Of these, what does not belong to its log."),
    _partition("highest_remote_offset", "Last offset of its lineage in remote storage."),
    _partition("isr_shrinks_recent", "Replicas that left its ISR in the last 10 minutes."),
    _replica("log_start_offset", "First offset of the log."),
    _replica("local_log_start_offset", "First offset on its disk."),
    _replica("log_end_offset", "Offset of its next record."),
    _replica("local_log_bytes", "Size of its local log."),
    _replica("local_log_span_seconds", "Time its local log spans until now."),
    _replica("in_isr", "1 if the controller has it in the ISR."),
    _replica("in_sync", "1 if the twin sees it caught up by Kafka's rule."),
    _replica("election_eligible", "1 unless it is known to hold too little local log (KIP-1303)."),
    _replica("eligible_in_seconds",
             "Until a thin replica is eligible to lead; 0 if it is; +Inf if it never will be."),
    _replica("timestamp_suspect", "1 if its first local record is dated before it was written."),
    _replica("join_progress_ratio", "Share of what it has to copy that a joining replica has."),
    _replica("join_seconds_left", "Until a joining replica has caught up; +Inf: it falls behind."),
    _replica("join_seconds_to_lead",
             "Until a joining replica is in sync and eligible to lead; +Inf: never."),
    _replica("join_records_per_second", "Rate at which a joining replica copies."),
    _replica("join_stuck", "1 for a joining replica that does not move."),
    _replica("caught_up_age_seconds", "Time since it was last known to be caught up."),
    _replica("lag_records", "Records it is behind its leader."),
)  # fmt: skip

TAP_METRICS: Final = (
    _counter("tap_lines", "Lines read from the broker's logs.", "broker"),
    _counter("tap_rows", "Rows made of them, by table.", "broker", "table"),
    _counter("tap_refused", "Lines that should tell something and cannot be read.",
             "broker", "reason"),
    _counter("tap_dropped",
             "What was not sent: rows, rows of an unknown_topic, messages.", "broker", "what"),
    _counter("tap_skipped_bytes", "Bytes of logs not read, since they came too fast.", "broker"),
)  # fmt: skip
"""Served by ``kafka-twin tap --metrics-port``, not by the exporter."""

BY_NAME: Final = {metric.name: metric for metric in METRICS}
