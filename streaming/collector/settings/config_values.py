"""Values of Kafka's configurations, as the columns of ``CONFIGS``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil
from typing import Any, Final

from kafka.protocol.metadata import ApiVersionsResponse

from twin.declarations.table import UNKNOWN
from twin.tables.enums import NOT_SET, UNLIMITED, InheritedLimit, ReplicaSelector

THRESHOLDS: Final = {
    "leader.election.eligible.local.log.ms": "eligible_local_log_ms",
    "leader.election.eligible.local.log.bytes": "eligible_local_log_bytes",
}
"""KIP-1303's settings of brokers and of topics, and their columns."""

COPY_LAGS: Final = ("remote.copy.lag.ms", "remote.copy.lag.bytes")
"""How long a closed segment waits for its upload (KIP-1241, Kafka 4.4)."""

DISKLESS: Final = "diskless.enable"
"""Whether records are in object storage alone (KIP-1163)."""

_COPY_DISABLE: Final = "remote.log.copy.disable"
"""Whether uploads of a tiered topic have ended (KIP-950, Kafka 3.9)."""

TOPIC_KEYS: Final = (
    *THRESHOLDS,
    DISKLESS,
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "remote.storage.enable",
    _COPY_DISABLE,
    "cleanup.policy",
    "local.retention.ms",
    "local.retention.bytes",
    *COPY_LAGS,
    "segment.ms",
    "segment.bytes",
    "retention.ms",
    "retention.bytes",
    "min.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
)
BROKER_KEYS: Final = (
    *THRESHOLDS,
    "replica.lag.time.max.ms",
    "follower.fetch.last.tiered.offset.enable",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)
_HOUR_MS: Final = 3_600_000
_DEFAULTS: Final = {
    "default_retention_ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", _HOUR_MS),
    ),
    "default_retention_bytes": (("log.retention.bytes", 1),),
    "default_local_retention_ms": (("log.local.retention.ms", 1),),
    "default_local_retention_bytes": (("log.local.retention.bytes", 1),),
    "default_segment_ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "default_segment_bytes": (("log.segment.bytes", 1),),
}
"""The broker's settings behind each column, with their units: the first that is set counts."""

_NO_LIMIT: Final = -3
"""In these columns, for Kafka's -1."""

_SEGMENT_LIMITS: Final = {
    "segment.ms": InheritedLimit.SEGMENT_MS,
    "segment.bytes": InheritedLimit.SEGMENT_BYTES,
}
_RETENTION_LIMITS: Final = {
    "retention.ms": (
        InheritedLimit.RETENTION_MS,
        InheritedLimit.LOCAL_RETENTION_MS,
        InheritedLimit.LOCAL_MS_IS_RETENTION_MS,
    ),
    "retention.bytes": (
        InheritedLimit.RETENTION_BYTES,
        InheritedLimit.LOCAL_RETENTION_BYTES,
        InheritedLimit.LOCAL_BYTES_IS_RETENTION_BYTES,
    ),
}
"""By the topic's setting: that it is inherited, that the local one is, that this follows it."""

_LAST_TIERED: Final = "follower.fetch.last.tiered.offset.enable"
BROKER_OWN_KEYS: Final = (
    "replica.selector.class",
    _LAST_TIERED,
    "replica.lag.time.max.ms",
    "min.insync.replicas",
    "replica.fetch.wait.max.ms",
    "log.retention.check.interval.ms",
    "remote.log.manager.copy.max.bytes.per.second",
    *(key for keys in _DEFAULTS.values() for key, _ in keys),
)
"""Settings that may differ between brokers, so they are read from each broker."""

_RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_ELR_FEATURE: Final = "eligible.leader.replicas.version"
_KRAFT_FEATURE: Final = "metadata.version"
"""KRaft has always finalized it; a ZooKeeper cluster has no such feature."""

_LIST_OFFSETS, _SINCE_3_9 = 2, 9
"""ListOffsets v9 came with Kafka 3.9. API versions show the release of a broker. The level of
metadata.version does not: an upgrade of the brokers leaves it unchanged."""

_SAME_AS_RETENTION: Final = -2
"""Value of local.retention.ms (or .bytes) that means: use retention.ms (or .bytes)."""

_AS_LOCAL: Final = -1
"""Value of remote.copy.lag.ms (or .bytes) that means: what local retention keeps."""


