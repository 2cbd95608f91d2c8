"""Columns of tables about brokers: what is configured, voted and measured there."""

from __future__ import annotations

from twin.declarations.table import Bool, Float64, Int8, Int32, Int64, Table, Text, column
from twin.tables.enums import ReplicaSelector

ABSENT = float("nan")


class BrokerColumns(Table):
    """A broker that is registered, or may be: before Kafka 4.0 a fenced one is not listed."""

    broker: Int32 = column("broker id", source="DescribeCluster")
    rack: Text = column("rack, empty if none", source="DescribeCluster", fill="")
    host: Text = column("advertised host:port, empty if unknown", source="DescribeCluster", fill="")
    fenced: Int8 = column(
        "the controller has fenced the broker", source="DescribeCluster v2", tri_state=True
    )
    listed: Bool = column(
        "the cluster lists it; if not, it is down or no longer registered",
        source="Metadata, DescribeCluster",
        fill=False,
    )
    kafka_version: Text = column(
        "Kafka release that the API versions of its newest connection imply, such as 3.9; with a + "
        "it may be a later one; empty if unknown",
        source="ApiVersions",
        fill="",
    )


class BrokerConfigColumns(Table):
    """Settings that each broker has for itself; unknown where they could not be read."""

    replica_selector: Int8 = column(
        "kind of its replica.selector.class: leader (none is set), rack_aware, or custom (a class "
        "that the twin does not know)",
        source="DescribeConfigs, replica.selector.class",
        enum=ReplicaSelector,
    )
    follower_last_tiered_fetch: Int8 = column(
        "its followers start where uploads end: its own follower.fetch.last.tiered.offset.enable "
        "(KIP-1023)",
        source="DescribeConfigs, follower.fetch.last.tiered.offset.enable",
        tri_state=True,
    )
    lag_time_max_ms: Int64 = column(
        "its replica.lag.time.max.ms: time without catching up after which it removes a follower "
        "from an ISR",
        source="DescribeConfigs, replica.lag.time.max.ms",
    )
    default_min_isr: Int32 = column(
        "its min.insync.replicas, by which it leads partitions of topics that have none of their "
        "own",
        source="DescribeConfigs, min.insync.replicas",
    )
    default_retention_ms: Int64 = column(
        "its log.retention.ms (or minutes, or hours), by which it deletes segments of topics that "
        "have none of their own; -3 without a limit",
        source="DescribeConfigs, log.retention.*",
    )
    default_retention_bytes: Int64 = column(
        "its log.retention.bytes; -3 without a limit",
        source="DescribeConfigs, log.retention.bytes",
    )
    default_local_retention_ms: Int64 = column(
        "its log.local.retention.ms, for tiered topics; -2 for that of retention.ms, -3 without a "
        "limit",
        source="DescribeConfigs, log.local.retention.ms",
    )
    default_local_retention_bytes: Int64 = column(
        "its log.local.retention.bytes; -2 for that of retention.bytes, -3 without a limit",
        source="DescribeConfigs, log.local.retention.bytes",
    )
    default_segment_ms: Int64 = column(
        "its log.roll.ms (or hours)", source="DescribeConfigs, log.roll.*"
    )
    default_segment_bytes: Int64 = column(
        "its log.segment.bytes", source="DescribeConfigs, log.segment.bytes"
    )
    copy_max_bytes_per_s: Int64 = column(
        "limit of its uploads, remote.log.manager.copy.max.bytes.per.second; Kafka's default, "
        "2^63 - 1, limits nothing",
        source="DescribeConfigs, remote.log.manager.copy.max.bytes.per.second",
    )
    retention_check_ms: Int64 = column(
        "its log.retention.check.interval.ms: how often it looks for segments to delete",
        source="DescribeConfigs, log.retention.check.interval.ms",
    )
    fetch_wait_max_ms: Int64 = column(
        "its replica.fetch.wait.max.ms: how long a leader may wait for new records before it "
        "answers a fetch of this broker",
        source="DescribeConfigs, replica.fetch.wait.max.ms",
    )
    capacity_bytes_in_per_s: Int64 = column(
        "bytes a second that it can take from producers; -1 if nobody set it",
        source="configuration of kafka-twin",
    )
    capacity_bytes_out_per_s: Int64 = column(
        "bytes a second that it can serve to consumers; -1 if nobody set it",
        source="configuration of kafka-twin",
    )
    capacity_peak_percent: Int64 = column(
        "what it can carry where no bytes are set, as a percentage of the most that it carried in "
        "the last 7 days; -1 if nobody set it",
        source="configuration of kafka-twin",
    )


class VoterColumns(Table):
    """A voter of the controller quorum."""

    node: Int32 = column(
        "node id of the voter; -1 in the only row of a cluster that has no quorum (ZooKeeper)",
        source="DescribeQuorum",
        minus_one_is_a_value=True,
    )
    is_active: Bool = column("it is the active controller", source="DescribeQuorum", fill=False)
    log_end_offset: Int64 = column("end of its metadata log", source="DescribeQuorum")
    caught_up_at_ms: Int64 = column(
        "when it was last caught up, by the clock of the active controller",
        source="DescribeQuorum v1",
    )


