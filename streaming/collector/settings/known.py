"""Settings that replication, election, retention and tiered storage read, and their use here.

All settings of topics are listed, and those of brokers and controllers that begin with one of
``PREFIXES``: a test compares the list with Kafka's own. A broker's name of a topic's setting, such
as log.cleaner.min.compaction.lag.ms, is that setting, and listed where it is read by itself.

A setting is *used*, or it changes nothing that the twin says (*not needed*, with the reason), or it
would and the twin does not know it (*missing*, with what is wrong where it is set).

Source: KafkaConfig, LogConfig, RemoteLogManagerConfig and ReplicationConfigs, Kafka 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PREFIXES: Final = (
    "alter.log.dirs.", "auto.leader.", "broker.", "controlled.", "controller.quorum.", "cordoned.",
    "default.replication.", "follower.", "leader.", "log.", "num.recovery.", "num.replica.",
    "offsets.retention.", "remote.", "replica.", "replication.", "unclean.",
)  # fmt: skip
"""Beginnings of the names that replication, election, retention and tiered storage read."""


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
        "without one is judged by that of its leader's broker",
        log_retention_minutes="the same, where no milliseconds are set",
        log_retention_hours="the same, where no minutes are set",
        log_retention_bytes="as log.retention.ms",
        log_local_retention_ms="as log.retention.ms",
        log_local_retention_bytes="as log.retention.ms",
        log_roll_ms="as log.retention.ms",
        log_roll_hours="the same, where no milliseconds are set",
        log_segment_bytes="as log.retention.ms",
        log_retention_check_interval_ms="how late segments are deleted, for when a disk is full",
        remote_log_manager_copy_max_bytes_per_second="when uploads have caught up after an outage",
        replica_fetch_wait_max_ms="how often a follower in sync fetches, for `check`",
        replica_selector_class="from which replica a consumer reads (KIP-392)",
        follower_fetch_last_tiered_offset_enable="where an empty follower starts (KIP-1023)",
    ),
    *_all(
        Level.TOPIC, Use.NOT_NEEDED,
        compression_type="sizes come from DescribeLogDirs",
        compression_gzip_level="the same",
        compression_lz4_level="the same",
        compression_zstd_level="the same",
        errors_deadletterqueue_group_enable="of share groups, which commit no offsets",
        flush_messages="replicas make a record durable; a log that lost what was not flushed is "
        "seen to be shorter",
        flush_ms="the same",
        index_interval_bytes="an index says nothing of records",
        segment_index_bytes="a full index closes a segment earlier, never later",
        internal_segment_bytes="of Kafka's own tests",
        max_compaction_lag_ms="it makes the log cleaner come earlier, never later",
        max_message_bytes="what it refuses is in no log",
        max_decompressed_message_bytes="the same",
        message_timestamp_before_max_ms="the same; a timestamp that cannot be is suspect where it "
        "occurs",
        message_timestamp_after_max_ms="the same",
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
        log_dir="the same",
        log_dir_failure_timeout_ms="when a broker with a failed directory ends is observed",
        log_flush_offset_checkpoint_interval_ms="it shortens a start, which is observed",
        log_flush_start_offset_checkpoint_interval_ms="the same",
        num_recovery_threads_per_data_dir="the same",
        log_initial_task_delay_ms="within the slack that is given to retention",
        log_cleaner_threads="a cleaner that cannot keep up leaves logs that only grow",
        log_cleaner_backoff_ms="the same",
        log_cleaner_dedupe_buffer_size="the same",
        log_cleaner_io_buffer_size="the same",
        log_cleaner_io_buffer_load_factor="the same",
        log_cleaner_io_max_bytes_per_second="the same",
        num_replica_fetchers="rates are measured",
        num_replica_alter_log_dirs_threads="a move within a broker is the broker's own",
        alter_log_dirs_replication_quota_window_num="the same",
        alter_log_dirs_replication_quota_window_size_seconds="the same",
        replica_alter_log_dirs_io_max_bytes_per_second="the same",
        replication_quota_window_num="rates are measured",
        replication_quota_window_size_seconds="the same",
        replica_fetch_min_bytes="the same",
        replica_fetch_response_max_bytes="the same",
        replica_socket_receive_buffer_bytes="the same",
        replica_socket_timeout_ms="a follower that waits is late by what is measured",
        replica_high_watermark_checkpoint_interval_ms="each leader is asked for its high watermark",
        default_replication_factor="the replicas of each partition are listed",
        broker_id="Metadata has it",
        replica_fetch_max_bytes="rates are measured",
        replica_fetch_backoff_ms="a follower that waits is late by what is measured",
        broker_rack="DescribeCluster has it",
        remote_log_manager_copy_quota_window_num="how far uploads are behind is measured",
        remote_log_manager_copy_quota_window_size_seconds="the same",
        remote_log_manager_copier_thread_pool_size="the same",
        remote_log_manager_thread_pool_size="the same, before Kafka 4.2",
        remote_log_manager_fetch_max_bytes_per_second="the rate of remote reads is measured",
        remote_log_manager_fetch_quota_window_num="the same",
        remote_log_manager_fetch_quota_window_size_seconds="the same",
        remote_log_reader_max_pending_tasks="the queue of reads is measured",
        remote_log_index_file_cache_total_size_bytes="the time of remote reads is measured",
        remote_log_index_file_cache_ttl_ms="the same",
        remote_log_manager_task_interval_ms="what a leader learns later is *unknown* until then",
        remote_log_manager_follower_thread_pool_size="the same, of followers",
        remote_log_manager_task_retry_backoff_ms="shorter than the pause that failed uploads may "
        "have, for `uploads_fail`",
        remote_log_manager_task_retry_backoff_max_ms="the same",
        remote_log_manager_task_retry_jitter="the same",
        remote_log_manager_expiration_thread_pool_size="what is in remote storage is read from its "
        "metadata",
        remote_log_metadata_custom_metadata_max_bytes="custom metadata is not read",
        remote_log_metadata_manager_class_name="where another class keeps the metadata, Kafka's "
        "topic is not there, and lineage is unknown",
        remote_log_metadata_manager_class_path="the same",
        remote_log_metadata_manager_impl_prefix="the same",
        remote_log_metadata_manager_listener_name="it is between brokers",
        remote_log_storage_manager_class_name="remote storage itself is never read",
        remote_log_storage_manager_class_path="the same",
        remote_log_storage_manager_impl_prefix="the same",
        remote_list_offsets_request_timeout_ms="no offset that is asked for is looked up in remote "
        "storage",
        remote_fetch_max_wait_ms="it delays consumers, and changes nothing of a replica",
        leader_imbalance_check_interval_seconds="who is preferred is said, not when it leads",
        leader_imbalance_per_broker_percentage="KRaft's controller does not read it",
        auto_leader_rebalance_enable="plans move leaders by themselves; forecasts are of losses",
        offsets_retention_minutes="offsets that Kafka forgot are not listed any more",
        offsets_retention_check_interval_ms="the same",
        controlled_shutdown_enable="KRaft's brokers always hand over",
    ),
    *_all(
        Level.CONTROLLER, Use.NOT_NEEDED,
        broker_session_timeout_ms="when a broker is fenced is observed",
        broker_heartbeat_interval_ms="the same",
        unclean_leader_election_interval_ms="an unclean election is foretold whenever it comes",
        controller_quorum_voters="DescribeQuorum lists them",
        controller_quorum_bootstrap_servers="the same",
        controller_quorum_auto_join_enable="the same",
        controller_quorum_election_timeout_ms="how long elections among controllers take is "
        "observed",
        controller_quorum_election_backoff_max_ms="the same",
        controller_quorum_request_timeout_ms="the same",
        controller_quorum_retry_backoff_ms="the same",
        controller_quorum_append_linger_ms="the lag of a voter is measured",
        controller_quorum_fetch_max_bytes="the same",
        controller_quorum_fetch_snapshot_max_bytes="the same",
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
        remote_log_reader_threads="`kafka_twin_broker_loss_remote_read_seconds` is the time of 10 "
        "threads, Kafka's default",
        log_cleaner_enable="where it is false, `compacted_only_grows` opens without this cause",
        cordoned_log_dirs="`plan place` does not know that a broker takes no new replicas",
        leader_replication_throttled_rate="what a throttle still lets through is not known ahead: "
        "times to catch up follow from the rate until now",
        follower_replication_throttled_rate="the same",
    ),
    *_all(
        Level.CONTROLLER, Use.MISSING,
        controller_quorum_fetch_timeout_ms="a voter is behind after 5 s, whatever this is; Kafka's "
        "default is 2 s",
    ),
)  # fmt: skip
