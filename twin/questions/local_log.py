"""What if local logs were kept otherwise: by thresholds of KIP-1303, or by local retention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from twin.arrays.columns_in_arrow import object_array
from twin.declarations.table import (
    KAFKA,
    UNKNOWN,
    Float64,
    blank,
)
from twin.engine.shard_state import ShardState
from twin.questions.adds_up import AddsUp, highest, lowest, same
from twin.rules.brokers.racks import rack_names, racks_of
from twin.rules.election.after_loss import LeadersAfterLoss
from twin.rules.election.balance import BalancedLeaders
from twin.rules.election.next_leader import NextLeaders
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.coverage import Coverage, LocalLog, ReplicaCoverage, is_cold
from twin.rules.tiering.tier_states import TierState, TierStates
from twin.rules.tiering.upload import UploadLag
from twin.rules.tiering.warm_up import NEVER, WarmUp, is_unreachable
from twin.tables.enums import CLUSTER_WIDE, NOT_SET
from twin.tables.state import Brokers, Configs, Replicas


@dataclass(frozen=True, slots=True)
class Threshold(AddsUp):
    """One threshold of KIP-1303 (-1: off), and what it does to replicas and leaders.

    With a higher threshold, leaders are more likely to serve from their own disks, but stay out of
    balance for longer: until each cold preferred leader (replica 0) has grown to the threshold.
    """

    local_log_ms: Annotated[int, same]
    local_log_bytes: Annotated[int, same]
    cold_replicas: int
    cold_leaders: int
    next_leaders_cold: int
    moved_leaders: int  # partitions with another leader than by Kafka's rule
    unreachable_partitions: int
    # Leaders in the rack with the most, divided by the mean; None without leaders in racks.
    rack_skew: Annotated[float | None, same]
    leaders_by_rack: Mapping[str, int]
    preferred_cold: int  # partitions that are out of balance until replica 0 is warm
    preferred_eta_unknown: int  # those for which the time is unknown
    preferred_never_warm: int  # those whose threshold is out of reach
    balanced_in_s: Annotated[float, highest]  # until the others are balanced; 0 without any

    def __post_init__(self) -> None:
        counts = self.leaders_by_rack.values()
        skew = round(max(counts) * len(counts) / sum(counts), 3) if sum(counts) else None
        object.__setattr__(self, "rack_skew", skew)


def of_topic(state: ShardState, topic: str) -> ShardState:
    """The state of that topic's partitions alone."""
    return state.take(np.flatnonzero(state.topic_names() == topic))


def topics_with_thresholds(state: ShardState) -> int:
    """How many topics override the cluster-wide thresholds."""
    configs = state[Configs]
    own = (configs.eligible_local_log_ms != NOT_SET) | (configs.eligible_local_log_bytes != NOT_SET)
    return int((own & (configs.topic != CLUSTER_WIDE)).sum())


def with_threshold(
    state: ShardState, local_log_ms: int, local_log_bytes: int, topic: str = CLUSTER_WIDE
) -> ShardState:
    """The state with these thresholds (-1: off) cluster-wide or for one topic, judged again.

    As in Kafka, a topic's own thresholds override the cluster-wide ones.
    """
    configs = _with_row(state[Configs], topic)
    is_topic = configs.topic == topic
    changed = replace(
        configs,
        eligible_local_log_ms=np.where(is_topic, local_log_ms, configs.eligible_local_log_ms),
        eligible_local_log_bytes=np.where(
            is_topic, local_log_bytes, configs.eligible_local_log_bytes
        ),
    )
    return state.with_tables(changed).remade(ReplicaCoverage)


