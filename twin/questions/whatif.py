"""What if: the same rules over a state in which something was changed.

Each function takes a state and returns a value; nothing is changed. Shards are asked one by one and
their answers add up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final

import numpy as np

from twin.arrays.slots import any_slot, count_slots
from twin.declarations.signature import parameters
from twin.declarations.table import (
    KAFKA,
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Float64,
    Int32,
    Rows,
    blank,
    object_array,
)
from twin.engine.state import ShardState
from twin.questions.adds_up import AddsUp, highest, lowest, same
from twin.rules.brokers.racks import rack_names, racks_of
from twin.rules.election.after_loss import LeadersAfterLoss, away_replicas
from twin.rules.election.balance import BalancedLeaders
from twin.rules.election.ballots import Ballot
from twin.rules.election.next_leader import Electorate, NextLeaders, elected_under, elected_without
from twin.rules.election.unclean_successors import SuccessorCosts
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr, TopicConfigs, min_isr_under
from twin.rules.tiering.bootstrap import BootstrapOff, BootstrapOn, BootstrapPath, cannot_start
from twin.rules.tiering.coverage import Coverage, LocalLog, ReplicaCoverage, is_cold
from twin.rules.tiering.tier_states import TierState, TierStates
from twin.rules.tiering.upload import UploadLag
from twin.rules.tiering.warm_up import NEVER, WarmUp, is_unreachable
from twin.tables.enums import CLUSTER_WIDE, NOT_SET
from twin.tables.state import Assignment, Brokers, Configs, Partitions, Replicas

_FEW: Final = 8


@dataclass(frozen=True, slots=True)
class Loss:
    """The effect of losing brokers. [N] rows that lose their leader, or end under min ISR.

    ``isr`` is the size of the ISR once leaders are elected by Kafka's rule, and ``min_isr`` what
    those leaders ask for. ``next_leaders`` has the leaders by each election rule, Kafka's first.
    """

    row: Rows
    next_leaders: Mapping[str, NextLeaders]
    isr: Int32
    min_isr: Int32

    @property
    def kafka(self) -> NextLeaders:
        """[N] the next leaders by Kafka's rule."""
        return self.next_leaders[KAFKA]

    @property
    def offline(self) -> Bool:
        """[N] nobody leads it any more."""
        return self.kafka.leader == NO_BROKER

    @property
    def under_min_isr(self) -> Bool:
        """[N] too few replicas in sync for acks=all, by the count of who leads then."""
        return self.isr < self.min_isr


def brokers_in(state: ShardState, racks: Collection[str]) -> list[int]:
    """The brokers of those racks."""
    brokers = state[Brokers]
    inside = np.isin(brokers.rack.astype(str), list(racks))
    return [int(broker) for broker in brokers.broker[inside]]


def on_brokers(ids: Array, brokers: Collection[int]) -> Bool:
    """A mask, of any shape, of the ids that are among those brokers."""
    if len(brokers) > _FEW:
        return np.isin(ids, list(brokers))
    on = np.zeros(ids.shape, bool)
    for broker in brokers:  # a few comparisons take a third of the time of isin
        on |= ids == broker
    return on


def is_judged(state: ShardState) -> Bool:
    """[P] partitions that a loss is judged for: described, and not diskless.

    Those of diskless topics need no broker of their own (KIP-1150).
    """
    described = state[Partitions].described_at_ms != UNKNOWN
    return described & (state[TopicConfigs].diskless != 1)


def described_on(state: ShardState, brokers: Collection[int]) -> Rows:
    """[N] rows of the partitions that are judged and have a replica on one of the brokers."""
    is_here = any_slot(on_brokers(state[Assignment].broker, brokers))
    return np.flatnonzero(is_here & is_judged(state))