class BrokerMetricColumns(Table):
    """Metrics of a broker's JMX exporter; NaN where it has none."""

    broker: Int32 = column("broker id")
    measured_at_ms: Int64 = column("when its JMX exporter was scraped")
    fetch_follower_p99_ms: Float64 = column(
        "99th percentile of the total time of followers' fetches",
        source="RequestMetrics TotalTimeMs, FetchFollower",
        fill=ABSENT,
    )
    fetch_follower_local_p99_ms: Float64 = column(
        "99th percentile of the time the leader worked on followers' fetches",
        source="RequestMetrics LocalTimeMs, FetchFollower",
        fill=ABSENT,
    )
    fetch_follower_queue_p99_ms: Float64 = column(
        "99th percentile of the time followers' fetches waited for a request handler",
        source="RequestMetrics RequestQueueTimeMs, FetchFollower",
        fill=ABSENT,
    )
    fetch_consumer_p99_ms: Float64 = column(
        "99th percentile of the total time of consumers' fetches",
        source="RequestMetrics TotalTimeMs, FetchConsumer",
        fill=ABSENT,
    )
    request_queue_size: Float64 = column(
        "requests that wait for a request handler",
        source="RequestChannel RequestQueueSize",
        fill=ABSENT,
    )
    request_handlers_idle_ratio: Float64 = column(
        "share of time in which request handlers are idle",
        source="KafkaRequestHandlerPool RequestHandlerAvgIdlePercent, one minute",
        fill=ABSENT,
    )
    fetch_purgatory_size: Float64 = column(
        "fetches that wait for records",
        source="DelayedOperationPurgatory NumDelayedOperations, Fetch (its PurgatorySize counts "
        "completed operations too)",
        fill=ABSENT,
    )
    remote_copy_lag_bytes: Float64 = column(
        "bytes of closed segments not uploaded yet, without internal topics",
        source="BrokerTopicMetrics RemoteCopyLagBytes by topic",
        fill=ABSENT,
    )
    remote_copy_lag_segments: Float64 = column(
        "closed segments not uploaded yet, without internal topics",
        source="BrokerTopicMetrics RemoteCopyLagSegments by topic",
        fill=ABSENT,
    )
    remote_copy_errors_per_s: Float64 = column(
        "failed uploads a second",
        source="BrokerTopicMetrics RemoteCopyErrorsPerSec",
        fill=ABSENT,
    )
    remote_delete_errors_per_s: Float64 = column(
        "failed deletions of segments in remote storage a second",
        source="BrokerTopicMetrics RemoteDeleteErrorsPerSec",
        fill=ABSENT,
    )
    remote_fetch_requests_per_s: Float64 = column(
        "reads from remote storage for consumers a second",
        source="BrokerTopicMetrics RemoteFetchRequestsPerSec",
        fill=ABSENT,
    )
    remote_fetch_bytes_per_s: Float64 = column(
        "bytes read from remote storage for consumers a second",
        source="BrokerTopicMetrics RemoteFetchBytesPerSec",
        fill=ABSENT,
    )
    remote_fetch_errors_per_s: Float64 = column(
        "failed reads from remote storage for consumers a second",
        source="BrokerTopicMetrics RemoteFetchErrorsPerSec",
        fill=ABSENT,
    )
    remote_reader_queue_size: Float64 = column(
        "reads from remote storage that wait for a reader thread",
        source="RemoteStorageThreadPool RemoteLogReaderTaskQueueSize",
        fill=ABSENT,
    )
    remote_reader_idle_ratio: Float64 = column(
        "share of time in which remote storage reader threads are idle",
        source="RemoteStorageThreadPool RemoteLogReaderAvgIdlePercent",
        fill=ABSENT,
    )
    remote_read_mean_ms: Float64 = column(
        "mean time of a read from remote storage",
        source="RemoteLogManager RemoteLogReaderFetchRateAndTimeMs",
        fill=ABSENT,
    )
    aux_state_builds_per_s: Float64 = column(
        "followers that build their state from remote storage, attempts a second",
        source="BrokerTopicMetrics BuildRemoteLogAuxStateRequestsPerSec",
        fill=ABSENT,
    )
    aux_state_errors_per_s: Float64 = column(
        "failed attempts of followers to build their state from remote storage, a second",
        source="BrokerTopicMetrics BuildRemoteLogAuxStateErrorsPerSec",
        fill=ABSENT,
    )
    bytes_in_per_s: Float64 = column(
        "bytes from producers a second",
        source="BrokerTopicMetrics BytesInPerSec",
        fill=ABSENT,
    )
    bytes_out_per_s: Float64 = column(
        "bytes to consumers a second",
        source="BrokerTopicMetrics BytesOutPerSec",
        fill=ABSENT,
    )
    replication_bytes_in_per_s: Float64 = column(
        "bytes a second that its followers copied",
        source="BrokerTopicMetrics ReplicationBytesInPerSec",
        fill=ABSENT,
    )
    replication_bytes_out_per_s: Float64 = column(
        "bytes to followers a second",
        source="BrokerTopicMetrics ReplicationBytesOutPerSec",
        fill=ABSENT,
    )
    isr_shrinks_per_s: Float64 = column(
        "ISR shrinks a second, by the leader",
        source="ReplicaManager IsrShrinksPerSec",
        fill=ABSENT,
    )
    isr_expands_per_s: Float64 = column(
        "ISR expansions a second, by the leader",
        source="ReplicaManager IsrExpandsPerSec",
        fill=ABSENT,
    )
    log_cleaner_dead_threads: Float64 = column(
        "threads of the log cleaner that have ended by an error",
        source="LogCleaner DeadThreadCount",
        fill=ABSENT,
    )
    uncleanable_partitions: Float64 = column(
        "partitions that the log cleaner has given up, in all log directories",
        source="LogCleanerManager uncleanable-partitions-count",
        fill=ABSENT,
    )


BROKER_METRICS = tuple(
    c.name for c in BrokerMetricColumns.columns if c.name not in ("broker", "measured_at_ms")
)
"""Names of what a broker measures."""


BROKER_CONFIGS = tuple(c.name for c in BrokerConfigColumns.columns)
"""Names of what each broker has configured for itself."""
