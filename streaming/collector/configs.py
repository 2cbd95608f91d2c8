"""The settings that rules depend on: of topics and of the cluster, by DescribeConfigs.

Topics are read when they appear, and again every ``config_interval_ms``, the longest unread first
and not all in one cycle. A topic that may not be read keeps unknown values; its thresholds
(KIP-1303) come from the twin's own configuration in any case.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from kafka.errors import for_code
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from streaming.bus.arrow import dictionary, numbers, texts
from streaming.collector.brokers import Brokers, Question, Versions, best
from streaming.collector.listing import Array, Placement
from streaming.collector.thresholds import Thresholds
from streaming.runtime.config import Config, ConfigError
from twin.tables import CLUSTER_WIDE, CONFIGS, NOT_SET, UNKNOWN

_TOPIC, _BROKER = 2, 4
"""Kafka's resource types."""

_UNKNOWN_TOPIC: Final = 3

_TOPICS_A_CYCLE: Final = 500
"""New topics apart: a cycle should not wait for the settings of all topics at once."""

_TOPIC_KEYS: Final = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "remote.storage.enable",
    "remote.log.copy.disable",
    "cleanup.policy",
    "local.retention.ms",
    "local.retention.bytes",
    "retention.ms",
    "retention.bytes",
)
_BROKER_KEYS: Final = (
    "replica.lag.time.max.ms",
    "follower.fetch.last.tiered.offset.enable",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)
_ELR_FEATURE: Final = "eligible.leader.replicas.version"
_DERIVED: Final = -2
"""local.retention.*: the same as retention.*."""


