"""The frames of the bus: what collectors, taps and the query of remote segments write.

Anybody may write them: the schema, the version and the meaning of each column are the contract.
"""

from __future__ import annotations

from typing import Final

from twin.declarations.table import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int32List,
    Int64,
    Int64List,
    Observation,
    SegmentId,
    Text,
    UInt8List,
    column,
)
from twin.tables.broker_columns import (
    BrokerColumns,
    BrokerConfigColumns,
    BrokerMetricColumns,
    VoterColumns,
)
from twin.tables.columns import (
    ConfigColumns,
    GroupColumns,
    LogSample,
    PartitionKey,
    ProblemColumns,
    ReplicaKey,
)
from twin.tables.enums import SegmentState


class BrokersFrame(Observation, BrokerConfigColumns, BrokerColumns, kind="brokers", version=5):
    """One row a broker that is listed, or that an assignment names.

    The frame is complete if the cluster lists fenced brokers too (Kafka 4.0).
    """

    answered: Bool = column("it answered this cycle within its deadline", fill=False)
    answered_in_ms: Int32 = column("time until its last answer of the cycle")
    log_dir_total_bytes: Int64 = column(
        "size of its log volumes, or what is configured where it does not say that; a volume with "
        "several log directories counts once",
        source="DescribeLogDirs v4",
    )
    log_dir_usable_bytes: Int64 = column(
        "free space of its log volumes", source="DescribeLogDirs v4"
    )


class PartitionsFrame(Observation, PartitionKey, kind="partitions", version=2):
    """One row a partition: the controller's view of it."""

    leader: Int32 = column("broker id of the leader, -1 if none", source="Metadata")
    leader_epoch: Int32 = column("leader epoch", source="Metadata")
    elr_known: Bool = column("the IN_ELR flags are an answer", fill=False)
    replicas: Int32List = column("broker ids in assignment order", source="Metadata", fill=())
    replica_flags: UInt8List = column(
        "ReplicaFlags of each replica, in the same order",
        source="Metadata, DescribeTopicPartitions, ListPartitionReassignments",
        fill=(),
    )


class ReplicasFrame(Observation, LogSample, ReplicaKey, kind="replicas", version=2):
    """One row a replica that answered, about its own log."""


class ConfigsFrame(Observation, ConfigColumns, kind="configs", version=7):
    """One row a topic, and one under the empty name for cluster-wide values."""


class FetchesFrame(Observation, PartitionKey, kind="fetches", version=2, event=True):
    """One row a completed fetch of a follower, of one partition."""

    leader: Int32 = column("broker id of the leader that answered")
    broker: Int32 = column("broker id of the follower")
    broker_epoch: Int64 = column("broker epoch of the follower, -1 if not sent")
    leader_epoch: Int32 = column("leader epoch that the follower named")
    arrived_at_ms: Int64 = column("when the request arrived")
    completed_at_ms: Int64 = column("when it left the purgatory")
    queue_ms: Int32 = column("time it waited for a request handler")
    local_ms: Int32 = column("time the leader worked on it")
    remote_ms: Int32 = column("time it was parked until there was something to send")
    fetch_offset: Int64 = column("log end of the follower")
    log_start_offset: Int64 = column("log start of the follower")
    leader_end_offset: Int64 = column("log end of the leader at the arrival, -1 if unknown")
    leader_end_estimate_offset: Int64 = column(
        "leader_end_offset, or where the answer's records ended if it had room for more"
    )
    high_watermark: Int64 = column("high watermark of the answer, -1 if not sent")
    error_code: Int16 = column("Kafka error code of the answer, 0 for none", fill=0)


class SegmentsFrame(Observation, PartitionKey, kind="segments"):
    """One row an event of a remote segment, in the order of the remote log metadata."""

    segment_id: SegmentId = column(
        "remote log segment id", source="__remote_log_metadata", fill=b""
    )
    state: Int8 = column(
        "state that the segment reached", source="__remote_log_metadata", enum=SegmentState
    )
    metadata_offset: Int64 = column(
        "offset in the metadata topic: events ascend", source="__remote_log_metadata"
    )
    event_at_ms: Int64 = column("when, by the broker's clock", source="__remote_log_metadata")
    start_offset: Int64 = column("first offset; like all below, set only when a copy starts")
    end_offset: Int64 = column("last offset")
    log_bytes: Int64 = column("size of its records")
    leader_epochs: Int32List = column("leader epochs of its records", fill=())
    epoch_start_offsets: Int64List = column("first offset of each of these epochs", fill=())


class EpochsFrame(Observation, PartitionKey, kind="epochs"):
    """One row a leader epoch; a frame has the whole history of each partition in it."""

    leader_epoch: Int32 = column("leader epoch", source="OffsetForLeaderEpoch")
    start_offset: Int64 = column("its first offset", source="OffsetForLeaderEpoch")