def lose(state: ShardState, brokers: Collection[int]) -> Loss:
    """The effect of fencing those brokers at once.

    Replicas that are away count as lost too (``after_loss``). So the loss of more brokers is never
    judged safer.
    """
    rows = described_on(state, brokers)
    # Nothing changes for the others, so no election is held for them.
    electorate = electorate_of(state).take(rows)
    roles = electorate.roles
    named = on_brokers(electorate.assignment.broker, brokers) & roles.is_assigned
    lost_replicas = named | away_replicas(electorate, state[Brokers], state.observed_at_ms)
    in_isr = roles.in_isr & roles.is_assigned
    following = elected_without(electorate, lost_replicas)
    # A leader from outside the ISR becomes the ISR (PartitionChangeBuilder.tryElection).
    isr = np.maximum(count_slots(in_isr & ~lost_replicas), following.leader != NO_BROKER)
    stays = any_slot(roles.is_leader & in_isr & ~lost_replicas)
    leader = np.where(stays, electorate.partitions.leader, following.leader)
    least = min_isr_under(
        leader, state[LeaderMinIsr].min_isr[rows], electorate.partitions,
        electorate.topic_configs, state[Brokers],
    )  # fmt: skip
    falls_short = (isr < least) & any_slot(in_isr & named)
    row = np.flatnonzero(any_slot(named & roles.is_leader) | falls_short)
    by_rule = {KAFKA: following.take(row)}
    for rule in state.catalog.election_rules:
        if rule != KAFKA:
            ballot = state[Ballot.under(rule)].take(rows)
            by_rule[rule] = elected_under(ballot, electorate, lost_replicas, following).take(row)
    return Loss(rows[row], by_rule, isr[row], least[row])


_ELECTION: Final = parameters(Electorate)


def successor_costs(state: ShardState, loss: Loss, rows: Rows) -> SuccessorCosts:
    """What the next leaders of those rows of the loss cost.

    It is computed separately, since only few rows of a loss are shown.
    """
    reads = state.catalog.rules[SuccessorCosts].reads
    part = state.with_only(reads).take(loss.row[rows])
    return part.with_tables(loss.kafka.take(rows))[SuccessorCosts]


def electorate_of(state: ShardState) -> Electorate:
    """The tables of a state that an election reads."""
    return Electorate(**state.arguments(_ELECTION))


