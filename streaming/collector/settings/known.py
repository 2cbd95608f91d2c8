"""Settings that replication, election, retention and tiered storage read, and their use here.

A setting is *used*, or it changes nothing that the twin says (*not needed*, with the reason), or it
would and the twin does not know it (*missing*, with what is wrong where it is set).

Source: KafkaConfig, LogConfig, RemoteLogManagerConfig and ReplicationConfigs, Kafka 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Use(StrEnum):
    """Whether the twin uses a setting."""

    USED = "used"
    NOT_NEEDED = "not needed"
    MISSING = "missing"


class Level(StrEnum):
    """Where a setting is made."""

    TOPIC = "topic, and default of brokers"
    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting and its use: what is derived from it, why it is not needed, or what goes wrong."""

    name: str
    level: Level
    use: Use
    text: str


def _all(level: Level, use: Use, **texts: str) -> tuple[Setting, ...]:
    return tuple(
        Setting(name.replace("__", "-").replace("_", "."), level, use, text)
        for name, text in texts.items()
    )


SETTINGS: Final = (
    *_all(
        Level.TOPIC, Use.USED,
        min_insync_replicas="when acks=all is refused, the life of the ELR, the high watermark",
        unclean_leader_election_enable="who leads when nobody in sync can",
        remote_storage_enable="whether the tier is judged",
        remote_log_copy_disable="uploads end, and retention does not wait for them (KIP-950)",
        remote_copy_lag_ms="uploads that wait on purpose (KIP-1241)",
        remote_copy_lag_bytes="the same in bytes",
        cleanup_policy="which offsets are records, and which logs retention bounds",
        local_retention_ms="what followers find on the leader's disk; groups that read remotely",
        local_retention_bytes="the same in bytes",
        retention_ms="groups that lose records; logs that keep too much",
        retention_bytes="the same in bytes",
        segment_ms="what is not uploaded or deleted yet",
        segment_bytes="the same in bytes",
        min_cleanable_dirty_ratio="when the log cleaner should compact a log that only grows",
        min_compaction_lag_ms="what the log cleaner leaves alone as yet",
        diskless_enable="topics without local logs are not judged (KIP-1150)",
        leader_election_eligible_local_log_ms="who is warm (KIP-1303)",
        leader_election_eligible_local_log_bytes="the same in bytes",
    ),
    *_all(
        Level.BROKER, Use.USED,
        min_insync_replicas="the minimum of topics without one of their own, where it leads",
        replica_lag_time_max_ms="when a leader removes a follower: that of the leader's broker",
        log_retention_ms="brokers that differ are named: each deletes by its own, and a topic "
        "without one is judged by that of the broker that was asked",
        log_retention_minutes="the same, where no milliseconds are set",
        log_retention_hours="the same, where no minutes are set",
        log_retention_bytes="as log.retention.ms",
        log_local_retention_ms="as log.retention.ms",
        log_local_retention_bytes="as log.retention.ms",
        log_roll_ms="as log.retention.ms",
        log_roll_hours="the same, where no milliseconds are set",
        log_segment_bytes="as log.retention.ms",
        replica_fetch_wait_max_ms="how often a follower in sync fetches, for `check`",
        replica_selector_class="from which replica a consumer reads (KIP-392)",
        follower_fetch_last_tiered_offset_enable="where an empty follower starts (KIP-1023)",
    ),
    *_all(
        Level.TOPIC, Use.NOT_NEEDED,
        segment_jitter_ms="within the slack that is given to segment.ms",
        remote_log_delete_on_disable="a topic that is not tiered has no tier to judge",
        file_delete_delay_ms="within the slack that is given to retention",
        delete_retention_ms="compacted logs are not judged by age",
        message_timestamp_type="batches say it themselves",
        preallocate="sizes come from DescribeLogDirs",
    ),
    *_all(
        Level.BROKER, Use.NOT_NEEDED,
        log_dirs="DescribeLogDirs lists them",
        num_replica_fetchers="rates are measured",
        replica_fetch_max_bytes="rates are measured",
        replica_fetch_backoff_ms="a follower that waits is late by what is measured",
        log_retention_check_interval_ms="within the slack that is given to retention",
        broker_rack="DescribeCluster has it",
        remote_log_manager_copy_max_bytes_per_second="the rate of uploads is measured",
        remote_log_manager_fetch_max_bytes_per_second="the rate of remote reads is measured",
        remote_log_manager_task_interval_ms="what a leader learns later is *unknown* until then",
        remote_fetch_max_wait_ms="it delays consumers, and changes nothing of a replica",
        leader_imbalance_check_interval_seconds="who is preferred is said, not when it leads",
        leader_imbalance_per_broker_percentage="KRaft's controller does not read it",
        auto_leader_rebalance_enable="plans move leaders by themselves; forecasts are of losses",
        offsets_retention_minutes="offsets that Kafka forgot are not listed any more",
        controlled_shutdown_enable="KRaft's brokers always hand over",
    ),
    *_all(
        Level.CONTROLLER, Use.NOT_NEEDED,
        broker_session_timeout_ms="when a broker is fenced is observed",
        broker_heartbeat_interval_ms="the same",
        unclean_leader_election_interval_ms="an unclean election is foretold whenever it comes",
    ),
    *_all(
        Level.TOPIC, Use.MISSING,
        follower_replication_throttled_replicas="a throttled replica looks slow; its rate is right",
        leader_replication_throttled_replicas="the same",
    ),
    *_all(
        Level.BROKER, Use.MISSING,
        remote_log_storage_system_enable="the twin does not notice a broker on which remote "
        "storage is disabled",
        message_timestamp_after_max_ms="timestamps in the future are suspect wherever they occur",
    ),
)  # fmt: skip