def topic_columns(values: Mapping[str, str | None], own: Collection[str] = ()) -> dict[str, int]:
    """A topic's values by column; UNKNOWN for a setting that its Kafka version lacks.

    Thresholds are left out if its Kafka version has none; a topic's ``own`` value overrides the
    cluster-wide one.
    """
    tiered = _boolean(values.get("remote.storage.enable"))
    disabled = UNKNOWN if not values else int(_boolean(values.get(_COPY_DISABLE)) == 1)
    has_local_retention = tiered == 1 and disabled != 1
    policy = values.get("cleanup.policy")
    compacted = UNKNOWN if policy is None else int("compact" in policy.split(","))
    both = UNKNOWN if not values else int(tiered == compacted == 1)
    diskless = UNKNOWN if not values else int(_boolean(values.get(DISKLESS)) == 1)
    local_ms = _local_retention(values, "retention.ms", has_local_retention)
    local_bytes = _local_retention(values, "retention.bytes", has_local_retention)
    delay_ms, delay_bytes = _upload_delays(values, local_ms, local_bytes)
    return {
        "min_insync_replicas": _number(values.get("min.insync.replicas")),
        "min_isr_inherited": UNKNOWN if not values else int("min.insync.replicas" not in own),
        "inherited_limits": _inherited(values, own, has_local_retention) if values else UNKNOWN,
        "unclean_leader_election": _boolean(values.get("unclean.leader.election.enable")),
        "remote_storage": UNKNOWN if both == 1 else tiered,
        "compacted": compacted,
        "tiered_compacted": both,
        "copies_disabled": disabled,
        "diskless": diskless,
        "local_retention_ms": local_ms,
        "local_retention_bytes": local_bytes,
        "upload_delay_ms": delay_ms,
        "upload_delay_bytes": delay_bytes,
        "segment_ms": _number(values.get("segment.ms")),
        "segment_bytes": _number(values.get("segment.bytes")),
        "retention_ms": _retention(values, "retention.ms"),
        "retention_bytes": _retention(values, "retention.bytes"),
        "min_compaction_lag_ms": _number(values.get("min.compaction.lag.ms")),
        "min_dirty_percent": _percent(values.get("min.cleanable.dirty.ratio")),
        **{
            column: _number(values[key]) if key in own else NOT_SET
            for key, column in THRESHOLDS.items()
            if key in values
        },
    }


def cluster_columns(values: Mapping[str, str | None]) -> dict[str, int]:
    """A broker's values by column, for the whole cluster; with thresholds if its Kafka has them."""
    last_tiered = values.get(_LAST_TIERED)
    return {
        "min_insync_replicas": _number(values.get("min.insync.replicas")),
        "unclean_leader_election": _boolean(values.get("unclean.leader.election.enable")),
        "replica_lag_time_max_ms": _number(values.get("replica.lag.time.max.ms")),
        "last_tiered_fetch": 0 if last_tiered is None else _boolean(last_tiered),  # before 4.2
        **{column: _number(values[key]) for key, column in THRESHOLDS.items() if key in values},
    }


def broker_columns(values: Mapping[str, str | None]) -> dict[str, int]:
    """A broker's own values by column of ``BrokerConfigColumns``."""
    last_tiered = values.get(_LAST_TIERED)
    return {
        "replica_selector": _replica_selector(values),
        "follower_last_tiered_fetch": 0 if last_tiered is None else _boolean(last_tiered),
        "lag_time_max_ms": _number(values.get("replica.lag.time.max.ms")),
        "default_min_isr": _number(values.get("min.insync.replicas")),
        "copy_max_bytes_per_s": _number(values.get("remote.log.manager.copy.max.bytes.per.second")),
        "retention_check_ms": _number(values.get("log.retention.check.interval.ms")),
        "fetch_wait_max_ms": _number(values.get("replica.fetch.wait.max.ms")),
        **{column: _default(values, keys) for column, keys in _DEFAULTS.items()},
    }


def _default(values: Mapping[str, str | None], keys: tuple[tuple[str, int], ...]) -> int:
    """The first of those settings that is set, times its unit."""
    for key, unit in keys:
        if text := values.get(key):
            value = int(text)
            return _NO_LIMIT if value == UNLIMITED else value if value < 0 else value * unit
    return UNKNOWN