class IsrChangesFrame(Observation, PartitionKey, kind="isr_changes", event=True):
    """One row a replica that left or joined an ISR, as a broker logged it."""

    leader: Int32 = column("broker id of the leader")
    leader_epoch: Int32 = column("leader epoch, -1 if not logged")
    broker: Int32 = column("broker id of the replica that left or joined")
    left: Bool = column("it left", fill=False)
    at_ms: Int64 = column("when, by the clock of the broker that logged it")
    caught_up_at_ms: Int64 = column(
        "when the replica was last caught up, by its leader", source="the log line 'Shrinking ISR'"
    )
    log_end_offset: Int64 = column("log end of the replica, by its leader")
    leader_end_offset: Int64 = column("log end of the leader")


class PendingUploadLookupsFrame(
    Observation, PartitionKey, kind="pending_upload_lookups", event=True
):
    """One row a request of a follower for its leader's earliest pending upload offset."""

    leader: Int32 = column("broker id of the leader that was asked")
    broker: Int32 = column("broker id of the follower")
    at_ms: Int64 = column("when")
    pending_upload_offset: Int64 = column("the answer, -1 for none", source="ListOffsets -6")
    error_code: Int16 = column("Kafka error code of the answer, 0 for none", fill=0)


class TruncatedLogsFrame(Observation, PartitionKey, kind="truncated_logs", event=True):
    """One row a log that a broker truncated after it had started and loaded it."""

    broker: Int32 = column("broker id of the replica")
    at_ms: Int64 = column("when, by its clock")
    end_offset: Int64 = column("log end offset before", source="the log line 'Completed load of'")
    to_offset: Int64 = column("log end offset since", source="the log line 'Truncating to offset'")


class LoggedUncleanElectionsFrame(
    Observation, PartitionKey, kind="logged_unclean_elections", event=True
):
    """One row a leader that a controller elected from outside the ISR and the ELR."""

    broker: Int32 = column("broker id of the leader that was elected")
    leader_epoch: Int32 = column("its leader epoch")
    at_ms: Int64 = column(
        "when a controller logged it first, by its clock; one that starts logs earlier ones again",
        source="the log line 'UNCLEAN partition change'",
    )


class QuorumFrame(Observation, VoterColumns, kind="controller_quorum"):
    """One row a voter of the controller quorum."""


class ProblemsFrame(Observation, ProblemColumns, kind="problems"):
    """One row a problem of a cycle: what the collector could not find out; in one shard alone.

    The frame comes in one part, also without rows. It is complete if no problem is left out.
    """


class BrokerMetricsFrame(
    Observation, BrokerMetricColumns, kind="broker_metrics", version=3, event=True
):
    """One row a broker whose JMX exporter answered."""


class GroupsFrame(Observation, GroupColumns, kind="groups"):
    """One row a group that has offsets in the shard, or may have; shard 0 has all groups.

    The frame is complete if every broker listed its groups. ``read_at_ms`` is -1 if the offsets of
    the group could not be read: those that are known of it then stay, and age.
    """


class GroupOffsetsFrame(Observation, PartitionKey, kind="group_offsets"):
    """One row a group and a partition: where the group continues.

    All rows of a group have the same ``read_at_ms``, that of its row in ``groups``. Rows that were
    read earlier are then over: the group has no such offset any more.
    """

    group: Text = column("group id", source="OffsetFetch", fill="")
    committed_offset: Int64 = column(
        "offset of the next record to read; -1 if none is committed", source="OffsetFetch"
    )
    read_at_ms: Int64 = column("when it was read")
    assigned: Int8 = column(
        "a member of the group is assigned the partition",
        source="DescribeGroups, ConsumerGroupDescribe",
        tri_state=True,
    )
    rack: Text = column(
        "rack of that member, empty if none or unknown",
        source="DescribeGroups (KIP-881), ConsumerGroupDescribe",
        fill="",
    )


OBSERVATIONS: Final[dict[str, type[Observation]]] = {
    table.kind: table
    for table in (
        BrokersFrame,
        QuorumFrame,
        ProblemsFrame,
        PartitionsFrame,
        ReplicasFrame,
        ConfigsFrame,
        FetchesFrame,
        IsrChangesFrame,
        PendingUploadLookupsFrame,
        TruncatedLogsFrame,
        LoggedUncleanElectionsFrame,
        SegmentsFrame,
        EpochsFrame,
        BrokerMetricsFrame,
        GroupsFrame,
        GroupOffsetsFrame,
    )
}
"""Every kind of frame that this version knows, by its kind."""