@dataclass(frozen=True, slots=True)
class Eligibility(AddsUp):
    """How a threshold divides the replicas, and what it does to leaders.

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
    preferred_cold: int  # partitions that are out of balance until replica 0 is warm
    preferred_eta_unknown: int  # those for which the time is unknown
    preferred_never_warm: int  # those whose threshold is out of reach
    balanced_in_s: Annotated[float, highest]  # until the others are balanced; 0 without any
    leaders_by_rack: tuple[tuple[str, int], ...]

    @property
    def rack_skew(self) -> float:
        """Leaders in the rack with the most, divided by the mean; NaN without leaders in racks."""
        counts = [count for _, count in self.leaders_by_rack]
        return max(counts) * len(counts) / sum(counts) if sum(counts) else float("nan")


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
) -> Eligibility:
    """The effect of these thresholds under KIP-1303, on all partitions of the state."""
    changed = with_threshold(state, local_log_ms, local_log_bytes, topic).remade(NextLeaders)
    roles, cold = changed[Roles], is_cold(changed[ReplicaCoverage], changed[Roles])
    stock, kip1303 = (changed[BalancedLeaders.under(r)].leader for r in (KAFKA, "kip1303"))
    brokers = changed[Brokers]
    names, racks = rack_names(brokers), racks_of(brokers, kip1303)
    counts = np.bincount(racks[racks != UNKNOWN], minlength=len(names))
    following = changed[LeadersAfterLoss].coverage
    waits_s = changed[WarmUp].warm_in_s[:, 0][cold[:, 0]]
    return Eligibility(
        local_log_ms=local_log_ms,
        local_log_bytes=local_log_bytes,
        cold_replicas=int(cold.sum()),
        cold_leaders=int((cold & roles.is_leader).sum()),
        next_leaders_cold=int((following == Coverage.COLD).sum()),
        moved_leaders=int((stock != kip1303).sum()),
        unreachable_partitions=int(is_unreachable(changed[TopicConfigs]).sum()),
        preferred_cold=len(waits_s),
        preferred_eta_unknown=int(np.isnan(waits_s).sum()),
        preferred_never_warm=int((waits_s == NEVER).sum()),
        balanced_in_s=float(waits_s[np.isfinite(waits_s)].max(initial=0.0)),
        leaders_by_rack=tuple(zip(names, counts.tolist(), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class BootstrapCost(AddsUp):
    """The records that an empty broker would copy, with KIP-1023's feature on and off.

    Partitions of unknown size are counted in ``unknown`` and left out of sums.
    """

    partitions: int
    without_source: int  # nobody else can lead them: there is nothing to copy from
    cannot_start: int  # with the feature on
    unknown: int
    records_on: int
    records_off: int
    bytes_on: float
    bytes_off: float
    paths: tuple[tuple[str, int], ...]


def replicas_on(state: ShardState, broker: int) -> Rows:
    """[N] rows of the partitions that are assigned to the broker."""
    is_replica = (state[Assignment].broker == broker) & state[Roles].is_assigned
    return np.flatnonzero(is_replica.any(axis=1))


def fair_share(state: ShardState, brokers: int) -> Rows:
    """[N] rows of the partitions of which one more broker would take over a replica.

    It takes every (brokers + 1)th replica, and so an even share of all topics. A partition has no
    more replicas than there are brokers, so it is not taken twice.
    """
    replicas = np.repeat(np.arange(state.partitions), state[Partitions].assigned)
    return replicas[brokers :: brokers + 1]


def bootstrap_cost(state: ShardState, broker: int, rows: Rows) -> BootstrapCost:
    """The records that the broker would copy if it were empty and had to hold those partitions.

    Partitions that it leads would have another leader by then, elected by Kafka's rule.
    """
    lost_replicas = (state[Assignment].broker == broker) & state[Roles].is_assigned
    leader = elected_without(electorate_of(state), lost_replicas).leader
    after_loss = state.with_tables(replace(state[Partitions], leader=leader))
    has_source = leader[rows] != NO_BROKER
    rows = rows[has_source]
    on, off = after_loss[BootstrapOn], after_loss[BootstrapOff]
    paths, counts = np.unique(on.path[rows], return_counts=True)
    records_on, records_off = on.records[rows], off.records[rows]
    return BootstrapCost(
        partitions=len(has_source),
        without_source=int((~has_source).sum()),
        cannot_start=int(cannot_start(on.path[rows]).sum()),
        unknown=int((on.path[rows] == UNKNOWN).sum()),
        records_on=int(records_on[records_on > 0].sum()),
        records_off=int(records_off[records_off > 0].sum()),
        bytes_on=float(np.nansum(on.bytes_estimate[rows])),
        bytes_off=float(np.nansum(off.bytes_estimate[rows])),
        paths=tuple(zip(map(_path_name, paths.tolist()), counts.tolist(), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class LocalFootprint(AddsUp):
    """The local log of tiered topics under a local retention, and how many replicas are cold."""

    replicas: int
    cold: int
    cold_for_good: int  # retention deletes before a threshold is reached
    bytes: int
    # The spans that local logs reach: the busiest partition, and the calmest.
    shortest_span_ms: Annotated[float, lowest]
    longest_span_ms: Annotated[float, highest]


def local_footprint(state: ShardState) -> LocalFootprint:
    """The local log of tiered topics now. Replicas of unknown size are left out."""
    configs, roles = state[TopicConfigs], state[Roles]
    tiered = configs.remote_storage == 1
    replicas = tiered[:, None] & roles.is_assigned
    cold = replicas & is_cold(state[ReplicaCoverage], roles)
    local_bytes, spans = state[LocalLog].held_bytes, longest_span_ms(state)[tiered]
    return LocalFootprint(
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


def _path_name(path: int) -> str:
    return "unknown" if path == UNKNOWN else BootstrapPath(path).name.lower()


def _with_row(configs: Configs, topic: str = CLUSTER_WIDE) -> Configs:
    """The configs with a row of that topic (or of the cluster), even if none was observed."""
    if topic in configs.topic:
        return configs
    row = Configs.from_values(blank(c, 1) for c in Configs.columns)
    return configs.with_rows(replace(row, topic=object_array([topic])), "topic")