def _replica_selector(values: Mapping[str, str | None]) -> int:
    key = "replica.selector.class"
    if key not in values:
        return UNKNOWN
    name = values[key]
    if not name:
        return ReplicaSelector.LEADER
    return ReplicaSelector.RACK_AWARE if name == _RACK_AWARE else ReplicaSelector.CUSTOM


def elr_enabled(body: bytes, version: int) -> int:
    """Whether KIP-966 is finalized (tri-state), from an ApiVersions response."""
    levels = _finalized_levels(ApiVersionsResponse.decode(body, version=version), version)
    return UNKNOWN if levels is None else int(levels.get(_ELR_FEATURE, 0) >= 1)


def unclean_elections(body: bytes, version: int) -> int:
    """Whether the controller obeys unclean.leader.election.enable, from an ApiVersions response.

    KRaft's controller ignored it before Kafka 3.9.
    """
    response = ApiVersionsResponse.decode(body, version=version)
    if response.error_code:
        return UNKNOWN
    is_kraft = _KRAFT_FEATURE in (_finalized_levels(response, version) or {})
    highest = {api.api_key: api.max_version for api in response.api_keys}
    return int(not is_kraft or highest.get(_LIST_OFFSETS, 0) >= _SINCE_3_9)


def _finalized_levels(response: Any, version: int) -> dict[str, int] | None:
    """The level of each finalized feature, None if unknown."""
    # Without a finalized epoch the list is meaningless (ZooKeeper, or an old version).
    if response.error_code or version < 3 or (response.finalized_features_epoch or 0) < 0:
        return None
    return {f.name: f.max_version_level for f in response.finalized_features or ()}


def _local_retention(values: Mapping[str, str | None], key: str, has_own: bool) -> int:
    """The effective local retention: NOT_SET if unreadable, UNLIMITED if nothing is deleted."""
    if not has_own:
        return _retention(values, key)
    text = values.get(f"local.{key}")
    if not text:
        return NOT_SET
    return _retention(values, key) if int(text) == _SAME_AS_RETENTION else int(text)


def _inherited(
    values: Mapping[str, str | None], own: Collection[str], has_local_retention: bool
) -> InheritedLimit:
    """The limits that the topic does not set and that delete or roll segments."""
    found = InheritedLimit(0)
    for key, limit in _SEGMENT_LIMITS.items():
        found |= limit if key not in own else 0
    if "delete" not in (values.get("cleanup.policy") or "").split(","):
        return found
    for key, (total, local, follows) in _RETENTION_LIMITS.items():
        is_inherited = key not in own
        found |= total if is_inherited else 0
        has_own = f"local.{key}" in own
        if has_local_retention and not has_own:
            found |= local
        elif not has_local_retention or values[f"local.{key}"] == str(_SAME_AS_RETENTION):
            found |= follows if is_inherited else 0
    return found


def _upload_delays(
    values: Mapping[str, str | None], local_ms: int, local_bytes: int
) -> tuple[int, int]:
    """How long, and for how many bytes, a closed segment waits for its upload.

    A 0 in either setting ends the wait; NOT_SET is unreadable. Source:
    RLMCopyTask.isEligibleForUpload and LogConfig.remoteCopyLagMs, Kafka 4.4.
    """
    if not any(key in values for key in COPY_LAGS):
        return (NOT_SET, NOT_SET) if not values else (0, 0)
    ms, size = (int(text) if (text := values.get(key)) else NOT_SET for key in COPY_LAGS)
    if 0 in (ms, size):
        return 0, 0
    return (local_ms if ms == _AS_LOCAL else ms), (local_bytes if size == _AS_LOCAL else size)


def _retention(values: Mapping[str, str | None], key: str) -> int:
    """The effective retention: NOT_SET if unreadable, UNLIMITED if nothing is deleted."""
    policy = values.get("cleanup.policy")
    if policy is not None and "delete" not in policy.split(","):
        return UNLIMITED
    text = values.get(key)
    return int(text) if text else NOT_SET


def _number(text: str | None) -> int:
    return int(text) if text else UNKNOWN


def _percent(text: str | None) -> int:
    """A ratio in whole percent, rounded up."""
    return ceil(round(float(text) * 100, 6)) if text else UNKNOWN


def _boolean(text: str | None) -> int:
    return UNKNOWN if text is None else int(text == "true")
