"""Brokers whose own settings differ from those of most others.

A leader judges by the settings of its broker: when it refuses acks=all for topics without a value
of their own, and when it removes a follower from an ISR. Each replica rolls and deletes segments by
those of its broker. Where brokers differ, a partition changes its behaviour with its leader, and
its replicas keep different logs.

Source: Partition.effectiveMinIsr and getOutOfSyncReplicas, LogManager.fetchTopicConfig, Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.table import (
    UNKNOWN,
    Bool,
    ClusterTable,
    Int8,
    Int32,
    Int64,
    ShardReport,
    column,
)
from twin.tables.state import Brokers


class BrokerSettings(ShardReport, kind="broker_settings"):
    """[K] settings of each broker, sorted by broker."""

    broker: Int32 = column("broker id")
    default_min_isr: Int32 = column("its min.insync.replicas")
    lag_time_max_ms: Int64 = column("its replica.lag.time.max.ms")
    default_retention_ms: Int64 = column("its log.retention.ms; -3 without a limit")
    default_retention_bytes: Int64 = column("its log.retention.bytes; -3 without a limit")
    default_local_retention_ms: Int64 = column("its log.local.retention.ms; -2 as retention.ms")
    default_local_retention_bytes: Int64 = column("its log.local.retention.bytes")
    default_segment_ms: Int64 = column("its log.roll.ms")
    default_segment_bytes: Int64 = column("its log.segment.bytes")


_COMPARED: Final = tuple(c.name for c in BrokerSettings.columns if c.name != "broker")


@rule
def broker_settings(brokers: Brokers) -> BrokerSettings:
    """Those of the brokers that the cluster lists."""
    listed = brokers.pick(brokers.listed)
    return BrokerSettings(listed.broker, *(getattr(listed, name) for name in _COMPARED))


class OtherSettings(ClusterTable, kind="other_settings"):
    """[K] which brokers have other settings than most, sorted by id."""

    broker: Int32 = column("broker id")
    min_isr: Int32 = column("its min.insync.replicas")
    differs: Int8 = column("a setting is another than most brokers have", tri_state=True)


@rule
def other_settings(reported: BrokerSettings) -> OtherSettings:
    """Every shard reports every broker. A setting that no broker has told is not compared: an older
    Kafka does not have all of them.
    """
    broker, first = np.unique(reported.broker, return_index=True)
    columns = [getattr(reported, name)[first] for name in _COMPARED]
    is_known = np.array([values != UNKNOWN for values in columns])
    differs = is_known & np.array([values != _of_most(values) for values in columns])
    lacks = ~is_known & is_known.any(axis=1, keepdims=True)
    is_judged = is_known.any(axis=0) & ~lacks.any(axis=0)
    return OtherSettings(
        broker,
        reported.default_min_isr[first],
        np.where(differs.any(axis=0), 1, np.where(is_judged, 0, UNKNOWN)).astype(np.int8),
    )


def _of_most(values: Int64) -> int:
    """The value that most brokers have; the highest of those that are as frequent."""
    known, counts = np.unique(values[values != UNKNOWN], return_counts=True)
    return int(known[counts == counts.max()][-1]) if len(known) else UNKNOWN


@risk(
    "broker_settings_differ",
    rank=176,
    severity="info",
    per="broker",
    # A change of a setting is rolled over the brokers.
    open_after_ms=1_800_000,
    close_after_ms=60_000,
    sentence="it has another min.insync.replicas, replica.lag.time.max.ms, retention or segment "
    "size than most brokers",
    source="Partition.effectiveMinIsr and getOutOfSyncReplicas, LogManager.fetchTopicConfig, Kafka "
    "4.3",
    alert=Alert(
        summary="have other settings than most",
        description="{n} brokers of {cluster} have another min.insync.replicas, "
        "replica.lag.time.max.ms, retention or segment size than most: a partition is refused "
        "acks=all, or loses its followers, by who leads it, or its replicas keep different logs.",
        wait="10m",
        keep_firing_for="10m",
    ),
)
def is_set_otherwise(settings: OtherSettings) -> ByBroker:
    """Brokers of unknown settings are not judged; the table says so."""
    is_known = settings.differs != UNKNOWN
    return ByBroker(settings.broker[is_known], settings.differs[is_known].astype(np.int64))


@gauge(
    "min_insync_replicas",
    "Replicas in sync that the broker, as leader, asks for where the topic sets no minimum.",
    level="broker",
)
def broker_min_insync_replicas(settings: OtherSettings) -> ByBroker:
    """The settings that were read."""
    is_known: Bool = settings.min_isr != UNKNOWN
    return ByBroker(settings.broker[is_known], settings.min_isr[is_known].astype(np.int64))
