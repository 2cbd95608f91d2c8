"""Every column of every table, once: name, type, unit, meaning and where it is read from.

The Arrow schemas, the strict decoder (``frames``), the state of a shard (``fleet``) and the
documentation page all derive from this file. It imports nothing of ours.

Conventions
    * ``UNKNOWN`` (-1) is Kafka's own "not known" in offset, time and size columns, never a zero.
    * Tri-state columns hold 1 yes, 0 no, -1 unknown.
    * Times are milliseconds since the epoch, offsets are record positions, sizes are bytes; the
      unit is the last word of the name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

import pyarrow as pa

UNKNOWN: Final = -1
NO_BROKER: Final = -1
NOT_SET: Final = -2
"""A topic does not override this setting: the cluster-wide value holds. (-1 is "switched off".)"""

CLUSTER_WIDE: Final = ""
"""The name under which the ``configs`` table lists the cluster-wide values."""


class Slot(IntFlag):
    """What the controller says of one replica of a partition."""

    IN_ISR = 1
    IN_ELR = 2
    LAST_KNOWN_ELR = 4
    OFFLINE = 8  # its broker is fenced or its log directory failed
    ADDING = 16
    REMOVING = 32


class PendingUpload(IntEnum):
    """Why the earliest pending upload offset (ListOffsets -6) is what it is.

    Kafka answers -1 for several reasons; the collector tells them apart by the other offsets of the
    same replica. Source: UnifiedLog.fetchEarliestPendingUploadOffset, ReplicaManager.fetchOffset
    of Kafka 4.3.
    """

    KNOWN = 0
    ABSENT = 1  # not asked, refused, or the broker is older than 4.2
    NOTHING_TIERED = 2  # remote storage is off, or nothing has been uploaded yet
    ALL_TIERED = 3  # nothing is left below the log end: Kafka suppresses the answer
    LEARNING = 4  # something is tiered, but this replica's task has not run yet


class Coverage(IntEnum):
    """Whether a replica holds enough local log to lead (KIP-1303)."""

    THIN = 0  # every enabled threshold is known and missed
    WARM = 1
    ASSUMED = 2  # a number it depends on is unknown: eligible by the KIP's rule


class JoinPath(IntEnum):
    """Where an empty follower starts to copy (KIP-1023). The values are stored."""

    FROM_ZERO = 0  # the leader still has offset 0: a full copy, with the feature as without
    FROM_LOCAL_START = 1  # the leader's local log start
    FROM_PENDING_UPLOAD = 2  # what is not in remote storage yet: the feature at work
    # These fail and are tried again each second, until what they wait for happens:
    NOTHING_TIERED_YET = 3  # the first upload of a log that does not begin at 0
    LEADER_LEARNING = 4  # the leader has not learnt yet what is tiered
    STUCK_IDLE = 5  # everything is tiered: until somebody writes a record
    BELOW_LOG_START = 6  # the tier ends below the log start: until the next upload


class StuckReason(IntEnum):
    """Why a joining replica does not move. The values are stored."""

    STUCK_IDLE = 0  # everything is tiered and nobody writes: one record would free it
    NOTHING_TIERED_YET = 1  # it waits for the first upload
    BELOW_LOG_START = 2  # it waits for an upload beyond the log start
    LEADER_LEARNING = 3  # the leader has not learnt what is tiered
    LEADER_SILENT = 4  # the leader does not answer the twin either
    BROKER_SILENT = 5  # its own broker does not answer the twin
    UNEXPLAINED = 6  # its broker's log says more


class OutOfRange(IntFlag):
    """Windows of offsets in which a follower cannot serve a consumer (KIP-392's four cases)."""

    UNCOMMITTED = 1  # it has the records, and they are not committed yet
    UNAVAILABLE = 2  # committed, and it does not have them yet
    TOO_SMALL = 4  # below its log start, and the leader still has them
    TOO_LARGE = 8  # beyond its log end, and not committed


class Verdict(IntEnum):
    """Why a replica left the ISR. The values are stored."""

    UNEXPLAINED = 0
    SLOW_LEADER = 1  # its leader worked too slowly on the fetches of healthy followers
    FROZEN_LEADER = 2  # its leader stood still, and found everybody late when it went on
    SLOW_FOLLOWER = 3  # it is alive, alone, and behind
    DEAD_FOLLOWER = 4  # its broker is gone


class Evidence(IntFlag):
    """What a verdict rests on."""

    FOLLOWER_OFFLINE = 1
    FOLLOWER_SILENT = 2
    FOLLOWER_BEHIND = 4
    LEADER_SILENT = 8
    LEADER_ANSWERS_SLOWLY = 16
    SEVERAL_FOLLOWERS_LEFT = 32
    FETCH_WAS_PENDING = 64  # it had asked for all there was, and waited for the leader
    WAS_LEADER = 128


class SegmentState(IntEnum):
    """How far the copy or the deletion of a remote segment is, as Kafka writes it."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


class Referred(IntEnum):
    """Whether a leader epoch refers to a remote segment that has records of it."""

    NOT = 0
    BY_OFFSET = 1  # reads of the epoch find it
    UNREFERENCED = 2  # it is listed only, until it is deleted


class Election(IntFlag):
    """What the order of KIP-1303 does to a partition's leadership as it stands."""

    THIN_LEADER_KEPT = 1  # the first in its order cannot lead, so a thin leader stays
    BALANCER_NOOP = 2  # each round of leader balancing finds it and moves nothing


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``dtype`` is its Arrow type, ``fill`` what a row holds before anyone told."""

    name: str
    dtype: pa.DataType
    meaning: str
    source: str = ""
    fill: int | str | bytes | bool | float = UNKNOWN


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of frame. ``version`` rises when a column changes; a reader refuses others."""

    kind: str
    version: int
    meaning: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema every frame of this kind has, exactly."""
        return pa.schema([pa.field(c.name, c.dtype, nullable=False) for c in self.columns])


_I8, _U8, _I16, _I32, _I64 = pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64()
_F64 = pa.float64()
_TEXT, _UUID = pa.dictionary(_I32, pa.string()), pa.dictionary(_I32, pa.binary(16))

_PARTITION_KEY = (
    Column("topic", _TEXT, "topic name", "Metadata", fill=""),
    Column("topic_id", _UUID, "topic id, 16 bytes; a recreated topic has a new one", "Metadata"),
    Column("partition", _I32, "partition number", "Metadata"),
)

BROKERS = Table(
    "brokers",
    1,
    "One row a registered broker.",
    (
        Column("broker", _I32, "broker id", "DescribeCluster"),
        Column("rack", _TEXT, "rack, empty if none", "DescribeCluster", fill=""),
        Column("host", _TEXT, "advertised host:port, empty if unknown", "DescribeCluster", fill=""),
        Column("fenced", _I8, "the controller keeps it out (tri-state)", "DescribeCluster v2"),
        Column("answered", pa.bool_(), "it answered this cycle within its deadline", fill=False),
        Column("answered_in_ms", _I32, "time until its last answer of the cycle, ms"),
        Column("log_dir_total_bytes", _I64, "size of its log volumes", "DescribeLogDirs v4"),
        Column("log_dir_usable_bytes", _I64, "free space of its log volumes", "DescribeLogDirs v4"),
    ),
)

PARTITIONS = Table(
    "partitions",
    1,
    "One row a partition: what the controller knows of it.",
    (
        *_PARTITION_KEY,
        Column("leader", _I32, "leader's broker id, -1 if none", "Metadata"),
        Column("leader_epoch", _I32, "leader epoch", "Metadata"),
        Column("elr_known", pa.bool_(), "the IN_ELR marks are an answer", fill=False),
        Column("replicas", pa.list_(pa.field("item", _I32, nullable=False)),
               "broker ids in assignment order", "Metadata"),
        Column("slots", pa.list_(pa.field("item", _U8, nullable=False)),
               "marks (Slot) of each replica, same order",
               "Metadata, DescribeTopicPartitions, ListPartitionReassignments"),
    ),
)  # fmt: skip

_SAMPLE = (
    Column("log_start_offset", _I64, "first offset of the log", "ListOffsets -2, replica -2"),
    Column("local_log_start_offset", _I64, "first offset on disk", "ListOffsets -4, replica -2"),
    Column("log_end_offset", _I64, "offset of the next record", "ListOffsets -1, replica -2"),
    Column("last_tiered_offset", _I64, "last offset it knows to be in remote storage",
           "ListOffsets -5, replica -2"),
    Column("pending_upload_offset", _I64, "first offset not yet in remote storage",
           "ListOffsets -6, replica -2"),
    Column("pending_upload", _I8, "why that offset is what it is (PendingUpload)",
           fill=PendingUpload.ABSENT),
    Column("local_log_bytes", _I64, "bytes of its segments on disk", "DescribeLogDirs"),
    Column("local_start_timestamp_ms", _I64, "timestamp of the first record on its disk",
           "Fetch at the local log start"),
    Column("error_code", _I16, "Kafka error code of its last answer, 0 if none", fill=0),
)  # fmt: skip

REPLICAS = Table(
    "replicas",
    1,
    "One row a replica that answered: what the replica itself says of its log.",
    (*_PARTITION_KEY, Column("broker", _I32, "broker id"), *_SAMPLE),
)

_TOPIC_CONFIG = (
    Column("min_insync_replicas", _I32, "min.insync.replicas", "DescribeConfigs"),
    Column("unclean_leader_election", _I8, "unclean.leader.election.enable", "DescribeConfigs"),
    Column("remote_storage", _I8, "remote.storage.enable", "DescribeConfigs"),
    Column("compacted", _I8, "cleanup.policy contains compact", "DescribeConfigs"),
    Column("local_retention_ms", _I64, "effective local.retention.ms, -1 unlimited or unknown",
           "DescribeConfigs"),
    Column("local_retention_bytes", _I64, "effective local.retention.bytes, likewise",
           "DescribeConfigs"),
    Column("eligible_local_log_ms", _I64,
           "leader.election.eligible.local.log.ms, -2 not overridden",
           "the twin's config (KIP-1303)", fill=NOT_SET),
    Column("eligible_local_log_bytes", _I64,
           "leader.election.eligible.local.log.bytes, -2 not overridden",
           "the twin's config (KIP-1303)", fill=NOT_SET),
)  # fmt: skip

_CLUSTER_CONFIG = (
    Column("replica_lag_time_max_ms", _I64, "replica.lag.time.max.ms", "DescribeConfigs"),
    Column("elr_enabled", _I8, "eligible leader replicas are on (KIP-966)",
           "ApiVersions, eligible.leader.replicas.version"),
    Column("last_tiered_fetch", _I8, "follower.fetch.last.tiered.offset.enable (KIP-1023)",
           "DescribeConfigs"),
)  # fmt: skip

CONFIGS = Table(
    "configs",
    1,
    "One row a topic, and one under the empty name for the cluster-wide values.",
    (
        Column("topic", _TEXT, "topic name, empty: cluster-wide", fill=""),
        *_TOPIC_CONFIG,
        *_CLUSTER_CONFIG,
    ),
)

FETCHES = Table(
    "fetches",
    2,
    "One row a completed fetch of a follower, of one partition: an event, not a sample.",
    (
        *_PARTITION_KEY,
        Column("leader", _I32, "broker id that answered"),
        Column("broker", _I32, "broker id of the follower"),
        Column("broker_epoch", _I64, "the follower's broker epoch, -1 if it told none"),
        Column("leader_epoch", _I32, "leader epoch the follower named"),
        Column("arrived_at_ms", _I64, "when the request arrived"),
        Column("completed_at_ms", _I64, "when it left the purgatory"),
        Column("queue_ms", _I32, "time it waited for a request handler"),
        Column("local_ms", _I32, "time the leader worked on it"),
        Column("remote_ms", _I32, "time it was parked until there was something to send"),
        Column("fetch_offset", _I64, "the follower's log end"),
        Column("log_start_offset", _I64, "the follower's log start"),
        Column("leader_end_offset", _I64, "the leader's log end at the arrival, -1 if unknown"),
        Column("leader_end_estimate_offset", _I64,
               "the same, or where the answer's records ended if it had room for more"),
        Column("high_watermark", _I64, "the answer's high watermark, -1 if it told none"),
        Column("error_code", _I16, "Kafka error code of the answer, 0 if none", fill=0),
    ),
)  # fmt: skip

_LIST_I32 = pa.list_(pa.field("item", _I32, nullable=False))
_LIST_I64 = pa.list_(pa.field("item", _I64, nullable=False))
_LIST_U8 = pa.list_(pa.field("item", _U8, nullable=False))

SEGMENTS = Table(
    "segments",
    1,
    "One row an event of a remote segment, in the order of the remote log metadata.",
    (
        *_PARTITION_KEY,
        Column("segment_id", pa.binary(16), "remote log segment id", "__remote_log_metadata"),
        Column("state", _I8, "what it has come to (SegmentState)", "__remote_log_metadata"),
        Column("metadata_offset", _I64, "its place there: events ascend", "__remote_log_metadata"),
        Column("event_at_ms", _I64, "when, by the broker's clock", "__remote_log_metadata"),
        Column("start_offset", _I64, "first offset; only told as a copy starts, as all below"),
        Column("end_offset", _I64, "last offset"),
        Column("log_bytes", _I64, "size of its records"),
        Column("leader_epochs", _LIST_I32, "the leader epochs in it"),
        Column("epoch_start_offsets", _LIST_I64, "the first offset of each"),
    ),
)

EPOCHS = Table(
    "epochs",
    1,
    "One row a leader epoch; a frame has the whole history of each partition that it names.",
    (
        *_PARTITION_KEY,
        Column("leader_epoch", _I32, "leader epoch", "OffsetForLeaderEpoch"),
        Column("start_offset", _I64, "its first offset", "OffsetForLeaderEpoch"),
    ),
)

ISR_CHANGES = Table(
    "isr_changes",
    1,
    "One row a replica that left or joined an ISR, as a broker's log told it: an event.",
    (
        *_PARTITION_KEY,
        Column("leader", _I32, "who led"),
        Column("leader_epoch", _I32, "leader epoch, -1 if not told"),
        Column("broker", _I32, "who left or joined"),
        Column("left", pa.bool_(), "it left", fill=False),
        Column("at_ms", _I64, "when, by the clock of the broker whose log tells it"),
        Column("caught_up_at_ms", _I64, "when it was last caught up, by its leader's books",
               "the leader's log, 'Shrinking ISR'"),
        Column("log_end_offset", _I64, "its log end, by its leader's books"),
        Column("leader_end_offset", _I64, "the leader's log end"),
    ),
)  # fmt: skip

TIER_STARTS = Table(
    "tier_starts",
    1,
    "One row a follower that asked its leader where the tier ends (KIP-1023): an event.",
    (
        *_PARTITION_KEY,
        Column("leader", _I32, "who was asked"),
        Column("broker", _I32, "who asked"),
        Column("at_ms", _I64, "when"),
        Column("pending_upload_offset", _I64, "the answer, -1 for none", "ListOffsets -6"),
        Column("error_code", _I16, "Kafka error code of the answer, 0 if none", fill=0),
    ),
)

_ABSENT = float("nan")

_SIGNALS = tuple(
    Column(name, _F64, meaning, source, fill=_ABSENT)
    for name, meaning, source in (
        ("fetch_follower_p99_ms", "slowest hundredth of followers' fetches, waiting included",
         "RequestMetrics TotalTimeMs, FetchFollower"),
        ("fetch_follower_local_p99_ms", "the same, time the leader worked on them",
         "RequestMetrics LocalTimeMs, FetchFollower"),
        ("fetch_follower_queue_p99_ms", "the same, time they waited for a request handler",
         "RequestMetrics RequestQueueTimeMs, FetchFollower"),
        ("fetch_consumer_p99_ms", "slowest hundredth of consumers' fetches",
         "RequestMetrics TotalTimeMs, FetchConsumer"),
        ("request_queue_size", "requests that wait for a handler",
         "RequestChannel RequestQueueSize"),
        ("request_handlers_idle_ratio", "share of time its request handlers have nothing to do",
         "KafkaRequestHandlerPool RequestHandlerAvgIdlePercent, one minute"),
        ("fetch_purgatory_size", "fetches that wait for records",
         "DelayedOperationPurgatory NumDelayedOperations, Fetch: its size counts what is over"),
        ("remote_copy_lag_bytes", "closed segments it has not uploaded, internal topics left out",
         "BrokerTopicMetrics RemoteCopyLagBytes by topic"),
        ("remote_copy_lag_segments", "their number",
         "BrokerTopicMetrics RemoteCopyLagSegments by topic"),
        ("remote_copy_errors_per_s", "uploads that failed",
         "BrokerTopicMetrics RemoteCopyErrorsPerSec"),
        ("remote_fetch_requests_per_s", "reads from remote storage for consumers",
         "BrokerTopicMetrics RemoteFetchRequestsPerSec"),
        ("remote_fetch_bytes_per_s", "bytes of these",
         "BrokerTopicMetrics RemoteFetchBytesPerSec"),
        ("remote_fetch_errors_per_s", "those that failed",
         "BrokerTopicMetrics RemoteFetchErrorsPerSec"),
        ("remote_reader_queue_size", "reads that wait for a reader thread",
         "RemoteStorageThreadPool RemoteLogReaderTaskQueueSize"),
        ("remote_reader_idle_ratio", "share of its reader threads that have nothing to do",
         "RemoteStorageThreadPool RemoteLogReaderAvgIdlePercent"),
        ("remote_read_mean_ms", "mean time of a read",
         "RemoteLogManager RemoteLogReaderFetchRateAndTimeMs"),
        ("aux_state_builds_per_s", "followers' starts at the tier, attempts included",
         "BrokerTopicMetrics BuildRemoteLogAuxStateRequestsPerSec"),
        ("aux_state_errors_per_s", "those that failed",
         "BrokerTopicMetrics BuildRemoteLogAuxStateErrorsPerSec"),
        ("isr_shrinks_per_s", "ISRs it shrank", "ReplicaManager IsrShrinksPerSec"),
        ("isr_expands_per_s", "ISRs it expanded", "ReplicaManager IsrExpandsPerSec"),
    )
)  # fmt: skip

SIGNALS: Final = tuple(column.name for column in _SIGNALS)
"""What a broker measures of itself; NaN where it does not tell."""

BROKER_METRICS = Table(
    "broker_metrics",
    1,
    "One row a broker whose JMX exporter answered: what the broker measures itself; NaN: absent.",
    (
        Column("broker", _I32, "broker id"),
        Column("measured_at_ms", _I64, "when it was asked"),
        *_SIGNALS,
    ),
)

_ARCHIVE_KEY = (
    Column("topic_id", _UUID, "topic id, 16 bytes"),
    Column("partition", _I32, "partition number"),
)

ARCHIVE_PARTITIONS = Table(
    "archive.partitions",
    1,
    "State of remote segments: one row a partition that has some, or a known history.",
    (
        *_ARCHIVE_KEY,
        Column("told_at_ms", _I64, "when anything of it was last observed"),
        Column("metadata_offset", _I64, "its last event; those up to it are repeats"),
        Column("epochs_at_ms", _I64, "when its history was observed"),
        Column("refused_transitions", _I64, "events that no segment can go through", fill=0),
        Column("epochs", _LIST_I32, "its leader epochs"),
        Column("epoch_start_offsets", _LIST_I64, "the first offset of each"),
        Column("tiered_epochs", _LIST_I32, "epochs of which something was copied"),
        Column("tiered_highest_offsets", _LIST_I64, "the highest offset of each that was"),
    ),
)

ARCHIVE_SEGMENTS = Table(
    "archive.segments",
    1,
    "State of remote segments: one row a segment.",
    (
        *_ARCHIVE_KEY,
        Column("segment_id", pa.binary(16), "remote log segment id"),
        Column("state", _I8, "SegmentState"),
        Column("event_at_ms", _I64, "when it came to that"),
        Column("start_offset", _I64, "first offset"),
        Column("end_offset", _I64, "last offset"),
        Column("log_bytes", _I64, "size of its records"),
        Column("leader_epochs", _LIST_I32, "the leader epochs in it"),
        Column("epoch_start_offsets", _LIST_I64, "the first offset of each"),
        Column("referred", _LIST_U8, "whether each refers to it (Referred)"),
    ),
)

FLEET_CLUSTER = Table(
    "fleet.cluster",
    1,
    "State: one row, how far the listing of the newest cycle has come.",
    (
        Column("listed_at_ms", _I64, "cycle whose partitions are being listed"),
        Column("listed_parts", pa.binary(), "a bit for each part of the listing seen", fill=b""),
        Column("listing_whole_at_ms", _I64, "newest cycle whose listing was complete"),
        Column("before_at_ms", _I64, "the cycle before the newest"),
    ),
)

FLEET_TOPICS = Table(
    "fleet.topics", 1, "State: one row a topic of the shard, sorted by name and id.",
    _PARTITION_KEY[:2],
)  # fmt: skip

FLEET_CONFIGS = Table(
    "fleet.configs",
    1,
    "State: one row a configured topic, sorted by name; the empty name holds cluster-wide values.",
    (*CONFIGS.columns, Column("configured_at_ms", _I64, "when it was observed")),
)

FLEET_BROKERS = Table(
    "fleet.brokers",
    2,
    "State: one row a broker, sorted by id.",
    (
        *BROKERS.columns,
        Column("listed_at_ms", _I64, "when the cluster last listed it"),
        Column("answered_at_ms", _I64, "when it last answered"),
        Column("silent_since_ms", _I64, "its newest silence: when it had last answered before"),
        Column("silent_until_ms", _I64, "when it answered again, or unknown"),
    ),
)

FLEET_SIGNALS = Table(
    "fleet.signals",
    1,
    "State: one row a broker that has a JMX exporter, sorted by id; NaN: absent.",
    BROKER_METRICS.columns,
)

FLEET_PARTITIONS = Table(
    "fleet.partitions",
    1,
    "State and findings: one row a partition, sorted by topic and number.",
    (
        Column("topic_index", _I32, "row in fleet.topics"),
        Column("partition", _I32, "partition number"),
        Column("listed_at_ms", _I64, "when the cluster last listed it"),
        Column("described_at_ms", _I64, "when the view that holds was observed"),
        Column("leader", _I32, "leader's broker id, -1 if none"),
        Column("leader_epoch", _I32, "leader epoch"),
        Column("elr_known", pa.bool_(), "the IN_ELR marks are an answer", fill=False),
        Column("slots_used", _U8, "rows it has in fleet.replicas", fill=0),
        Column("assigned", _U8, "how many of them are assigned; the rest is ahead of the listing",
               fill=0),
        Column("leader_before", _I32, "leader as the last cycle left it"),
        Column("leader_end_before_offset", _I64, "leader's log end as the last cycle left it"),
        Column("leader_end_before_at_ms", _I64, "when that was sampled"),
        Column("next_leader_kafka", _I32, "who leads if the leader is lost, Kafka's rule"),
        Column("next_leader_kip1303", _I32, "the same under KIP-1303"),
        Column("next_outcome_kafka", _I8, "how safe that leader is (LossOutcome)"),
        Column("next_outcome_kip1303", _I8, "the same under KIP-1303"),
        Column("appended_per_s", _F64, "records written a second, a moving average"),
        Column("appended_before_per_s", _F64, "the same as the last cycle left it"),
        Column("anchor_offset", _I64, "leader's log end when the twin first saw it"),
        Column("anchor_at_ms", _I64, "when that was"),
        Column("election", _U8, "what KIP-1303 does to its leadership now (Election)", fill=0),
        Column("cold_read_records", _I64,
               "offsets consumers read from remote storage though a replica has them on disk",
               fill=0),
        Column("risks", _I32, "bits of the risks that are open (Risk)", fill=0),
        Column("risks_seen", _I32, "bits of the risks whose condition holds now", fill=0),
        Column("risks_before", _I32, "risks as the last cycle left it", fill=0),
    ),
)  # fmt: skip

FLEET_REPLICAS = Table(
    "fleet.replicas",
    1,
    "State and findings: one row a replica, in the order of fleet.partitions and of assignment.",
    (
        Column("broker", _I32, "broker id", fill=NO_BROKER),
        Column("slot", _U8, "marks (Slot)", fill=0),
        Column("slot_before", _U8, "marks as the last cycle left them", fill=0),
        Column("sampled_at_ms", _I64, "when the replica last answered"),
        *_SAMPLE,
        Column("caught_up_at_ms", _I64, "when it was last known to be caught up"),
        Column("caught_up_before_ms", _I64, "the same as the last cycle left it"),
        Column("in_sync", _I8, "caught up by Kafka's rule (tri-state)"),
        Column("coverage", _I8, "enough local log to lead (Coverage)", fill=Coverage.ASSUMED),
        Column(
            "out_of_range", _U8, "cases in which it would answer out of range (OutOfRange)", fill=0
        ),
    ),
)

_ROW = Column("row", _I32, "row in fleet.partitions")

FLEET_PENDING = Table(
    "fleet.pending",
    1,
    "State: one row a risk that has begun or ceased to hold, and waits to be opened or closed.",
    (
        _ROW,
        Column("risk", _I32, "the bit (Risk)", fill=0),
        Column("since_ms", _I64, "since when it holds, or no longer holds"),
    ),
)

FLEET_JOINS = Table(
    "fleet.joins",
    1,
    "State and findings: one row a replica that is joining, with the road it has come.",
    (
        _ROW,
        Column("broker", _I32, "broker id"),
        Column("joining", _I8, "0 once it is not joining any more; the row goes with the cycle"),
        Column("since_ms", _I64, "when it was first seen joining"),
        Column("path", _I8, "the path it took (JoinPath), -1 while nobody can tell"),
        Column("start_offset", _I64, "the first offset it copied"),
        Column("end_offset", _I64, "its log end"),
        Column("sampled_at_ms", _I64, "when that was sampled"),
        Column("moved_at_ms", _I64, "when its log end was last seen to move"),
        Column("records_per_s", _F64, "rate it copies at, a moving average"),
        Column("stuck", _I8, "why it does not move (StuckReason), -1 while it does"),
        Column("path_before", _I8, "path as the last cycle left it"),
        Column("start_before_offset", _I64, "start_offset as the last cycle left it"),
        Column("end_before_offset", _I64, "its log end as the last cycle left it"),
        Column("sampled_before_ms", _I64, "when that was sampled"),
        Column("moved_before_ms", _I64, "moved_at_ms as the last cycle left it"),
        Column("records_per_s_before", _F64, "records_per_s as the last cycle left it"),
    ),
)

FLEET_SHRINKS = Table(
    "fleet.shrinks",
    2,
    "Findings: one row a replica that left the ISR lately, and why.",
    (
        _ROW,
        Column("leader", _I32, "who led when it left"),
        Column("broker", _I32, "who left"),
        Column("at_ms", _I64, "when that was seen"),
        Column("seen_before_ms", _I64, "when it was last seen in the ISR"),
        Column("back_at_ms", _I64, "when it was seen in the ISR again"),
        Column("told_at_ms", _I64, "when it left, if a broker's log told it"),
        Column("verdict", _I8, "who was to blame (Verdict)"),
        Column("evidence", _I32, "what speaks for it (Evidence bits)", fill=0),
        Column("kept_by_solution_1", _I8, "KIP-501's solution 1 would have kept it (tri-state)"),
        Column("handover_to", _I32, "who would lead by its solution 2, -1 for nobody"),
        Column("handover_thin", _I8, "that leader has too little local log (tri-state)"),
    ),
)

FLEET_FETCHES = Table(
    "fleet.fetches",
    3,
    "State: one row a follower whose fetches are known, as its leader keeps books on it.",
    (
        _ROW,
        Column("broker", _I32, "broker id of the follower"),
        Column("leader", _I32, "broker id of the leader that keeps the books"),
        Column("leader_epoch", _I32, "leader epoch they hold for"),
        Column("log_start_offset", _I64, "the follower's log start"),
        Column("log_end_offset", _I64, "the follower's log end"),
        Column("leader_end_offset", _I64, "the leader's log end at the last fetch"),
        Column("leader_end_estimate_offset", _I64, "the same, estimated where it is not known"),
        Column("fetched_at_ms", _I64, "when the last fetch arrived", fill=0),
        Column("caught_up_at_ms", _I64, "when it was last caught up, by the leader's books",
               fill=0),
        Column("caught_up_solution_1_at_ms", _I64, "the same by KIP-501's solution 1", fill=0),
        Column("slow_arrived_at_ms", _I64, "when its slowest fetch of late arrived"),
        Column("slow_completed_at_ms", _I64, "when that was answered"),
        Column("slow_caught_up_at_ms", _I64, "caught_up_at_ms as that fetch left it"),
        Column("slow_kept", _I8, "it asked for the leader end of the fetch before (tri-state)"),
    ),
)  # fmt: skip

FLEET_DEPARTURES = Table(
    "fleet.departures",
    1,
    "State: one row a replica that left the ISR lately, as a broker's log told it.",
    (
        _ROW,
        Column("leader", _I32, "who led"),
        Column("broker", _I32, "who left"),
        Column("at_ms", _I64, "when"),
        Column("back_at_ms", _I64, "when it joined again, by a log"),
        Column("behind", _I8, "the leader had more than it (tri-state)"),
        Column("told_caught_up_at_ms", _I64, "when it was last caught up, as the leader says"),
        Column("kept_caught_up_at_ms", _I64, "the same, by the books the twin keeps along"),
    ),
)

FLEET_STARTS = Table(
    "fleet.starts",
    1,
    "State: one row a follower that asked lately where the tier ends: its last question.",
    (
        _ROW,
        Column("broker", _I32, "who asked"),
        Column("leader", _I32, "who was asked"),
        Column("at_ms", _I64, "when"),
        Column("pending_upload_offset", _I64, "the answer, -1 for none"),
        Column("error_code", _I16, "Kafka error code of the answer, 0 if none", fill=0),
        Column("asked", _I32, "how often, with pauses of less than ten minutes", fill=0),
    ),
)

FLEET_LINEAGE = Table(
    "fleet.lineage",
    1,
    "Findings: one row a partition whose remote segments are known.",
    (
        _ROW,
        Column("remote_bytes", _I64, "finished copies, those being deleted included"),
        Column("lineage_bytes", _I64, "of these, what belongs to the log"),
        Column("orphan_segments", _I64, "finished copies that do not"),
        Column("orphan_bytes", _I64, "their size"),
        Column("orphan_since_ms", _I64, "when the oldest of them was copied"),
        Column("dangling_segments", _I64, "copies that were started and not finished"),
        Column("dangling_since_ms", _I64, "when the oldest of them was started"),
        Column("gap_start_offset", _I64, "first offset no copy holds, between two that exist"),
        Column("gap_end_offset", _I64, "first offset after it that one holds"),
        Column("overlaps", _I64, "copies that begin inside another"),
        Column("highest_remote_offset", _I64, "last of its lineage there: not to be replicated"),
        Column("remote_log_start_offset", _I64, "first offset by its remote segments"),
        Column("refused_transitions", _I64, "events that no segment can go through"),
    ),
)

OBSERVATIONS: Final = {
    t.kind: t
    for t in (
        BROKERS,
        PARTITIONS,
        REPLICAS,
        CONFIGS,
        FETCHES,
        ISR_CHANGES,
        TIER_STARTS,
        SEGMENTS,
        EPOCHS,
        BROKER_METRICS,
    )
}
ARCHIVE: Final = {t.kind: t for t in (ARCHIVE_PARTITIONS, ARCHIVE_SEGMENTS)}
STATE: Final = {
    t.kind: t
    for t in (
        FLEET_CLUSTER,
        FLEET_TOPICS,
        FLEET_CONFIGS,
        FLEET_BROKERS,
        FLEET_SIGNALS,
        FLEET_PARTITIONS,
        FLEET_REPLICAS,
        FLEET_PENDING,
        FLEET_JOINS,
        FLEET_SHRINKS,
        FLEET_FETCHES,
        FLEET_DEPARTURES,
        FLEET_STARTS,
        FLEET_LINEAGE,
    )
}
ALL: Final = OBSERVATIONS | STATE | ARCHIVE

SAMPLE_COLUMNS: Final = tuple(c.name for c in _SAMPLE)
