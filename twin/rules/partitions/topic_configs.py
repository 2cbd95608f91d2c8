"""The settings that hold for each partition: the topic's own, or the cluster-wide ones."""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import gauge, rule
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    PartitionTable,
    UInt8,
    column,
)
from twin.rules.partitions.own_limits import own_limits
from twin.tables.enums import NOT_SET, InheritedLimit
from twin.tables.state import Assignment, Brokers, Configs, PartitionIndex, Partitions, Topics


class TopicConfigs(
    PartitionTable, kind="topic_configs", on_demand="looked up in the table configs"
):
    """[P] the settings that hold for each partition; unknown where nobody could read them."""

    min_insync_replicas: Int64 = column("min.insync.replicas")
    min_isr_inherited: Int8 = column("the topic has none of its own", tri_state=True)
    inherited_limits: Int16 = column(
        "limits that the topic does not set: they are those of the leader's broker here",
        flags=InheritedLimit,
        in_api=False,
    )
    unclean_leader_election: Int8 = column("unclean.leader.election.enable", tri_state=True)
    unclean_elections: Int8 = column(
        "the controller obeys unclean.leader.election.enable", tri_state=True
    )
    remote_storage: Int8 = column("remote.storage.enable", tri_state=True)
    compacted: Int8 = column("cleanup.policy contains compact", tri_state=True)
    tiered_compacted: Int8 = column(
        "tiered and compacted (KIP-1272): remote_storage is unknown then, and nothing about the "
        "tier is judged",
        tri_state=True,
    )
    copies_disabled: Int8 = column("nothing more is uploaded (KIP-950)", tri_state=True)
    diskless: Int8 = column(
        "the records are in object storage alone (KIP-1150): nothing about it is judged",
        tri_state=True,
    )
    local_retention_ms: Int64 = column(
        "effective local.retention.ms, -1 for unlimited, -2 if unknown", fill=NOT_SET
    )
    local_retention_bytes: Int64 = column(
        "effective local.retention.bytes, -1 for unlimited, -2 if unknown", fill=NOT_SET
    )
    retention_ms: Int64 = column(
        "retention.ms, -1 if nothing is deleted by it, -2 if unknown", fill=NOT_SET
    )
    retention_bytes: Int64 = column(
        "retention.bytes, -1 if nothing is deleted by it, -2 if unknown", fill=NOT_SET
    )
    upload_delay_ms: Int64 = column(
        "effective remote.copy.lag.ms, 0 where uploads do not wait, -1 without a limit, -2 if "
        "unknown",
        fill=NOT_SET,
    )
    upload_delay_bytes: Int64 = column(
        "effective remote.copy.lag.bytes, 0 where uploads do not wait, -1 without a limit, -2 if "
        "unknown",
        fill=NOT_SET,
    )
    segment_ms: Int64 = column("segment.ms")
    segment_bytes: Int64 = column("segment.bytes")
    min_compaction_lag_ms: Int64 = column("min.compaction.lag.ms")
    min_dirty_percent: Int64 = column("min.cleanable.dirty.ratio in percent")
    one_replica_accepted: Int8 = column(
        "somebody accepted that its partitions have one replica", tri_state=True
    )
    eligible_local_log_ms: Int64 = column("threshold of KIP-1303 in time, -1 off", fill=NOT_SET)
    eligible_local_log_bytes: Int64 = column("threshold of KIP-1303 in bytes, -1 off", fill=NOT_SET)


class LeaderMinIsr(PartitionTable, kind="leader_min_isr", api=""):
    """[P] the number of in-sync replicas below which the leader refuses acks=all."""

    min_isr: Int32 = column(
        "min.insync.replicas as the leader applies it to acks=all: at most the number of replicas "
        "of the partition"
    )


class ControllerMinIsr(PartitionTable, kind="controller_min_isr", api=""):
    """[P] the number of in-sync replicas below which the controller keeps an ELR (KIP-966)."""

    controller_min_isr: Int32 = column(
        "min.insync.replicas as the controller applies it to the ELR: at most the number of "
        "replicas of the topic's first partition"
    )


@rule
def topic_configs(
    index: PartitionIndex,
    topics: Topics,
    configs: Configs,
    partitions: Partitions,
    brokers: Brokers,
) -> TopicConfigs:
    """The topic's own value, or the cluster-wide one where it does not override it; of retention
    and segments the leader's broker's, where brokers differ."""
    row = keys.find_sorted(configs.topic, topics.topic)
    listed = row != UNKNOWN
    of_partition = index.topic_index.astype(np.intp)  # else numpy converts it for each column
    values = {}
    for c in TopicConfigs.columns:
        default = configs.cluster_wide(c.name)
        value = np.full(len(topics.topic), default, c.dtype)
        if listed.any():
            own = getattr(configs, c.name)[row[listed]]
            not_set = NOT_SET if c.fill == NOT_SET else UNKNOWN
            value[listed] = np.where(own == not_set, default, own)
        values[c.name] = value.take(of_partition)
    inherited = values["inherited_limits"]
    return TopicConfigs(**values | own_limits(values, inherited, partitions.leader, brokers))


def holds_unclean_elections(configs: TopicConfigs) -> Bool:
    """[P] a replica from outside the ISR is elected if no other can lead.

    Source: ConfigurationControlManager.uncleanLeaderElectionEnabledForTopic, which returns false
    in Kafka 3.3 to 3.8 and reads the setting since 3.9; ZooKeeper's controller always reads it.
    """
    return (configs.unclean_leader_election == 1) & (configs.unclean_elections != 0)


