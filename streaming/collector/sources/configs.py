"""The settings that rules depend on: of topics and of the cluster, by DescribeConfigs.

A topic is read when it appears, and again every ``config_interval_ms``: the topics with the oldest
values first, and not all in one cycle. A topic that may not be read keeps unknown values.

Thresholds (KIP-1303) are those of the brokers and topics where their Kafka has such settings, and
else those of the twin's own configuration.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.metadata import ApiVersionsRequest

from streaming.bus.arrow import dictionary, numbers, texts
from streaming.collector.about import About, Acl, Needed
from streaming.collector.context import CycleContext
from streaming.collector.listing import Array, ListedPlacement
from streaming.collector.problem import Problem, by_error, error_name, from_code
from streaming.collector.reading import Reading, Rows
from streaming.collector.settings.config_values import (
    BROKER_KEYS,
    TOPIC_KEYS,
    cluster_columns,
    elr_enabled,
    topic_columns,
    unclean_elections,
)
from streaming.collector.settings.thresholds import THRESHOLDS, ThresholdLookup, ThresholdSource
from streaming.collector.source import Setup, Source
from streaming.collector.sources.metadata import ClusterMetadata
from streaming.collector.wire.config_requests import BROKER, TOPIC, Resource, describe_configs
from streaming.collector.wire.connections import EncodedRequest, Versions, negotiate_version
from streaming.runtime.config import Config, ConfigError, EligibilityConfig
from streaming.runtime.deadline import Deadline
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.tables.enums import CLUSTER_WIDE, NOT_SET
from twin.tables.observations import ConfigsFrame

TOPIC_CONFIGS: Final = About(
    "topic configs",
    "min.insync.replicas, retention and remote storage of such topics",
    Acl("DESCRIBE_CONFIGS", "topic"),
    every="collector.config_interval_ms",
    needs=(Needed(DescribeConfigsRequest, "Kafka 0.11"),),
)
BROKER_CONFIGS: Final = About(
    "broker configs",
    "replica.lag.time.max.ms and other defaults of the cluster; which replicas consumers read from",
    Acl("DESCRIBE_CONFIGS", "cluster"),
    every="collector.config_interval_ms",
    needs=(Needed(DescribeConfigsRequest, "Kafka 0.11"),),
)

_UNKNOWN_TOPIC: Final = 3
_TOPIC_CONFIG: Final = 1
"""Kafka's code for a value that is set for the topic itself, not inherited."""

TOPICS_PER_CYCLE: Final = 500
"""Not counting new topics. A cycle should not wait for the settings of all topics."""


@dataclass(frozen=True, slots=True, eq=False)
class TopicSettings(Reading):
    """The settings that other sources need, and the rows that are sent in this cycle."""

    min_isr: Array  # [P] min.insync.replicas, UNKNOWN where it is not known
    tiered: Array  # [P] remote storage is on; False if unknown
    elr_enabled: int  # tri-state
    by_shard: Mapping[int, pa.Table]

    def tables(self, shard: int) -> Iterator[Rows]:
        """The settings of a shard, if any of them were read."""
        if shard in self.by_shard:
            yield ConfigsFrame, self.by_shard[shard]


