"""Retention and segment sizes that a topic does not set: each broker applies its own defaults.

Kafka describes a topic with the defaults of the broker that is asked. Brokers have different ones
while a change of server.properties is rolled out, and by mistake for longer.

Source: KafkaConfig.extractLogConfigMap and LogConfig.fromProps, Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.table import UNKNOWN, Array, Bool, Int16, Int32, Int64
from twin.tables.enums import UNLIMITED, InheritedLimit
from twin.tables.state import Brokers

_NO_LIMIT: Final = -3
"""Value of the brokers' columns for Kafka's -1."""

_LIKE_TOTAL: Final = -2
"""Value of log.local.retention.ms (or .bytes) that means: the limit of the whole log."""

_SEGMENTS: Final = {
    "segment_ms": InheritedLimit.SEGMENT_MS,
    "segment_bytes": InheritedLimit.SEGMENT_BYTES,
}
_RETENTIONS: Final = (
    (
        "retention_ms",
        InheritedLimit.RETENTION_MS,
        InheritedLimit.LOCAL_RETENTION_MS,
        InheritedLimit.LOCAL_MS_IS_RETENTION_MS,
    ),
    (
        "retention_bytes",
        InheritedLimit.RETENTION_BYTES,
        InheritedLimit.LOCAL_RETENTION_BYTES,
        InheritedLimit.LOCAL_BYTES_IS_RETENTION_BYTES,
    ),
)
LIMITS: Final = (
    "retention_ms", "retention_bytes", "local_retention_ms", "local_retention_bytes",
    "segment_ms", "segment_bytes",
)  # fmt: skip


def own_limits(
    described: Mapping[str, Int64], inherited: Int16, leader: Int32, brokers: Brokers
) -> dict[str, Int64]:
    """The limits that differ from those that were described.

    Args:
        described: ``LIMITS`` [P] as one broker described them.
        inherited: [P] flags of ``InheritedLimit``; unknown: none.
        leader: [P] broker ids; without a leader the described limits stay.
        brokers: with their own defaults.
    """
    defaults = {name: getattr(brokers, f"default_{name}") for name in LIMITS}
    if not any(len(own) > 1 and (own != own[0]).any() for own in defaults.values()):
        return {}
    flags = np.maximum(inherited, 0)
    place = keys.find_sorted(brokers.broker, leader)

    def has(limit: InheritedLimit) -> Bool:
        return (flags & limit) != 0

    def of_leader(name: str) -> Int64:
        return np.append(defaults[name], UNKNOWN)[place]

    limits = {}
    for name, limit in _SEGMENTS.items():
        own = of_leader(name)
        limits[name] = np.where(has(limit) & (own > 0), own, described[name])
    for name, total, local, follows in _RETENTIONS:
        limits[name] = whole = _replaced(described[name], has(total), of_leader(name))
        own, before = of_leader(f"local_{name}"), described[f"local_{name}"]
        own = np.where(own == _LIKE_TOTAL, np.where(whole == UNLIMITED, _NO_LIMIT, whole), own)
        own_local = _replaced(before, has(local), own)
        limits[f"local_{name}"] = np.where(has(follows), whole, own_local)
    return limits


def _replaced(described: Int64, is_inherited: Bool, own: Array) -> Int64:
    """The broker's value where it is inherited and known."""
    value = np.where(own == _NO_LIMIT, UNLIMITED, own)
    return np.where(is_inherited & (own != UNKNOWN), value, described)