class Configs:
    """Remembers the settings of every topic and of the cluster."""

    def __init__(self, config: Config, client_id: str) -> None:
        self._client_id = client_id
        self._interval_s = config.collector.config_interval_ms / 1_000
        self._thresholds = Thresholds(config.eligibility)
        self._topics: dict[str, dict[str, int]] = {}
        self._ids: dict[str, bytes] = {}
        self._read_at: dict[str, float] = {}  # by topic, CLUSTER_WIDE too
        self._cluster: dict[str, int] = {
            "eligible_local_log_ms": self._thresholds.local_log_ms,
            "eligible_local_log_bytes": self._thresholds.local_log_bytes,
        }
        self._min_isr: tuple[Placement, Array] | None = None
        self._tiered: tuple[Placement, Array] | None = None
        self.problems: dict[str, str] = {}

    @property
    def elr_enabled(self) -> int:
        """Eligible leader replicas are on (tri-state)."""
        return self._cluster.get("elr_enabled", UNKNOWN)

    def refresh(
        self, brokers: Brokers, guide: int, placement: Placement, deadline_ms: int
    ) -> set[int]:
        """Read what is new or old; returns the shards that something was read for.

        Raises:
            ConfigError: at the first call, patterns of the configuration contradict each other.
        """
        now = time.monotonic()
        first = not self._read_at
        due = {t for t, at in self._read_at.items() if now - at >= self._interval_s}
        self._forget(placement)
        new = [t for t in placement.topic if t not in self._topics]
        for topic in new:
            self._topics[topic] = self._from_thresholds(topic, strict=first)
        cluster_due = first or CLUSTER_WIDE in due
        old = sorted(due & self._topics.keys(), key=self._read_at.__getitem__)[:_TOPICS_A_CYCLE]
        wanted = [*new, *old]
        if not wanted and not cluster_due:
            return set()
        self._min_isr = self._tiered = None
        ends = now + deadline_ms / 1_000
        if cluster_due and self._ask_cluster(brokers, guide, deadline_ms):
            self._read_at[CLUSTER_WIDE] = now
        left_ms = max(1, int((ends - time.monotonic()) * 1_000))
        read = self._ask_topics(brokers, guide, wanted, left_ms) if wanted else set()
        self._read_at |= dict.fromkeys(read, now)
        # What could not be read now is due again in the next cycle.
        self._read_at |= dict.fromkeys(set(wanted) - read, now - self._interval_s)
        self._read_at.setdefault(CLUSTER_WIDE, now - self._interval_s)
        if cluster_due:
            return set(range(placement.shards))
        told = set(wanted)
        number = np.array([i for i, t in enumerate(placement.topic) if t in told], np.int64)
        return set((np.searchsorted(placement.topic_cuts, number, side="right") - 1).tolist())

    def _forget(self, placement: Placement) -> None:
        """Drop topics that are gone, also those that have come again under another id."""
        before = self._ids
        self._ids = dict(zip(placement.topic, placement.topic_id, strict=True))
        for topic in [t for t in self._topics if before[t] != self._ids.get(t)]:
            del self._topics[topic]
            self._read_at.pop(topic, None)

    def _from_thresholds(self, topic: str, *, strict: bool) -> dict[str, int]:
        try:
            ms, size = self._thresholds.of(topic)
        except ConfigError as error:
            if strict:
                raise
            # A topic that somebody created must not stop the collector.
            self.problems.setdefault("thresholds", f"{error}; the cluster-wide value holds")
            ms, size = NOT_SET, NOT_SET
        return {"eligible_local_log_ms": ms, "eligible_local_log_bytes": size}

    def _ask_topics(
        self, brokers: Brokers, guide: int, topics: Sequence[str], deadline_ms: int
    ) -> set[str]:
        """Read these topics; returns those that were answered, if only with an error."""

        def make(_: int, versions: Versions) -> list[Question]:
            chunks = [
                topics[i : i + _TOPICS_A_CYCLE] for i in range(0, len(topics), _TOPICS_A_CYCLE)
            ]
            asked = [[(_TOPIC, name, _TOPIC_KEYS) for name in chunk] for chunk in chunks]
            return self._questions(versions, asked)

        answered = set()
        for result in self._results(brokers, guide, make, deadline_ms):
            answered.add(result.resource_name)
            if result.error_code == _UNKNOWN_TOPIC:
                continue  # deleted since it was listed
            if result.error_code:
                why = for_code(result.error_code).__name__
                self.problems["topic configs"] = f"{why}: settings of such topics stay unknown"
            else:
                told = {c.name: c.value for c in result.configs}
                self._topics[result.resource_name] |= topic_columns(told)
        return answered & self._topics.keys()

    def _ask_cluster(self, brokers: Brokers, guide: int, deadline_ms: int) -> bool:
        """Read the settings of one broker for all, and the finalized features."""

        def make(_: int, versions: Versions) -> list[Question]:
            questions = self._questions(versions, [[(_BROKER, str(guide), _BROKER_KEYS)]])
            version = best(versions, ApiVersionsRequest)
            if version is not None:
                request = ApiVersionsRequest(
                    client_software_name="kafka-twin", client_software_version="1"
                )
                questions.append(Question.of(request, version, self._client_id))
                self._features_version = version
            return questions

        reply = brokers.ask([guide], make, deadline_ms)[guide]
        if not reply.bodies or reply.bodies[-1] is None:
            return False
        self._cluster["elr_enabled"] = elr_enabled(reply.bodies[-1], self._features_version)
        body = reply.bodies[0] if len(reply.bodies) > 1 else None
        for result in self._decoded(body):
            if result.error_code:
                why = for_code(result.error_code).__name__
                self.problems["broker configs"] = f"{why}: cluster-wide settings stay unknown"
            else:
                self.problems.pop("broker configs", None)
                self._cluster |= cluster_columns({c.name: c.value for c in result.configs})
        return True

    def _questions(
        self, versions: Versions, asked: Sequence[Sequence[tuple[int, str, Sequence[str]]]]
    ) -> list[Question]:
        version = best(versions, DescribeConfigsRequest)
        if version is None:
            return []
        self._version = version
        resource = DescribeConfigsRequest.DescribeConfigsResource
        return [
            Question.of(
                DescribeConfigsRequest(
                    resources=[
                        resource(
                            resource_type=kind, resource_name=name, configuration_keys=list(keys)
                        )
                        for kind, name, keys in resources
                    ],
                    include_synonyms=False,
                    include_documentation=False,
                ),
                version,
                self._client_id,
            )
            for resources in asked
        ]

    def _results(self, brokers: Brokers, guide: int, make: Any, deadline_ms: int) -> Iterable[Any]:
        for body in brokers.ask([guide], make, deadline_ms)[guide].bodies:
            yield from self._decoded(body)

    def _decoded(self, body: bytes | None) -> Iterable[Any]:
        if body is None:
            return []
        results: Iterable[Any] = DescribeConfigsResponse.decode(body, version=self._version).results
        return results

    def min_isr(self, placement: Placement) -> Array:
        """[P] min.insync.replicas of each partition's topic, UNKNOWN where it is not known."""
        if self._min_isr is None or self._min_isr[0] is not placement:
            default = self._cluster.get("min_insync_replicas", UNKNOWN)
            by_topic = np.array(
                [self._topics.get(t, {}).get("min_insync_replicas", default)
                 for t in placement.topic], np.int64,
            )  # fmt: skip
            self._min_isr = (placement, by_topic[placement.topic_of] if len(by_topic) else by_topic)
        return self._min_isr[1]

    def tiered(self, placement: Placement) -> Array:
        """[P] remote storage is on for the partition's topic, as far as is known."""
        if self._tiered is None or self._tiered[0] is not placement:
            by_topic = np.array(
                [self._topics.get(t, {}).get("remote_storage") == 1 for t in placement.topic], bool
            )
            self._tiered = (placement, by_topic[placement.topic_of] if len(by_topic) else by_topic)
        return self._tiered[1]

    def table(self, placement: Placement, shard: int) -> pa.Table:
        """The rows of a shard: cluster-wide values under the empty name, then its topics."""
        start, stop = placement.topic_cuts[shard], placement.topic_cuts[shard + 1]
        topics = placement.topic[start:stop]
        rows = [self._cluster, *(self._topics.get(t, {}) for t in topics)]
        columns = [dictionary(np.arange(len(rows)), texts([CLUSTER_WIDE, *topics]))]
        for column in CONFIGS.columns[1:]:
            fill = int(column.fill)
            columns.append(numbers([row.get(column.name, fill) for row in rows], column.dtype))
        return pa.Table.from_arrays(columns, schema=CONFIGS.schema)