class ConfigSource(Source):
    """Remembers the settings of every topic and of the cluster."""

    about = (TOPIC_CONFIGS, THRESHOLDS)  # BrokerConfigSource declares BROKER_CONFIGS

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read at ``collector.config_interval_ms``."""
        return cls(setup.config, setup.client_id, eligibility=setup.eligibility)

    def __init__(
        self,
        config: Config,
        client_id: str,
        *,
        eligibility: ThresholdSource | None = None,
        topics_per_cycle: int = TOPICS_PER_CYCLE,
    ) -> None:
        """``eligibility``: where thresholds may change; None keeps those of ``config``."""
        self._eligibility = eligibility
        self._client_id = client_id
        self._topics_per_cycle = topics_per_cycle
        self._interval_s = config.collector.config_interval_ms / 1_000
        self._thresholds = ThresholdLookup(config.eligibility)
        self._one_replica = re.compile(config.cluster.one_replica_topics)
        self._configured: dict[str, dict[str, int]] = {}  # what twin.toml says, by topic
        self._topics: dict[str, dict[str, int]] = {}
        self._ids: dict[str, bytes] = {}
        self._read_at: dict[str, float] = {}  # by topic, CLUSTER_WIDE too
        self._cluster: dict[str, int] = {
            "fetch_processing_max_ms": config.proposals.kip501_fetch_processing_max_ms,
            "group_in_use_ms": config.collector.group_in_use_ms,
        }
        self._is_news = False  # thresholds changed since the last refresh
        self._unsent: set[int] = set()  # shards
        self._min_isr: tuple[ListedPlacement, Array] | None = None
        self._tiered: tuple[ListedPlacement, Array] | None = None
        self._versions: dict[Any, int] = {}  # of the last requests, by class
        self._topic_errors: dict[str, str] = {}  # of each topic, when it was last read
        self._conflicts: dict[str, str] = {}  # between patterns, by topic
        self._cluster_problem: Problem | None = None  # as of the last read
        self._unanswered: list[Problem] = []  # in this cycle

    @property
    def elr_enabled(self) -> int:
        """Eligible leader replicas are on (tri-state)."""
        return self._cluster.get("elr_enabled", UNKNOWN)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems about unknown settings, from the last read of each topic and the cluster."""
        text = "settings of such topics stay unknown"
        problems = [*self._unanswered, *by_error(TOPIC_CONFIGS.name, self._topic_errors, text)]
        if self._cluster_problem is not None:
            problems.append(self._cluster_problem)
        if self._conflicts:
            conflict = f"{min(self._conflicts.values())}; the cluster-wide value applies"
            problems.append(Problem(THRESHOLDS.name, NO_BROKER, "ContradictingPatterns", conflict))
        if self._eligibility is not None:
            problems += self._eligibility.problems
        return tuple(problems)

    def read(self, context: CycleContext, metadata: ClusterMetadata) -> TopicSettings:
        """The known settings, after reading those that are new or due.

        Raises:
            ConfigError: at the first call, patterns of the configuration contradict each other.
        """
        changed = None if self._eligibility is None else self._eligibility.read()
        if changed is not None:
            self.use(changed)
        placement = metadata.listing.placement
        shards = self.refresh(context, placement) if context.has_metadata_broker else set()
        return TopicSettings(
            min_isr=self.min_isr(placement),
            tiered=self.tiered(placement),
            elr_enabled=self.elr_enabled,
            by_shard={shard: self.table(placement, shard) for shard in shards},
        )

    def use(self, eligibility: EligibilityConfig) -> None:
        """Replace the thresholds of the twin's own configuration."""
        self._thresholds = ThresholdLookup(eligibility)
        self._conflicts.clear()
        for topic in self._configured:
            self._configured[topic] |= self._threshold_columns(topic, strict=False)
        self._is_news = True

    def send_again(self, reading: TopicSettings) -> None:
        """Let the next ``refresh`` return these shards again: the settings have not arrived."""
        self._unsent |= reading.by_shard.keys()

    def refresh(self, context: CycleContext, placement: ListedPlacement) -> set[int]:
        """Read new topics and those that are due; returns the shards whose settings are to send.

        Raises:
            ConfigError: at the first call, patterns of the configuration contradict each other.
        """
        unsent, self._unsent = self._unsent, set()
        return unsent | self._read_due(context, placement)

    def _read_due(self, context: CycleContext, placement: ListedPlacement) -> set[int]:
        """Read new topics and those that are due; returns their shards."""
        self._unanswered = []
        now_s = time.monotonic()
        first = not self._read_at
        self._forget(placement)
        due = {t for t, at_s in self._read_at.items() if now_s - at_s >= self._interval_s}
        new = [t for t in placement.topic if t not in self._topics]
        for topic in new:
            accepted = int(self._one_replica.fullmatch(topic) is not None)
            self._configured[topic] = {
                "one_replica_accepted": accepted,
                **self._threshold_columns(topic, strict=first),
            }
            self._topics[topic] = {}
        cluster_due = first or CLUSTER_WIDE in due
        oldest = sorted(due & self._topics.keys(), key=self._read_at.__getitem__)
        topics = [*new, *oldest[: self._topics_per_cycle]]
        every_shard = set(range(placement.shards)) if cluster_due or self._is_news else set()
        self._is_news = False
        if not topics and not cluster_due:
            return every_shard
        self._min_isr = self._tiered = None
        deadline = context.deadline()
        # Topics that are not read now are due again in the next cycle.
        overdue_s = now_s - self._interval_s
        if cluster_due:
            is_read = self._read_cluster(context, deadline)
            self._read_at[CLUSTER_WIDE] = now_s if is_read else overdue_s
        read = self._read_topics(context, topics, deadline) if topics else set()
        self._read_at |= {topic: now_s if topic in read else overdue_s for topic in topics}
        return every_shard or _shards_of(placement, topics)

    def _forget(self, placement: ListedPlacement) -> None:
        """Drop deleted topics, including those that were recreated with another id."""
        before = self._ids
        self._ids = dict(zip(placement.topic, placement.topic_id, strict=True))
        for topic in [t for t in self._topics if before[t] != self._ids.get(t)]:
            del self._topics[topic], self._configured[topic]
            self._read_at.pop(topic, None)
            self._topic_errors.pop(topic, None)
            self._conflicts.pop(topic, None)

    def _threshold_columns(self, topic: str, *, strict: bool) -> dict[str, int]:
        try:
            ms, size = self._thresholds.for_topic(topic)
        except ConfigError as error:
            if strict:
                raise
            # A new topic must not stop the collector.
            self._conflicts[topic] = str(error)
            ms, size = NOT_SET, NOT_SET
        return {"eligible_local_log_ms": ms, "eligible_local_log_bytes": size}

    def _read_topics(
        self, context: CycleContext, topics: Sequence[str], deadline: Deadline
    ) -> set[str]:
        """Read these topics; returns those with a response, which may be an error."""
        size = self._topics_per_cycle
        chunks = [topics[i : i + size] for i in range(0, len(topics), size)]

        def make(_: int, versions: Versions) -> list[EncodedRequest]:
            return self._describe(
                versions, [[(TOPIC, name, TOPIC_KEYS) for name in chunk] for chunk in chunks]
            )

        response = context.ask_metadata_broker(make, deadline)
        if response.problem is not None:
            self._unanswered.append(response.problem.at(TOPIC_CONFIGS.name))
        answered = set()
        for result in self._results(response.bodies):
            name = result.resource_name
            answered.add(name)
            self._topic_errors.pop(name, None)
            if result.error_code == _UNKNOWN_TOPIC:
                continue  # deleted since it was listed
            if result.error_code:
                self._topic_errors[name] = error_name(result.error_code)
            else:
                values = {c.name: c.value for c in result.configs}
                own = {c.name for c in result.configs if c.config_source == _TOPIC_CONFIG}
                self._topics[name] |= topic_columns(values, own)
        return answered & self._topics.keys()

    def _read_cluster(self, context: CycleContext, deadline: Deadline) -> bool:
        """Read the settings of one broker, for the whole cluster, and the finalized features."""

        def make(broker: int, versions: Versions) -> list[EncodedRequest]:
            requests = self._describe(versions, [[(BROKER, str(broker), BROKER_KEYS)]])
            version = negotiate_version(versions, ApiVersionsRequest)
            assert version is not None  # the client has negotiated versions by this request
            self._versions[ApiVersionsRequest] = version
            request = ApiVersionsRequest(
                client_software_name="kafka-twin", client_software_version="1"
            )
            return [*requests, EncodedRequest.encode(request, version, self._client_id)]

        response = context.ask_metadata_broker(make, deadline)
        if response.problem is not None:
            self._unanswered.append(response.problem.at(BROKER_CONFIGS.name))
            return False
        *described, features = response.bodies
        assert features is not None  # otherwise a problem was reported
        version = self._versions[ApiVersionsRequest]
        self._cluster["elr_enabled"] = elr_enabled(features, version)
        self._cluster["unclean_elections"] = unclean_elections(features, version)
        self._cluster_problem = None
        for result in self._results(described):
            if result.error_code:
                text = "cluster-wide settings stay unknown"
                self._cluster_problem = from_code(BROKER_CONFIGS.name, result.error_code, text)
            else:
                self._cluster |= cluster_columns({c.name: c.value for c in result.configs})
        return True

    def _describe(
        self, versions: Versions, requested: Iterable[Iterable[Resource]]
    ) -> list[EncodedRequest]:
        """Send one DescribeConfigs request for each group of resources, if it is supported."""
        version = negotiate_version(versions, DescribeConfigsRequest)
        if version is None:
            return []
        self._versions[DescribeConfigsRequest] = version
        return [describe_configs(resources, version, self._client_id) for resources in requested]

    def _results(self, bodies: Sequence[bytes | None]) -> Iterator[Any]:
        for body in bodies:
            if body is not None:
                version = self._versions[DescribeConfigsRequest]
                yield from DescribeConfigsResponse.decode(body, version=version).results

    def min_isr(self, placement: ListedPlacement) -> Array:
        """[P] min.insync.replicas of each partition's topic, UNKNOWN where it is not known."""
        if self._min_isr is None or self._min_isr[0] is not placement:
            default = self._cluster.get("min_insync_replicas", UNKNOWN)
            values = [t.get("min_insync_replicas", default) for t in self._columns(placement)]
            self._min_isr = placement, _by_partition(placement, np.array(values, np.int64))
        return self._min_isr[1]

    def tiered(self, placement: ListedPlacement) -> Array:
        """[P] remote storage is on for the partition's topic; False if unknown."""
        if self._tiered is None or self._tiered[0] is not placement:
            values = [t.get("remote_storage") == 1 for t in self._columns(placement)]
            self._tiered = placement, _by_partition(placement, np.array(values, bool))
        return self._tiered[1]

    def _columns(self, placement: ListedPlacement) -> Iterator[Mapping[str, int]]:
        return (self._topics.get(topic, {}) for topic in placement.topic)

    def table(self, placement: ListedPlacement, shard: int) -> pa.Table:
        """The rows of a shard: cluster-wide values under the empty name, then its topics."""
        start, stop = placement.topic_cuts[shard], placement.topic_cuts[shard + 1]
        topics = placement.topic[start:stop]
        cluster = {
            "eligible_local_log_ms": self._thresholds.local_log_ms,
            "eligible_local_log_bytes": self._thresholds.local_log_bytes,
        }
        rows = [
            cluster | self._cluster,
            *(self._configured.get(t, {}) | self._topics.get(t, {}) for t in topics),
        ]
        columns = [dictionary(np.arange(len(rows)), texts([CLUSTER_WIDE, *topics]))]
        for column in ConfigsFrame.columns[1:]:
            fill = int(column.fill)
            columns.append(numbers([row.get(column.name, fill) for row in rows], column.arrow))
        return pa.Table.from_arrays(columns, schema=ConfigsFrame.schema())


def _by_partition(placement: ListedPlacement, by_topic: Array) -> Array:
    """[P] values from [T] values."""
    return by_topic[placement.topic_of] if len(by_topic) else by_topic


def _shards_of(placement: ListedPlacement, topics: Iterable[str]) -> set[int]:
    """The shards that these topics are in."""
    names = set(topics)
    number = np.array([i for i, t in enumerate(placement.topic) if t in names], np.int64)
    return set((np.searchsorted(placement.topic_cuts, number, side="right") - 1).tolist())
