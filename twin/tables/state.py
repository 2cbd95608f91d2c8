"""Tables of observed values that a shard keeps. Ingest alone changes them.

``Topics``, ``PartitionIndex`` and ``Assignment`` are the spine: they give every partition its row
and every replica its slot. All other tables use these rows and slots.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.table import (
    NO_BROKER,
    Blob,
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    KeyedTable,
    PartitionTable,
    ReplicaTable,
    SparseTable,
    Text,
    UInt8,
    Uuid,
    column,
)
from twin.tables.broker_columns import (
    BrokerColumns,
    BrokerConfigColumns,
    BrokerMetricColumns,
    VoterColumns,
)
from twin.tables.columns import ConfigColumns, GroupColumns, LogSample, ProblemColumns
from twin.tables.enums import CLUSTER_WIDE, ReplicaFlags

UNLISTED_STAYS_MS: Final = 86_400_000
"""A broker that no assignment names stays so long after it was listed last, unless the cluster
lists fenced brokers: before Kafka 4.0 nobody says whether it is down or was removed."""

STALE_METRICS_MS: Final = 60_000
"""A broker's own measurement that is older says nothing of now: four rounds by default."""

PRIOR_END_STAYS_MS: Final = 600_000
"""A broker that has lost records may lead minutes after it has answered."""


class Topics(KeyedTable, kind="topics"):
    """[T] one row a topic of the shard, sorted by name and id."""

    topic: Text = column("topic name", fill="")
    topic_id: Uuid = column("topic id, 16 bytes", fill=b"")


class PartitionIndex(PartitionTable, kind="partition_index"):
    """[P] one row a partition, sorted by topic and number."""

    topic_index: Int32 = column("row in topics")
    partition: Int32 = column("partition number")


class Assignment(ReplicaTable, kind="assignment"):
    """[P, R] the broker of each replica slot; unlisted replicas come behind the assigned ones."""

    broker: Int32 = column("broker id", fill=NO_BROKER)


class Partitions(PartitionTable, kind="partitions", api=""):
    """[P] the controller's view of each partition."""

    leader: Int32 = column("broker id of the leader, -1 if none", minus_one_is_a_value=True)
    leader_epoch: Int32 = column("leader epoch")
    listed_at_ms: Int64 = column("when the cluster last listed it", in_api=False)
    described_at_ms: Int64 = column("when this view was observed", in_api=False)
    elr_known: Bool = column("the IN_ELR flags are an answer", fill=False, in_api=False)
    assigned: UInt8 = column("number of assigned replicas", fill=0, in_api=False)


class Replicas(ReplicaTable, LogSample, kind="replicas", api="", version=2):
    """[P, R] what the controller and the replica itself report of each replica."""

    sampled_at_ms: Int64 = column("when the replica last answered", in_api=False)
    replica_flags: UInt8 = column(
        "the controller's view of the replica", fill=0, flags=ReplicaFlags
    )


class Configs(KeyedTable, ConfigColumns, kind="configs", version=7):
    """[C] one row a configured topic, sorted by name; the empty name holds cluster-wide values."""

    configured_at_ms: Int64 = column("when it was observed")

    def cluster_wide(self, name: str) -> int:
        """A cluster-wide value; the column's fill where it was not observed."""
        if len(self.topic) and self.topic[0] == CLUSTER_WIDE:  # the empty name comes first
            return int(getattr(self, name)[0])
        return int(next(c.fill for c in self.columns if c.name == name))


class Brokers(KeyedTable, BrokerConfigColumns, BrokerColumns, kind="brokers", version=6):
    """[B] one row a broker that is registered, or may be, sorted by id."""

    answered: Bool = column("it answered the newest cycle within its deadline", fill=False)
    answered_in_ms: Int32 = column("time until its last answer of the cycle")
    log_dir_total_bytes: Int64 = column("size of its log volumes")
    log_dir_usable_bytes: Int64 = column("free space of its log volumes")
    listed_at_ms: Int64 = column("when the cluster last listed it")
    answered_at_ms: Int64 = column("when it last answered")
    silent_since_ms: Int64 = column("last answer before its newest silence")
    silent_until_ms: Int64 = column("first answer after that silence, or unknown")