def forbids_unclean_elections(configs: TopicConfigs) -> Bool:
    """[P] nobody from outside the ISR is elected unless an operator asks for it; not where that
    could not be read."""
    return (configs.unclean_leader_election == 0) | (configs.unclean_elections == 0)


@rule
def leader_min_isr(partitions: Partitions, configs: TopicConfigs, brokers: Brokers) -> LeaderMinIsr:
    """The value is never above the partition's own replication; unknown counts as Kafka's 1.

    A topic without a value of its own has that of its leader's broker.

    Source: Partition.effectiveMinIsr, which appendRecordsToLeader, the gauges UnderMinIsr and
    AtMinIsr and the high watermark read; Kafka 4.3.
    """
    configured = configs.min_insync_replicas
    inherited = configs.min_isr_inherited == 1
    if inherited.any():
        own = _of_brokers(brokers, partitions.leader)
        configured = np.where(inherited & (own != UNKNOWN), own, configured)
    return LeaderMinIsr(_capped(configured, partitions.assigned))


def differ_by_leader(configs: TopicConfigs, brokers: Brokers) -> Bool:
    """[P] partitions whose min.insync.replicas may change with their leader: the topic has none of
    its own, and brokers have different ones."""
    own = brokers.default_min_isr
    if len(own) < 2 or (own == own[0]).all():
        return np.zeros(len(configs.min_isr_inherited), bool)
    is_inherited: Bool = configs.min_isr_inherited == 1
    return is_inherited


def min_isr_under(
    leader: Int32,
    least: Int32,
    partitions: Partitions,
    configs: TopicConfigs,
    brokers: Brokers,
) -> Int32:
    """[P] what ``LeaderMinIsr`` is once those brokers [P] lead.

    Args:
        leader: broker ids; under nobody it stays as it is.
        least: the present values.
        partitions, configs: of the same rows.
        brokers: with their own min.insync.replicas.
    """
    differs = differ_by_leader(configs, brokers)
    if not differs.any():
        return least
    row = np.flatnonzero(differs & (leader != partitions.leader) & (leader != NO_BROKER))
    own = _of_brokers(brokers, leader[row])
    configured = np.where(own != UNKNOWN, own, configs.min_insync_replicas[row])
    then = least.copy()
    then[row] = _capped(configured, partitions.assigned[row])
    return then


def _of_brokers(brokers: Brokers, ids: Array) -> Int64:
    """[N] min.insync.replicas of those brokers' own settings; unknown for who is not listed."""
    return np.append(brokers.default_min_isr, UNKNOWN)[keys.find_sorted(brokers.broker, ids)]


@rule
def controller_min_isr(
    index: PartitionIndex, partitions: Partitions, configs: TopicConfigs
) -> ControllerMinIsr:
    """The value is never above the replication of the first partition; unknown counts as Kafka's 1.

    Source: ReplicationControlManager.getTopicEffectiveMinIsr, Kafka 4.3.
    """
    first = np.flatnonzero(np.diff(index.topic_index, prepend=UNKNOWN))
    counts = np.diff(first, append=len(index.topic_index))
    replicas = np.repeat(partitions.assigned[first], counts)
    return ControllerMinIsr(_capped(configs.min_insync_replicas, replicas))


def _capped(configured: Int64, replicas: UInt8) -> Int32:
    """[P] min.insync.replicas, at least 1 and at most that number of replicas [P]."""
    return np.minimum(np.maximum(configured, 1), np.maximum(replicas, 1)).astype(np.int32)


# ---------------------------------------------------------------- exported


@gauge("partitions", "Partitions of the topic.", level="topic")
def topic_partitions(index: PartitionIndex) -> Array:
    """A 1 for each partition."""
    return np.ones(len(index.partition), np.int64)


@gauge("partitions", "Partitions that the twin knows.")
def partitions(index: PartitionIndex) -> int:
    """The partitions, also those that no listing described yet."""
    return len(index.partition)


@gauge(
    "partitions_tiered_compacted",
    "Partitions of topics that are tiered and compacted (KIP-1272): nothing about their tier is "
    "judged.",
)
def partitions_tiered_compacted(configs: TopicConfigs) -> int:
    """None on the releases that refuse the two settings together."""
    return int((configs.tiered_compacted == 1).sum())


@gauge(
    "partitions_diskless",
    "Partitions of diskless topics (KIP-1150): nothing about them is judged.",
)
def partitions_diskless(configs: TopicConfigs) -> int:
    """None on the releases that do not know diskless.enable."""
    return int((configs.diskless == 1).sum())


@gauge("replicas", "Assigned replicas that the twin knows.")
def replicas(partitions: Partitions, assignment: Assignment) -> int:
    """The assigned replicas."""
    return int((np.arange(assignment.broker.shape[1]) < partitions.assigned[:, None]).sum())


@gauge(
    "eligible_local_log_seconds",
    "Configured threshold of KIP-1303 in time for the topic; no series where it is off.",
    level="topic",
    combine="max",
    scale=1 / 1000,
)
def eligible_local_log_seconds(configs: TopicConfigs) -> Array:
    """The topic's threshold, which each of its partitions has."""
    threshold = configs.eligible_local_log_ms
    return np.where(threshold > 0, threshold, UNKNOWN)


@gauge(
    "eligible_local_log_bytes",
    "Configured threshold of KIP-1303 in bytes for the topic; no series where it is off.",
    level="topic",
    combine="max",
)
def eligible_local_log_bytes(configs: TopicConfigs) -> Array:
    """The topic's threshold, which each of its partitions has."""
    threshold = configs.eligible_local_log_bytes
    return np.where(threshold > 0, threshold, UNKNOWN)
