from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from kafka.protocol.admin import DescribeConfigsRequest

from streaming.collector.context import CycleContext
from streaming.collector.settings.config_values import topic_columns
from streaming.collector.settings.thresholds import ThresholdLookup
from streaming.collector.sources.configs import ConfigSource
from streaming.collector.sources.metadata import ClusterMetadata, MetadataSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import (
    ClusterConfig,
    CollectorConfig,
    Config,
    ConfigError,
    EligibilityConfig,
    ProposalsConfig,
    TopicThreshold,
)
from streaming.runtime.deadline import Deadline
from tests.collector.fake_broker import FakeCluster, Partition, Topic, World, fake_cluster
from tests.collector.older import all_be_kafka
from tests.waiting import patient_ms
from twin.declarations.table import UNKNOWN
from twin.tables.enums import InheritedLimit
from twin.tables.observations import ConfigsFrame


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with fake_cluster(World(), [1, 2]) as two:
        yield two


class Asker:
    """Refreshes the settings of what the cluster lists; rows by topic, of every shard."""

    def __init__(self, cluster: FakeCluster, config: Config | None = None, **limits: int) -> None:
        self.config = config or Config()
        self.brokers = BrokerConnections(cluster.bootstrap, {}, patient_ms(1_000))
        self.topics = MetadataSource(self.config, "test")
        self.configs = ConfigSource(self.config, "test", **limits)
        self.shards: set[int] = set()
        self.view: ClusterMetadata | None = None

    def __call__(self) -> dict[str, dict[str, Any]]:
        self.view = self.topics.read(self.brokers, Deadline.after_ms(patient_ms(900)))
        assert self.view is not None
        placement = self.view.listing.placement
        context = CycleContext(self.brokers, self.topics.metadata_broker, patient_ms(900))
        self.shards = self.configs.refresh(context, placement)
        by_topic = {}
        for shard in range(placement.shards):
            table = self.configs.table(placement, shard)
            assert table.schema.equals(ConfigsFrame.schema())
            by_topic |= {row.pop("topic"): row for row in table.to_pylist()}
        return by_topic


@pytest.fixture
def ask(cluster: FakeCluster) -> Iterator[Asker]:
    asker = Asker(cluster)
    yield asker
    asker.brokers.close()


TIERED = {
    "remote.storage.enable": "true",
    "local.retention.ms": "3000",
    "local.retention.bytes": "-2",
    "segment.ms": "604800000",
    "segment.bytes": "1073741824",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "cleanup.policy": "delete",
    "min.compaction.lag.ms": "60000",
    "min.cleanable.dirty.ratio": "0.29",
}