class BrokerMetrics(KeyedTable, BrokerMetricColumns, kind="broker_metrics", version=3):
    """[M] what brokers with a JMX exporter measure themselves, sorted by id; NaN if absent."""

    def of_brokers(self, brokers: Int32, name: str, now_ms: int) -> Float64:
        """[B] a metric of those brokers; NaN where it is absent or stale."""
        value = np.full(len(brokers), np.nan)
        _, here, known = np.intersect1d(brokers, self.broker, return_indices=True)
        recent = now_ms - self.measured_at_ms[known] <= STALE_METRICS_MS
        value[here] = np.where(recent, getattr(self, name)[known], np.nan)
        return value


class ControllerQuorum(KeyedTable, VoterColumns, kind="controller_quorum"):
    """[K] one row a voter of the controller quorum, sorted by node."""

    observed_at_ms: Int64 = column("when that was observed")


class Problems(KeyedTable, ProblemColumns, kind="problems"):
    """[K] one row a problem of the newest cycle: what the collector could not find out."""

    since_ms: Int64 = column("first of the cycles since which it has lasted")


class ProblemListing(KeyedTable, kind="problem_listing"):
    """[1] the cycle of the problems; no row before a collector sent a list of them."""

    at_ms: Int64 = column("when the cycle was observed")
    is_whole: Bool = column("no problem is left out", fill=False)


class SkippedFrames(KeyedTable, kind="skipped_frames"):
    """[K] one row a kind of frames that this version does not know, and skipped."""

    kind_name: Text = column("kind of the frames", fill="")
    frames: Int64 = column("frames skipped since the state began", fill=0)


class FollowerStates(SparseTable, kind="follower_states", version=2):
    """[N] one row a follower whose fetches are known: the state that its leader keeps of it.

    Kafka's ReplicaState, reconstructed from the log of completed fetches.
    """

    broker: Int32 = column("broker id of the follower")
    leader: Int32 = column("broker id of the leader that keeps this state")
    leader_epoch: Int32 = column("leader epoch for which it holds")
    log_start_offset: Int64 = column("log start of the follower")
    log_end_offset: Int64 = column("log end of the follower")
    last_fetch_leader_end_offset: Int64 = column("log end of the leader at the last fetch")
    last_fetch_leader_end_estimate_offset: Int64 = column(
        "the same, estimated where it is not known"
    )
    last_fetch_at_ms: Int64 = column("when the last fetch arrived", fill=0)
    caught_up_at_ms: Int64 = column("when the follower was last caught up", fill=0)
    caught_up_solution_1_at_ms: Int64 = column(
        "when it was last caught up by solution 1 of KIP-501", fill=0
    )
    slow_arrived_at_ms: Int64 = column("when its slowest recent fetch arrived")
    slow_taken_at_ms: Int64 = column("when a request handler of the leader took that fetch")
    slow_completed_at_ms: Int64 = column("when that fetch was answered")
    slow_caught_up_at_ms: Int64 = column("caught_up_at_ms after that fetch")
    slow_asked_for_leader_end: Int8 = column(
        "that fetch asked for the leader's log end of the fetch before", tri_state=True
    )
    longest_processing_ms: Int64 = column(
        "longest time from a request handler to the answer, of its recent fetches"
    )
    longest_processing_at_ms: Int64 = column("when that fetch was answered")


class LoggedHighWatermarks(SparseTable, kind="logged_high_watermarks"):
    """[N] one row a partition whose leader's answers to followers are known."""

    leader: Int32 = column("broker id of the leader that answered")
    leader_epoch: Int32 = column("leader epoch that the follower named")
    at_ms: Int64 = column("when it answered")
    offset: Int64 = column("high watermark of the answer")


