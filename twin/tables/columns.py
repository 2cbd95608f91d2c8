"""Columns that an observation and a table of the state have in common."""

from __future__ import annotations

from twin.declarations.table import NO_BROKER, Int8, Int16, Int32, Int64, Table, Text, Uuid, column
from twin.tables.enums import (
    NOT_SET,
    BatchKind,
    GroupState,
    GroupType,
    InheritedLimit,
    PendingUpload,
)


class PartitionKey(Table):
    """The partition that a row is about."""

    topic: Text = column("topic name", source="Metadata", fill="")
    topic_id: Uuid = column(
        "topic id, 16 bytes; a recreated topic has a new one", source="Metadata", fill=b""
    )
    partition: Int32 = column("partition number", source="Metadata")


class ReplicaKey(PartitionKey):
    """The replica that a row is about."""

    broker: Int32 = column("broker id")


class LogSample(Table):
    """Columns that a replica reports about its own log."""

    log_start_offset: Int64 = column("first offset of the log", source="ListOffsets -2")
    local_log_start_offset: Int64 = column(
        "first offset on disk; unknown before Kafka 3.5", source="ListOffsets -4"
    )
    log_end_offset: Int64 = column("offset of the next record", source="ListOffsets -1")
    last_tiered_offset: Int64 = column(
        "last offset that the replica knows to be in remote storage; unknown before Kafka 3.9",
        source="ListOffsets -5",
    )
    pending_upload_offset: Int64 = column(
        "first offset not yet in remote storage; unknown before Kafka 4.2",
        source="ListOffsets -6",
    )
    pending_upload: Int8 = column(
        "why pending_upload_offset is what it is", fill=PendingUpload.ABSENT, enum=PendingUpload
    )
    pending_upload_leader_epoch: Int32 = column(
        "leader epoch of the record at pending_upload_offset", source="ListOffsets -6"
    )
    last_stable_offset: Int64 = column(
        "first offset that an open transaction keeps from read_committed consumers, or the high "
        "watermark; of leaders only",
        source="ListOffsets -1, read_committed",
    )
    high_watermark: Int64 = column(
        "first offset that is not committed; of leaders only",
        source="ListOffsets -1, read_uncommitted",
    )
    local_log_bytes: Int64 = column("size of the segments on disk", source="DescribeLogDirs")
    local_start_timestamp_ms: Int64 = column(
        "timestamp of the first record on disk", source="Fetch at the local log start"
    )
    local_start_batch: Int8 = column(
        "what consumers get of the first batch on disk: plain records, transactional ones, which "
        "may have been aborted, or nothing (control)",
        source="Fetch at the local log start",
        enum=BatchKind,
    )
    error_code: Int16 = column(
        "Kafka error code of the last answer, 0 for none", fill=0, minus_one_is_a_value=True
    )