def test_topic_and_cluster_settings_stand_in_their_columns(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.topics = {"a": Topic({0: Partition([1])}, configs=TIERED)}
    cluster.world.broker_configs |= {"follower.fetch.last.tiered.offset.enable": "true"}
    rows = ask()
    assert rows["a"] == {
        "min_insync_replicas": 2,
        "min_isr_inherited": 0,
        "inherited_limits": 0,
        "one_replica_accepted": 0,
        "unclean_leader_election": 0,
        "remote_storage": 1,
        "compacted": 0,
        "tiered_compacted": 0,
        "copies_disabled": 0,
        "diskless": 0,
        "local_retention_ms": 3_000,
        "local_retention_bytes": -1,
        "upload_delay_ms": 0,
        "upload_delay_bytes": 0,
        "segment_ms": 604_800_000,
        "segment_bytes": 1_073_741_824,
        "retention_ms": 604_800_000,
        "retention_bytes": -1,
        "min_compaction_lag_ms": 60_000,
        "min_dirty_percent": 29,
        "eligible_local_log_ms": -2,
        "eligible_local_log_bytes": -2,
        "fetch_processing_max_ms": -1,
        "group_in_use_ms": -1,
        "replica_lag_time_max_ms": -1,
        "elr_enabled": -1,
        "unclean_elections": -1,
        "last_tiered_fetch": -1,
    }
    assert rows[""] == {
        "min_insync_replicas": 1,
        "min_isr_inherited": -1,
        "inherited_limits": -1,
        "one_replica_accepted": -1,
        "unclean_leader_election": -1,
        "remote_storage": -1,
        "compacted": -1,
        "tiered_compacted": -1,
        "copies_disabled": -1,
        "diskless": -1,
        "local_retention_ms": -2,
        "local_retention_bytes": -2,
        "upload_delay_ms": -2,
        "upload_delay_bytes": -2,
        "segment_ms": -1,
        "segment_bytes": -1,
        "retention_ms": -2,
        "retention_bytes": -2,
        "min_compaction_lag_ms": -1,
        "min_dirty_percent": -1,
        "eligible_local_log_ms": -1,
        "eligible_local_log_bytes": -1,
        "group_in_use_ms": 86_400_000,
        "fetch_processing_max_ms": -1,
        "replica_lag_time_max_ms": 30_000,
        "elr_enabled": 1,
        "unclean_elections": 1,
        "last_tiered_fetch": 1,
    }


def test_the_limit_of_kip_501s_solution_2_is_the_configured_one(cluster: FakeCluster) -> None:
    asker = Asker(cluster, Config(proposals=ProposalsConfig(kip501_fetch_processing_max_ms=7_000)))
    assert asker()[""]["fetch_processing_max_ms"] == 7_000
    asker.brokers.close()


@pytest.mark.parametrize(
    ("configs", "expected_ms"),
    [
        ({"remote.storage.enable": "true", "local.retention.ms": "-2", "retention.ms": "9"}, 9),
        ({"remote.storage.enable": "true", "local.retention.ms": "-1", "retention.ms": "9"}, -1),
        ({"remote.storage.enable": "true", "local.retention.ms": "5", "retention.ms": "9"}, 5),
        ({"remote.storage.enable": "false", "local.retention.ms": "5", "retention.ms": "9"}, 9),
        ({"remote.storage.enable": "true", "remote.log.copy.disable": "true",
          "local.retention.ms": "5", "retention.ms": "9"}, 9),
        ({"retention.ms": "9"}, 9),
        ({"remote.storage.enable": "true", "local.retention.ms": "-2", "retention.ms": "-1"}, -1),
        ({"remote.storage.enable": "true", "retention.ms": "9"}, -2),  # not described
        ({}, -2),
    ],
)  # fmt: skip
def test_effective_local_retention_derives_as_in_kafka(
    configs: dict[str, str], expected_ms: int
) -> None:
    assert topic_columns(configs)["local_retention_ms"] == expected_ms


@pytest.mark.parametrize(
    ("own", "local", "expected"),
    [
        ({}, {}, {"RETENTION_MS", "LOCAL_MS_IS_RETENTION_MS"}),
        ({"retention.ms": "9"}, {}, set()),
        ({"cleanup.policy": "compact"}, {}, set()),
        ({"cleanup.policy": "compact,delete"}, {}, {"RETENTION_MS", "LOCAL_MS_IS_RETENTION_MS"}),
        ({"remote.storage.enable": "true"}, {}, {"RETENTION_MS", "LOCAL_RETENTION_MS"}),
        ({"remote.storage.enable": "true", "retention.ms": "9"}, {}, {"LOCAL_RETENTION_MS"}),
        ({"remote.storage.enable": "true"}, {"local.retention.ms": "5"}, {"RETENTION_MS"}),
        ({"remote.storage.enable": "true"}, {"local.retention.ms": "-2"},
         {"RETENTION_MS", "LOCAL_MS_IS_RETENTION_MS"}),
        ({"remote.storage.enable": "true", "remote.log.copy.disable": "true"},
         {"local.retention.ms": "5"}, {"RETENTION_MS", "LOCAL_MS_IS_RETENTION_MS"}),
    ],
)  # fmt: skip
def test_limits_that_a_topic_does_not_set_are_each_brokers_own(
    own: dict[str, str], local: dict[str, str], expected: set[str]
) -> None:
    described = {"retention.ms": "7", "local.retention.ms": "-2", "cleanup.policy": "delete"}
    others = {"segment.ms", "segment.bytes", "retention.bytes", "local.retention.bytes"}
    values = described | dict.fromkeys(others, "1") | own | local
    limits = topic_columns(values, {*others, *own, *local})["inherited_limits"]
    assert limits == sum(InheritedLimit[name] for name in expected)


def test_a_topic_that_is_tiered_and_compacted_is_said_to_be_neither() -> None:
    """KIP-1272; Kafka 4.4 refuses the two together."""
    columns = topic_columns({"remote.storage.enable": "true", "cleanup.policy": "compact"})
    assert (columns["remote_storage"], columns["tiered_compacted"]) == (UNKNOWN, 1)
    columns = topic_columns({"remote.storage.enable": "false", "cleanup.policy": "compact"})
    assert (columns["remote_storage"], columns["tiered_compacted"]) == (0, 0)


@pytest.mark.parametrize(
    ("configs", "expected"),
    [({}, UNKNOWN), ({"cleanup.policy": "delete"}, 0), ({"diskless.enable": "false"}, 0),
     ({"diskless.enable": "true"}, 1)],
)  # fmt: skip
def test_a_topic_is_diskless_where_its_kafka_says_so(
    configs: dict[str, str | None], expected: int
) -> None:
    assert topic_columns(configs)["diskless"] == expected


@pytest.mark.parametrize(
    ("lag_ms", "lag_bytes", "local_ms", "expected"),
    [
        (None, None, "5", (0, 0)),  # before Kafka 4.4
        ("0", "-1", "5", (0, 0)),  # the defaults
        ("3", "0", "5", (0, 0)),
        ("3", "4", "5", (3, 4)),
        ("3", "-1", "5", (3, 7)),
        ("-1", "-1", "5", (5, 7)),
        ("-1", "4", "-1", (-1, 4)),
        ("", "0", "5", (0, 0)),
        ("3", "", "5", (3, -2)),
    ],
)
def test_the_effective_delay_of_uploads_derives_as_in_kafka(
    lag_ms: str | None, lag_bytes: str | None, local_ms: str, expected: tuple[int, int]
) -> None:
    local = {"local.retention.ms": local_ms, "local.retention.bytes": "7"}
    lags = {"remote.copy.lag.ms": lag_ms, "remote.copy.lag.bytes": lag_bytes}
    columns = topic_columns(
        {"remote.storage.enable": "true"} | local | {k: v for k, v in lags.items() if v is not None}
    )
    assert (columns["upload_delay_ms"], columns["upload_delay_bytes"]) == expected


@pytest.mark.parametrize(
    ("configs", "expected_ms"),
    [
        ({"cleanup.policy": "delete", "retention.ms": "9"}, 9),
        ({"cleanup.policy": "compact,delete", "retention.ms": "9"}, 9),
        ({"cleanup.policy": "compact", "retention.ms": "9"}, -1),
        ({"cleanup.policy": "delete", "retention.ms": "-1"}, -1),
        ({}, -2),
    ],
)
def test_retention_deletes_only_where_the_cleanup_policy_does(
    configs: dict[str, str], expected_ms: int
) -> None:
    assert topic_columns(configs)["retention_ms"] == expected_ms


@pytest.mark.parametrize(
    ("policy", "compacted"), [("delete", 0), ("compact", 1), ("compact,delete", 1), (None, -1)]
)
def test_a_topic_that_is_also_compacted_is_compacted(policy: str | None, compacted: int) -> None:
    assert topic_columns({"cleanup.policy": policy})["compacted"] == compacted


@pytest.mark.parametrize(
    ("features", "enabled"),
    [({"eligible.leader.replicas.version": 1}, 1), ({"eligible.leader.replicas.version": 0}, 0),
     ({"metadata.version": 20}, 0), ({}, 0), (None, -1)],
)  # fmt: skip
def test_elr_is_on_when_its_feature_is_finalized(
    features: dict[str, int] | None, enabled: int, cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.features = features
    assert ask()[""]["elr_enabled"] == enabled
    assert ask.configs.elr_enabled == enabled


@pytest.mark.parametrize(
    ("version", "features", "obeyed"),
    [("3.3", {"metadata.version": 7}, 0), ("3.7", {"metadata.version": 15}, 0),
     ("3.9", {"metadata.version": 21}, 1), ("3.9", {"metadata.version": 15}, 1),
     ("3.7", {}, 1), ("2.8", None, 1)],
)  # fmt: skip
def test_kraft_ignores_the_setting_for_unclean_elections_before_kafka_3_9(
    version: str, features: dict[str, int] | None, obeyed: int, cluster: FakeCluster
) -> None:
    cluster.world.features = features
    all_be_kafka(version, cluster)
    asker = Asker(cluster)
    assert asker()[""]["unclean_elections"] == obeyed
    asker.brokers.close()


def test_a_kafka_without_kip_1023_does_not_fetch_from_the_last_tiered_offset(
    ask: Asker,
) -> None:
    assert ask()[""]["last_tiered_fetch"] == 0


def test_a_missing_right_leaves_settings_unknown_but_not_the_thresholds(
    cluster: FakeCluster,
) -> None:
    cluster.world.topics = {"a": Topic({0: Partition([1])}, configs=TIERED)}
    cluster.world.denied = {DescribeConfigsRequest.API_KEY}
    mine = Config(eligibility=EligibilityConfig(local_log_ms=5, topics=[threshold("a", ms=7)]))
    asker = Asker(cluster, mine)
    rows = asker()
    assert rows["a"]["min_insync_replicas"] == -1
    assert rows["a"]["eligible_local_log_ms"] == 7
    assert rows[""]["replica_lag_time_max_ms"] == -1
    assert rows[""]["eligible_local_log_ms"] == 5
    assert rows[""]["elr_enabled"] == 1
    assert {p.source for p in asker.configs.problems} == {"topic configs", "broker configs"}
    assert all(p.is_denied for p in asker.configs.problems)
    asker.brokers.close()


def test_settings_are_read_for_new_topics_only_until_the_interval_is_over(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.topics = {"a": Topic({0: Partition([1])}, configs=TIERED)}
    ask()
    assert ask.shards == set(range(16))
    assert ask() == ask()
    assert ask.shards == set()
    cluster.world.topics["b"] = Topic({0: Partition([1])}, configs=TIERED)
    assert ask()["b"]["min_insync_replicas"] == 2
    assert len(ask.shards) == 1
    assert topics_read(cluster) == ["a", "b"]


def test_a_recreated_topic_is_read_at_once(cluster: FakeCluster, ask: Asker) -> None:
    for least in ("2", "3"):
        configs = TIERED | {"min.insync.replicas": least}
        cluster.world.topics = {"a": Topic({0: Partition([1])}, configs=configs)}
        assert ask()["a"]["min_insync_replicas"] == int(least)


def test_a_topic_that_is_recreated_when_it_is_due_is_read_as_a_new_one(
    cluster: FakeCluster,
) -> None:
    config = Config(collector=CollectorConfig(config_interval_ms=0))  # always due
    ask = Asker(cluster, config)
    cluster.world.topics = {"a": Topic({0: Partition([1])})}
    ask()
    cluster.world.topics = {"a": Topic({0: Partition([1])}, configs=TIERED)}
    assert ask()["a"]["remote_storage"] == 1
    ask.brokers.close()


def test_every_topic_is_read_again_after_the_interval_a_few_each_cycle(
    cluster: FakeCluster,
) -> None:
    config = Config(collector=CollectorConfig(config_interval_ms=0))
    asker = Asker(cluster, config, topics_per_cycle=2)
    cluster.world.topics = {n: Topic({0: Partition([1])}, configs=TIERED) for n in "abcde"}
    asker()
    assert sorted(topics_read(cluster)) == list("abcde")
    for topic in cluster.world.topics.values():
        topic.configs = TIERED | {"min.insync.replicas": "3"}
    updated = [sum(r["min_insync_replicas"] == 3 for r in asker().values()) for _ in range(3)]
    assert updated == [2, 4, 5]
    asker.brokers.close()


def test_a_guide_that_does_not_answer_is_asked_again_next_cycle(
    cluster: FakeCluster, ask: Asker
) -> None:
    cluster.world.topics = {"a": Topic({0: Partition([1])}, configs=TIERED)}
    for broker in cluster.brokers.values():
        broker.silent = {DescribeConfigsRequest.API_KEY}
    assert ask()["a"]["min_insync_replicas"] == -1
    for broker in cluster.brokers.values():
        broker.silent = False
    for _ in range(10):
        rows = ask()
        if rows["a"]["min_insync_replicas"] == 2:
            break
    assert rows["a"]["min_insync_replicas"] == 2
    assert rows[""]["replica_lag_time_max_ms"] == 30_000


def topics_read(cluster: FakeCluster) -> list[str]:
    return [
        resource.resource_name
        for broker in cluster.brokers.values()
        for request in broker.asked_of(DescribeConfigsRequest)
        for resource in request.resources
        if resource.resource_type == 2
    ]


def test_min_isr_is_the_topics_own_or_the_clusters(cluster: FakeCluster, ask: Asker) -> None:
    cluster.world.topics = {
        "a": Topic({0: Partition([1]), 1: Partition([1])}, configs=TIERED),
        "b": Topic({0: Partition([1])}, configs={}),
    }
    ask()
    assert ask.view is not None
    placement = ask.view.listing.placement
    by_topic = dict(
        zip((placement.topic[t] for t in placement.topic_of.tolist()),
            ask.configs.min_isr(placement).tolist(), strict=True)
    )  # fmt: skip
    assert by_topic == {"a": 2, "b": -1}


# ---------------------------------------------------------------- KIP-1303's thresholds


def threshold(name: str = "", pattern: str = "", ms: int = -2, size: int = -2) -> TopicThreshold:
    return TopicThreshold(name=name, pattern=pattern, local_log_ms=ms, local_log_bytes=size)


def thresholds_of(topic: str, *sections: TopicThreshold) -> tuple[int, int]:
    return ThresholdLookup(EligibilityConfig(topics=list(sections))).for_topic(topic)


def test_a_topic_without_a_section_overrides_nothing() -> None:
    assert thresholds_of("a", threshold("b", ms=5)) == (-2, -2)


def test_the_exact_name_stands_over_a_pattern_value_by_value() -> None:
    sections = (threshold(pattern="a.*", ms=5, size=6), threshold("ab", ms=7))
    assert thresholds_of("ab", *sections) == (7, 6)
    assert thresholds_of("ac", *sections) == (5, 6)


def test_a_pattern_must_match_the_whole_name() -> None:
    assert thresholds_of("xab", threshold(pattern="a.*", ms=5)) == (-2, -2)


def test_a_topic_may_switch_a_threshold_off() -> None:
    assert thresholds_of("a", threshold("a", ms=-1)) == (-1, -2)


def test_patterns_that_agree_or_set_different_values_are_fine() -> None:
    sections = (threshold(pattern="a.*", ms=5), threshold(pattern=".*b", ms=5, size=6))
    assert thresholds_of("ab", *sections) == (5, 6)


def test_patterns_that_contradict_each_other_are_an_error_that_names_both() -> None:
    sections = (threshold(pattern="a.*", ms=5), threshold(pattern=".*b", ms=6))
    with pytest.raises(ConfigError, match=r"topic ab .*'a\.\*' and '\.\*b'.*to 5 and 6") as refusal:
        thresholds_of("ab", *sections)
    assert "\n" not in str(refusal.value)
    assert thresholds_of("ab", *sections, threshold("ab", ms=9)) == (9, -2)


def test_contradicting_patterns_stop_the_start_but_not_a_running_collector(
    cluster: FakeCluster,
) -> None:
    sections = [threshold(pattern="a.*", ms=5), threshold(pattern=".*b", ms=6)]
    contradicting = msgspec.structs.replace(
        Config(), eligibility=EligibilityConfig(topics=sections)
    )
    cluster.world.topics = {"ab": Topic({0: Partition([1])})}
    asker = Asker(cluster, contradicting)
    with pytest.raises(ConfigError, match="ab"):
        asker()
    asker.brokers.close()
    cluster.world.topics = {}
    asker = Asker(cluster, contradicting)
    asker()
    cluster.world.topics = {"ab": Topic({0: Partition([1])})}
    assert asker()["ab"]["eligible_local_log_ms"] == -2
    (problem,) = asker.configs.problems
    assert problem.source == "thresholds"
    assert "the cluster-wide value applies" in problem.text
    asker.brokers.close()


def test_topics_that_may_have_one_replica_are_named_by_a_pattern_of_whole_names(
    cluster: FakeCluster,
) -> None:
    names = ("scratch", "tmp-1", "not-tmp-1", "scratch2")
    cluster.world.topics = {name: Topic({0: Partition([1])}) for name in names}
    asker = Asker(cluster, Config(cluster=ClusterConfig(one_replica_topics="scratch|tmp-.*")))
    rows = asker()
    asker.brokers.close()
    assert [rows[name]["one_replica_accepted"] for name in names] == [1, 1, 0, 0]