def eligibility(
    state: ShardState, local_log_ms: int, local_log_bytes: int, topic: str = CLUSTER_WIDE
) -> Threshold:
    """The effect of these thresholds under KIP-1303, on all partitions of the state."""
    changed = with_threshold(state, local_log_ms, local_log_bytes, topic).remade(NextLeaders)
    roles, cold = changed[Roles], is_cold(changed[ReplicaCoverage], changed[Roles])
    stock, kip1303 = (changed[BalancedLeaders.under(r)].leader for r in (KAFKA, "kip1303"))
    brokers = changed[Brokers]
    names, racks = rack_names(brokers), racks_of(brokers, kip1303)
    counts = np.bincount(racks[racks != UNKNOWN], minlength=len(names))
    following = changed[LeadersAfterLoss].coverage
    waits_s = changed[WarmUp].warm_in_s[:, 0][cold[:, 0]]
    return Threshold(
        local_log_ms=local_log_ms,
        local_log_bytes=local_log_bytes,
        cold_replicas=int(cold.sum()),
        cold_leaders=int((cold & roles.is_leader).sum()),
        next_leaders_cold=int((following == Coverage.COLD).sum()),
        moved_leaders=int((stock != kip1303).sum()),
        unreachable_partitions=int(is_unreachable(changed[TopicConfigs]).sum()),
        rack_skew=None,  # follows from the racks
        preferred_cold=len(waits_s),
        preferred_eta_unknown=int(np.isnan(waits_s).sum()),
        preferred_never_warm=int((waits_s == NEVER).sum()),
        balanced_in_s=round(float(waits_s[np.isfinite(waits_s)].max(initial=0.0)), 3),
        leaders_by_rack=dict(zip(names, counts.tolist(), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class Footprint(AddsUp):
    """Replicas of tiered topics. Spans: null is unknown, -1 has no limit."""

    replicas: int
    cold: int
    cold_for_good: int  # retention deletes before a threshold is reached
    bytes: int
    # The spans that local logs reach: the busiest partition, and the calmest. While they are
    # added up, NaN is unknown, and infinity has no limit.
    shortest_span_ms: Annotated[float | None, lowest]
    longest_span_ms: Annotated[float | None, highest]


def local_footprint(state: ShardState) -> Footprint:
    """The local log of tiered topics now. Replicas of unknown size are left out."""
    configs, roles = state[TopicConfigs], state[Roles]
    tiered = configs.remote_storage == 1
    replicas = tiered[:, None] & roles.is_assigned
    cold = replicas & is_cold(state[ReplicaCoverage], roles)
    local_bytes, spans = state[LocalLog].held_bytes, longest_span_ms(state)[tiered]
    return Footprint(
        replicas=int(replicas.sum()),
        cold=int(cold.sum()),
        cold_for_good=int((cold & is_unreachable(configs)[:, None]).sum()),
        bytes=int(local_bytes[replicas & (local_bytes != UNKNOWN)].sum()),
        shortest_span_ms=float(np.fmin.reduce(spans, initial=np.nan)),
        longest_span_ms=float(np.fmax.reduce(spans, initial=np.nan)),
    )


def longest_span_ms(state: ShardState) -> Float64:
    """[P] the longest time that a local log can span, limited by time or by bytes and growth.

    Infinite without a limit; NaN where a limit is unknown, or bytes alone limit it and its growth
    is unknown.
    """
    configs, growth = state[TopicConfigs], state[Growth].appended_records_per_s
    kept_ms = configs.local_retention_ms.astype(np.float64)
    kept_bytes = configs.local_retention_bytes.astype(np.float64)
    rate = np.where(growth == UNKNOWN, np.nan, growth)
    per_ms = np.where(rate == 0, 0.0, rate * state[RecordSizes].bytes_per_record) / 1000
    with np.errstate(divide="ignore", invalid="ignore"):
        by_bytes = np.where(per_ms == 0, np.inf, kept_bytes / per_ms)
    by_bytes = np.where(kept_bytes < 0, np.inf, by_bytes)
    by_ms = np.where(kept_ms < 0, np.inf, kept_ms)
    by_bytes = np.where(configs.local_retention_bytes == NOT_SET, np.nan, by_bytes)
    by_ms = np.where(configs.local_retention_ms == NOT_SET, np.nan, by_ms)
    is_unknown = (np.isnan(by_bytes) & np.isinf(by_ms)) | (np.isnan(by_ms) & np.isinf(by_bytes))
    return np.where(is_unknown, np.nan, np.fmin(by_ms, by_bytes))


def with_local_retention(state: ShardState, local_ms: int, local_bytes: int) -> ShardState:
    """The state with this local retention of tiered topics (UNKNOWN: as now).

    Logs are assumed to be evenly dense. Logs above the new limit count as truncated at once;
    shorter ones stay as they are until they have grown. What is not uploaded stays on disk. Where
    copies are disabled, retention holds in place of local retention (KIP-950).
    """
    local = state[LocalLog]
    span, log_bytes = local.local_log_span_ms, local.held_bytes
    share = np.ones(span.shape)
    if local_ms != UNKNOWN:
        share = np.where(span > local_ms, local_ms / np.maximum(span, 1), share)
    if local_bytes != UNKNOWN:
        fits = np.where(log_bytes > local_bytes, local_bytes / np.maximum(log_bytes, 1), 1.0)
        share = np.minimum(share, fits)
    was = state[Replicas]
    start, end = was.local_log_start_offset, was.log_end_offset
    is_known = (start != UNKNOWN) & (end != UNKNOWN)
    waiting = np.maximum(state[UploadLag].upload_lag_records, 0)[:, None]
    waits = np.where(is_known & (end > start), waiting / np.maximum(end - start, 1), 0.0)
    share = np.maximum(share, np.minimum(waits, 1.0))
    states = state[TierStates].tier_state
    obeys = (state[TopicConfigs].remote_storage == 1) & (states != TierState.COPIES_DISABLED)
    share = np.where(obeys[:, None], share, 1.0)
    cut_bytes, cut_ms = (np.floor(value * share).astype(np.int64) for value in (log_bytes, span))
    cut_start = end - np.floor((end - start) * share).astype(np.int64)
    replicas = replace(
        was,
        local_log_start_offset=np.where(is_known, cut_start, start),
        local_log_bytes=np.where(log_bytes == UNKNOWN, UNKNOWN, cut_bytes),
        local_start_timestamp_ms=np.where(span == UNKNOWN, UNKNOWN, was.sampled_at_ms - cut_ms),
    )
    configs = _with_row(state[Configs])
    rows = len(configs.topic)
    if local_ms != UNKNOWN:
        configs = replace(configs, local_retention_ms=np.full(rows, local_ms))
    if local_bytes != UNKNOWN:
        configs = replace(configs, local_retention_bytes=np.full(rows, local_bytes))
    return state.with_tables(replicas, configs).remade(ReplicaCoverage)


def _with_row(configs: Configs, topic: str = CLUSTER_WIDE) -> Configs:
    """The configs with a row of that topic (or of the cluster), even if none was observed."""
    if topic in configs.topic:
        return configs
    row = Configs.from_values(blank(c, 1) for c in Configs.columns)
    return configs.with_rows(replace(row, topic=object_array([topic])), "topic")