def topic_columns(told: Mapping[str, str | None]) -> dict[str, int]:
    """What a topic's settings say, by column; UNKNOWN for a setting its Kafka does not have."""
    tiered = _truth(told.get("remote.storage.enable"))
    copies = _truth(told.get("remote.log.copy.disable")) != 1
    own = tiered == 1 and copies  # else local retention is all retention there is
    policy = told.get("cleanup.policy")
    return {
        "min_insync_replicas": _number(told.get("min.insync.replicas")),
        "unclean_leader_election": _truth(told.get("unclean.leader.election.enable")),
        "remote_storage": tiered,
        "compacted": UNKNOWN if policy is None else int("compact" in policy.split(",")),
        "local_retention_ms": _retention(told, "retention.ms", own),
        "local_retention_bytes": _retention(told, "retention.bytes", own),
    }


def cluster_columns(told: Mapping[str, str | None]) -> dict[str, int]:
    """What a broker's settings say of the cluster."""
    last_tiered = told.get("follower.fetch.last.tiered.offset.enable")
    return {
        "min_insync_replicas": _number(told.get("min.insync.replicas")),
        "unclean_leader_election": _truth(told.get("unclean.leader.election.enable")),
        "replica_lag_time_max_ms": _number(told.get("replica.lag.time.max.ms")),
        "last_tiered_fetch": 0 if last_tiered is None else _truth(last_tiered),  # before 4.2
    }


def elr_enabled(body: bytes, version: int) -> int:
    """Whether KIP-966 is finalized (tri-state), from an ApiVersions answer."""
    answer = ApiVersionsResponse.decode(body, version=version)
    # Without a finalized epoch the list says nothing (ZooKeeper, or too old a version).
    if answer.error_code or version < 3 or (answer.finalized_features_epoch or 0) < 0:
        return UNKNOWN
    levels = {f.name: f.max_version_level for f in answer.finalized_features or ()}
    return int(levels.get(_ELR_FEATURE, 0) >= 1)


def _retention(told: Mapping[str, str | None], key: str, own: bool) -> int:
    local = _number(told.get(f"local.{key}")) if own else _DERIVED
    return _number(told.get(key)) if local == _DERIVED else local


def _number(text: str | None) -> int:
    return int(text) if text else UNKNOWN


def _truth(text: str | None) -> int:
    return UNKNOWN if text is None else int(text == "true")