class PriorEnds(SparseTable, kind="prior_ends"):
    """[N] one row a replica that may have lost records between two answers: its log has become
    shorter, or it did not answer for a cycle. It may have been written since."""

    broker: Int32 = column("broker id of the replica")
    at_ms: Int64 = column("when it answered again")
    end_offset: Int64 = column("its log end offset by the answer before, the furthest of several")


class TruncatedLogs(SparseTable, kind="truncated_logs"):
    """[N] one row a replica that has just truncated its log, after the start of its broker."""

    broker: Int32 = column("broker id of the replica")
    at_ms: Int64 = column("when, by its clock")
    end_offset: Int64 = column("log end offset before")
    to_offset: Int64 = column("log end offset since")


class LoggedUncleanElections(SparseTable, kind="logged_unclean_elections"):
    """[N] one row an election that a controller has just logged as unclean."""

    broker: Int32 = column("broker id of the leader that was elected")
    leader_epoch: Int32 = column("its leader epoch")
    at_ms: Int64 = column("when it was logged first")


class IsrRemovals(SparseTable, kind="isr_removals"):
    """[N] one row a replica that left the ISR recently, as a broker logged it."""

    leader: Int32 = column("broker id of the leader")
    broker: Int32 = column("broker id of the replica that left")
    at_ms: Int64 = column("when")
    rejoined_at_ms: Int64 = column("when it joined again, as logged")
    was_behind: Int8 = column("the leader had more records than the replica", tri_state=True)
    logged_caught_up_at_ms: Int64 = column("when it was last caught up, as its leader logged it")
    tracked_caught_up_at_ms: Int64 = column("the same, by the follower state kept here")


class PendingUploadLookups(SparseTable, kind="pending_upload_lookups"):
    """[N] one row a follower that asked recently where its leader's pending uploads begin."""

    broker: Int32 = column("broker id of the follower")
    leader: Int32 = column("broker id of the leader that was asked")
    at_ms: Int64 = column("when it asked last")
    pending_upload_offset: Int64 = column("the last answer, -1 for none")
    error_code: Int16 = column("Kafka error code of the last answer, 0 for none", fill=0)
    request_count: Int32 = column(
        "requests, with pauses of less than ten minutes between them", fill=0
    )


class Groups(KeyedTable, GroupColumns, kind="groups"):
    """[G] one row a group of consumers, sorted by id; ``group_offsets`` counts in these rows."""

    listed_at_ms: Int64 = column("when a listing last named it")


class GroupListing(KeyedTable, kind="group_listing"):
    """[1] how far the newest complete listing of groups is."""

    at_ms: Int64 = column("cycle whose groups are being listed")
    parts_seen: Blob = column("a bit for each part of it that arrived", fill=b"")
    whole_at_ms: Int64 = column("newest cycle of which all parts arrived")


class ReaderRacks(KeyedTable, kind="reader_racks"):
    """[K] racks of members of groups, sorted by name."""

    rack: Text = column("rack", fill="")


class GroupOffsets(SparseTable, kind="group_offsets", counts_in=(Groups, ReaderRacks)):
    """[N] one row a group and a partition, sorted by partition and group."""

    group_index: Int32 = column("row in groups")
    committed_offset: Int64 = column("offset of the next record to read; -1 if none is committed")
    read_at_ms: Int64 = column("when it was read")
    assigned: Int8 = column("a member of the group is assigned the partition", tri_state=True)
    rack_index: Int32 = column("row of that member's rack in reader_racks, -1 if not known")


class FormerOffsets(KeyedTable, kind="former_offsets"):
    """[K] what groups had committed to partitions that are deleted, sorted by topic, partition and
    group."""

    topic: Text = column("topic name", fill="")
    topic_id: Blob = column("topic id of the deleted topic", fill=b"")
    partition: Int32 = column("partition number")
    group: Text = column("group id", fill="")
    committed_offset: Int64 = column("offset of the next record to read")
    read_at_ms: Int64 = column("when it was read last")