class ConfigColumns(Table):
    """Settings of a topic, or of the cluster under the empty name."""

    topic: Text = column("topic name, empty for cluster-wide values", fill="")
    min_insync_replicas: Int32 = column("min.insync.replicas", source="DescribeConfigs")
    min_isr_inherited: Int8 = column(
        "the topic has no min.insync.replicas of its own, so each leader applies its broker's",
        source="DescribeConfigs",
        tri_state=True,
    )
    inherited_limits: Int16 = column(
        "limits of its logs that the topic does not set, so that each broker applies its own",
        source="DescribeConfigs",
        flags=InheritedLimit,
        in_api=False,
    )
    unclean_leader_election: Int8 = column(
        "unclean.leader.election.enable", source="DescribeConfigs", tri_state=True
    )
    remote_storage: Int8 = column("remote.storage.enable", source="DescribeConfigs", tri_state=True)
    compacted: Int8 = column(
        "cleanup.policy contains compact", source="DescribeConfigs", tri_state=True
    )
    tiered_compacted: Int8 = column(
        "remote.storage.enable and cleanup.policy contains compact (KIP-1272): remote_storage is "
        "unknown then, and nothing about the tier is judged",
        source="DescribeConfigs",
        tri_state=True,
    )
    copies_disabled: Int8 = column(
        "remote.log.copy.disable (KIP-950): nothing more is uploaded, and local retention deletes "
        "what is not",
        source="DescribeConfigs",
        tri_state=True,
    )
    diskless: Int8 = column(
        "diskless.enable (KIP-1150): the records are in object storage alone, and nothing about "
        "the topic is judged",
        source="DescribeConfigs",
        tri_state=True,
    )
    local_retention_ms: Int64 = column(
        "effective local.retention.ms, -1 for unlimited, -2 if unknown",
        source="DescribeConfigs",
        fill=NOT_SET,
    )
    local_retention_bytes: Int64 = column(
        "effective local.retention.bytes, -1 for unlimited, -2 if unknown",
        source="DescribeConfigs",
        fill=NOT_SET,
    )
    retention_ms: Int64 = column(
        "retention.ms, -1 for unlimited or where cleanup.policy does not delete, -2 if unknown",
        source="DescribeConfigs",
        fill=NOT_SET,
    )
    retention_bytes: Int64 = column(
        "retention.bytes, -1 for unlimited or where cleanup.policy does not delete, -2 if unknown",
        source="DescribeConfigs",
        fill=NOT_SET,
    )
    upload_delay_ms: Int64 = column(
        "effective remote.copy.lag.ms, 0 where uploads do not wait (before Kafka 4.4 none does), "
        "-1 if no segment is due by its age, -2 if unknown",
        source="DescribeConfigs",
        fill=NOT_SET,
    )
    upload_delay_bytes: Int64 = column(
        "effective remote.copy.lag.bytes, 0 where uploads do not wait, -1 if no segment is due by "
        "the bytes after it, -2 if unknown",
        source="DescribeConfigs",
        fill=NOT_SET,
    )
    segment_ms: Int64 = column("segment.ms", source="DescribeConfigs")
    segment_bytes: Int64 = column("segment.bytes", source="DescribeConfigs")
    min_compaction_lag_ms: Int64 = column(
        "min.compaction.lag.ms: age before which a record is not compacted",
        source="DescribeConfigs",
    )
    min_dirty_percent: Int64 = column(
        "min.cleanable.dirty.ratio in percent: share of the log from which on it is compacted",
        source="DescribeConfigs",
    )
    eligible_local_log_ms: Int64 = column(
        "leader.election.eligible.local.log.ms, -2 if the topic does not override it",
        source="DescribeConfigs where Kafka has KIP-1303, else configuration of kafka-twin",
        fill=NOT_SET,
    )
    eligible_local_log_bytes: Int64 = column(
        "leader.election.eligible.local.log.bytes, -2 if the topic does not override it",
        source="DescribeConfigs where Kafka has KIP-1303, else configuration of kafka-twin",
        fill=NOT_SET,
    )
    replica_lag_time_max_ms: Int64 = column("replica.lag.time.max.ms", source="DescribeConfigs")
    fetch_processing_max_ms: Int64 = column(
        "time after which a leader that processes a fetch would hand over, -1 for "
        "replica.lag.time.max.ms",
        source="configuration of kafka-twin (KIP-501)",
    )
    group_in_use_ms: Int64 = column(
        "time without a move after which a group without members is abandoned",
        source="configuration of kafka-twin",
    )
    one_replica_accepted: Int8 = column(
        "somebody accepted that partitions of the topic have one replica",
        source="configuration of kafka-twin",
        tri_state=True,
    )
    elr_enabled: Int8 = column(
        "eligible leader replicas are enabled (KIP-966)",
        source="ApiVersions, eligible.leader.replicas.version",
        tri_state=True,
    )
    unclean_elections: Int8 = column(
        "the controller obeys unclean.leader.election.enable; KRaft does since Kafka 3.9",
        source="ApiVersions, metadata.version and ListOffsets v9",
        tri_state=True,
    )
    last_tiered_fetch: Int8 = column(
        "follower.fetch.last.tiered.offset.enable (KIP-1023)",
        source="DescribeConfigs",
        tri_state=True,
    )


class GroupColumns(Table):
    """A group of consumers."""

    group: Text = column("group id", source="ListGroups", fill="")
    group_type: Int8 = column(
        "its protocol; unknown before Kafka 3.8",
        source="ListGroups v5",
        enum=GroupType,
    )
    group_state: Int8 = column("its state", source="ListGroups v4", enum=GroupState)
    coordinator: Int32 = column("broker id of its coordinator", source="ListGroups")
    members: Int32 = column("number of members", source="DescribeGroups, ConsumerGroupDescribe")
    read_at_ms: Int64 = column("when its committed offsets were read", source="OffsetFetch")
    offsets_left_out: Int32 = column(
        "its offsets that the collector did not send: there were more than it may", fill=0
    )


class ProblemColumns(Table):
    """Something that an observation lacks, and why."""

    source: Text = column("what could not be observed, e.g. log dirs", fill="")
    broker: Int32 = column(
        "broker id, -1 if it concerns no single broker", fill=NO_BROKER, minus_one_is_a_value=True
    )
    error: Text = column("Kafka's name of the error, or a short one", fill="")
    text: Text = column("the reason, in one line", fill="")


GROUP_DESCRIPTION = (
    "group_type",
    "group_state",
    "coordinator",
    "members",
    "offsets_left_out",
)
"""Names of what a listing says about a group."""

LOG_SAMPLE = tuple(c.name for c in LogSample.columns)
"""Names of what a replica reports of its log."""
