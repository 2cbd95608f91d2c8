"""When a cold replica will be warm: by the clock, or as its partition grows.

Kafka keeps counting replica 0 as the preferred leader, so a cold replica 0 leaves its partition
imbalanced under KIP-1303 until it has grown to a threshold; local retention may keep it from ever
getting there.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays.slots import any_slot
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.signature import NowMs
from twin.declarations.table import (
    UNKNOWN,
    Array,
    Bool,
    Float64,
    Int64,
    ReplicaTable,
    Rows,
    column,
)
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import Coverage, LocalLog, ReplicaCoverage, is_cold
from twin.tables.enums import NOT_SET, UNLIMITED
from twin.tables.state import Replicas

NEVER: Final = np.inf
"""Seconds until a replica is warm where no growth can get it there."""


class WarmUp(
    ReplicaTable, kind="warm_up", api="", on_demand="a function of stored thresholds and growth"
):
    """[P, R] how long each replica takes to hold enough local log to lead."""

    warm_in_s: Float64 = column(
        "seconds until the replica is warm, 0 if it is; null if unknown, as of one that does not "
        "answer, never, or not judged",
        fill=float("nan"),
    )
    never_warm: Bool = column("local retention deletes before a threshold is reached", fill=False)


@rule
def warm_up(
    coverage: ReplicaCoverage,
    roles: Roles,
    local: LocalLog,
    configs: TopicConfigs,
    growth: Growth,
    sizes: RecordSizes,
    replicas: Replicas,
    now_ms: NowMs,
) -> WarmUp:
    """A replica reaches a span with the clock, and a size as it grows, while it answers.

    Local retention bounds both: a threshold beyond it is never reached. Where local retention is
    not shorter than retention, it is warm at the latest once it has the whole log.
    """
    cold = is_cold(coverage, roles)
    seconds = np.where(coverage.coverage == Coverage.WARM, 0.0, np.nan)
    row = np.flatnonzero(any_slot(cold))
    if len(row):
        by_span = _seconds_by_span(configs, local, growth, row)
        by_bytes = _seconds_by_bytes(configs, local, growth, sizes, row)
        ways = (by_span, by_bytes, _seconds_by_completion(configs, local, row))
        soonest = np.fmin.reduce(ways)
        # If no way succeeds and one is unknown, the result is unknown.
        unsure = np.isnan(ways).any(axis=0) & (soonest == NEVER)
        # Of one that is away nobody knows: it neither copies nor deletes, perhaps.
        unsure |= (replicas.sampled_at_ms[row] < now_ms) & (soonest != NEVER)
        seconds[row] = np.where(cold[row], np.where(unsure, np.nan, soonest), seconds[row])
    return WarmUp(seconds, seconds == NEVER)


def is_unreachable(configs: TopicConfigs) -> Bool:
    """[P] thresholds are set, and local retention lets no replica reach any of them."""
    on_ms, on_bytes = configs.eligible_local_log_ms > 0, configs.eligible_local_log_bytes > 0
    reachable = (on_ms & ~_is_above_ms(configs)) | (on_bytes & ~_is_above_bytes(configs))
    reachable |= _completes(configs)
    return (on_ms | on_bytes) & ~reachable


@risk(
    "eligibility_unreachable",
    rank=150,
    severity="warn",
    open_after_ms=30_000,
    sentence="the threshold is above local retention: while the topic is written, a cold replica "
    "stays cold until the log start has passed its local start",
    source="KIP-1303",
    alert=Alert(
        summary="have cold replicas that stay cold",
        description="The threshold of KIP-1303 of {n} partitions of {cluster} is above their local "
        "retention: while they are written, no replica that joins reaches it, and one stays cold "
        "until the log start has passed its local start.",
        # It is a matter of configuration: there is no hurry.
        wait="5m",
        keep_firing_for="5m",
    ),
)
def stays_cold(coverage: ReplicaCoverage, roles: Roles, configs: TopicConfigs) -> Bool:
    """The partition has a cold replica that waiting does not help."""
    unreachable = is_unreachable(configs)
    return unreachable & any_slot(is_cold(coverage, roles)) if unreachable.any() else unreachable


@gauge(
    "warm_in_seconds",
    "Seconds until a cold replica holds enough local log to lead; 0 if it does; +Inf for never; "
    "no series where that is unknown or no threshold is set.",
    level="replica",
)
def warm_in_seconds(warm_up: WarmUp) -> Array:
    """The time of each replica, NaN where it is unknown."""
    return warm_up.warm_in_s


def _is_above_ms(configs: TopicConfigs) -> Bool:
    """[P] local retention is known to delete before the threshold in time is reached."""
    kept = configs.local_retention_ms
    above: Bool = (kept >= 0) & (configs.eligible_local_log_ms > kept)
    above &= configs.remote_storage == 1
    return above


def _is_above_bytes(configs: TopicConfigs) -> Bool:
    """[P] the same for the threshold in bytes."""
    kept = configs.local_retention_bytes
    above: Bool = (kept >= 0) & (configs.eligible_local_log_bytes > kept)
    above &= configs.remote_storage == 1
    return above


def _if_kept(seconds: Float64, configs: TopicConfigs, kept: Int64, row: Rows) -> Float64:
    """[N, R] those seconds; unknown where nobody knows what local retention deletes before."""
    is_unknown = ((configs.remote_storage == 1) & (kept == NOT_SET))[row][:, None]
    return np.where(is_unknown & np.isfinite(seconds), np.nan, seconds)


def _seconds_by_span(configs: TopicConfigs, local: LocalLog, growth: Growth, row: Rows) -> Float64:
    least = configs.eligible_local_log_ms[row][:, None]
    covered = local.covered_ms[row]
    left = np.where(covered == UNKNOWN, np.nan, np.maximum(least - covered, 0) / 1000)
    never = (least <= 0) | _is_above_ms(configs)[row][:, None]
    # Where nothing is written, nothing is missing after that time, although the disk is empty.
    is_idle = (growth.appended_records_per_s[row] <= 0)[:, None] & local.is_empty[row]
    never = never & (~is_idle | (least <= 0))
    return np.where(never, NEVER, _if_kept(left, configs, configs.local_retention_ms, row))


def _completes(configs: TopicConfigs) -> Bool:
    """[P] retention in time passes the local start of a replica before local retention moves it."""
    local_ms, local_bytes = configs.local_retention_ms, configs.local_retention_bytes
    completes: Bool = (configs.retention_ms >= 0) & (configs.remote_storage == 1)
    completes &= (local_ms == UNLIMITED) | (local_ms >= configs.retention_ms)
    is_bounded = (local_bytes != UNLIMITED) & (local_bytes != configs.retention_bytes)
    completes &= ~is_bounded & (local_bytes != NOT_SET)
    return completes


def _seconds_by_completion(configs: TopicConfigs, local: LocalLog, row: Rows) -> Float64:
    """[N, R] until the log start is at the replica's local start: then nothing is missing."""
    kept_ms, covered = configs.retention_ms[row][:, None], local.covered_ms[row]
    left = np.where(covered == UNKNOWN, np.nan, np.maximum(kept_ms - covered, 0) / 1000)
    return np.where(_completes(configs)[row][:, None], left, NEVER)


def _seconds_by_bytes(
    configs: TopicConfigs, local: LocalLog, growth: Growth, sizes: RecordSizes, row: Rows
) -> Float64:
    least = configs.eligible_local_log_bytes[row][:, None]
    local_bytes = local.held_bytes[row]
    missing = np.where(local_bytes == UNKNOWN, np.nan, np.maximum(least - local_bytes, 0))
    rate = growth.appended_records_per_s[row]
    grows = np.where(rate == UNKNOWN, np.nan, rate) * sizes.bytes_per_record[row]
    grows = np.where(rate == 0, 0.0, grows)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(grows == 0, NEVER, missing / grows)
    never = (least <= 0) | _is_above_bytes(configs)[row][:, None]
    return np.where(never, NEVER, _if_kept(left, configs, configs.local_retention_bytes, row))
