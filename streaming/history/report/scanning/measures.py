"""Numbers of one moment: how many partitions are in which condition, and what groups do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from streaming.bus.view import ClusterView
from streaming.history.past import PastView
from streaming.history.report.model import Standing
from twin.arrays import keys
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Int64
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.risks import OpenRisks
from twin.engine.shard_state import ShardState
from twin.rules.groups.moves import GroupLags, GroupMoves
from twin.rules.groups.reads import GroupReads, ReadsFrom
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr, TopicConfigs
from twin.rules.replication.isr import IsrSizes, is_under_min_isr
from twin.tables.state import (
    Assignment,
    BrokerMetrics,
    Brokers,
    Groups,
    PartitionIndex,
    Partitions,
    Topics,
)


@dataclass(frozen=True, slots=True)
class ShardMeasures:
    """[P] conditions of the partitions of a shard."""

    is_described: Bool
    is_offline: Bool
    is_under_min_isr: Bool  # false where it is unknown
    is_min_isr_known: Bool
    open_risks: Int64  # as bits


def measured(state: ShardState) -> ShardMeasures:
    """The conditions themselves, not the risks, which open and close later."""
    partitions = state[Partitions]
    described = partitions.described_at_ms != UNKNOWN
    is_known = state[TopicConfigs].min_insync_replicas != UNKNOWN
    under = is_under_min_isr(partitions, state[IsrSizes], state[LeaderMinIsr])
    return ShardMeasures(
        described,
        described & (partitions.leader == NO_BROKER),
        described & is_known & under,
        is_known,
        np.where(described, state[OpenRisks].bits, 0),
    )


def risk_counts(bits: Int64, names: tuple[str, ...]) -> Counter[str]:
    """Partitions by the name of an open risk."""
    counts = Counter[str]()
    for number, name in enumerate(names):
        counts[name] = int(((bits >> number) & 1).sum())
    return +counts


def alerting_counts(view: ClusterView, of: Mapping[int, ShardMeasures]) -> Counter[str]:
    """Partitions, brokers or 1 by the name of a risk, as its alert counts them."""
    counts = Counter[str]()
    for state in view.states:
        bits, risks = of[state.shard].open_risks, state.catalog.risks
        place = {risk.name: number for number, risk in enumerate(risks)}
        for number, risk in enumerate(risks):
            has = (bits >> number) & 1
            if risk.alert.unless in place:
                has = has & ~(bits >> place[risk.alert.unless])
            counts[risk.name] += int(has.sum())
    if view.cluster is not None and ClusterRisks in view.cluster.tables:
        own = view.cluster[ClusterRisks]
        counts.update(str(name) for name in own.risk[own.is_open].tolist())
    return +counts


def standing(found: PastView, of: Mapping[int, ShardMeasures]) -> Standing:
    """How the cluster is."""
    view = found.view
    risks = Counter[str]()
    for state in view.states:
        risks += risk_counts(of[state.shard].open_risks, tuple(state.catalog.risk_names))
    down, silent = brokers_away(view)
    measures = list(of.values())
    return Standing(
        at_ms=found.at_ms,
        complete=found.complete,
        partitions=sum(len(each.is_described) for each in measures),
        not_described=sum(int((~each.is_described).sum()) for each in measures),
        offline=sum(int(each.is_offline.sum()) for each in measures),
        under_min_isr=sum(int(each.is_under_min_isr.sum()) for each in measures),
        at_risk=sum(int((each.open_risks != 0).sum()) for each in measures),
        risks=dict(sorted(risks.items())),
        brokers_down=down,
        brokers_silent=silent,
        lag_records=lag_records(view),
    )


def brokers_away(view: ClusterView) -> tuple[list[int], list[int]]:
    """Brokers that are down, and others that do not answer."""
    if view.newest is None:
        return [], []
    brokers = view.newest[Brokers]
    is_down = (brokers.fenced == 1) | ~brokers.listed
    down, silent = (brokers.broker[each] for each in (is_down, ~is_down & ~brokers.answered))
    return sorted(down.tolist()), sorted(silent.tolist())


def lag_records(view: ClusterView) -> int | None:
    """The lag of all groups in use, added up; None if none is known."""
    known, total = False, 0
    for state in view.states:
        lags = state[GroupLags]
        counted = lags.in_use & (lags.lag_records != UNKNOWN)
        known |= bool(counted.any())
        total += int(lags.lag_records[counted].sum())
    return total if known else None


def failed_replicas(state: ShardState) -> Bool:
    """[P, R] offline replicas on brokers that are not: their log directory failed."""
    roles, brokers = state[Roles], state[Brokers]
    active = brokers.broker[brokers.listed & (brokers.fenced != 1)]
    offline: Bool = roles.is_offline & roles.is_assigned
    return offline & np.isin(state[Assignment].broker, active)


def remote_bytes_per_s(view: ClusterView) -> tuple[float, int, int]:
    """Bytes a second from remote storage, brokers that measured it, and brokers that should."""
    state = view.newest
    if state is None:
        return 0.0, 0, 0
    brokers = state[Brokers]
    active = brokers.broker[brokers.listed & (brokers.fenced != 1)]
    rates = state[BrokerMetrics].of_brokers(
        active, "remote_fetch_bytes_per_s", state.observed_at_ms
    )
    return float(np.nansum(rates)), int((~np.isnan(rates)).sum()), len(active)


def places(state: ShardState, rows: Array) -> list[tuple[str, int]]:
    """Topic and number of the partitions in those rows."""
    if not len(rows):
        return []
    index = state[PartitionIndex]
    topics = state[Topics].topic[index.topic_index[rows]]
    numbers = index.partition[rows].tolist()
    return [(str(topic), number) for topic, number in zip(topics, numbers, strict=True)]


BAD_PLACES: Final = (ReadsFrom.NOBODY, ReadsFrom.NOWHERE, ReadsFrom.AHEAD, ReadsFrom.REMOTE)
"""Where a group in use suffers, the worst first."""


def suffering(state: ShardState) -> tuple[Array, Array, Array] | None:
    """[N] rows of groups that suffer: group, row of the partition, place; None without groups."""
    if not len(state[Groups].group):
        return None
    lags, reads = state[GroupLags], state[GroupReads]
    bad = np.flatnonzero(lags.in_use & np.isin(reads.reads_from, [int(b) for b in BAD_PLACES]))
    return state[GroupMoves].group_index[bad], lags.row[bad], reads.reads_from[bad]


def leaders_of(
    state: ShardState, wanted: Collection[tuple[str, int]]
) -> Mapping[tuple[str, int], int]:
    """The leaders of those partitions, as far as the shard has them."""
    topics = {str(name): number for number, name in enumerate(state[Topics].topic)}
    here = [place for place in wanted if place[0] in topics]
    if not here:
        return {}
    index = state[PartitionIndex]
    numbers = np.array([topics[topic] for topic, _ in here], np.int64)
    partition = np.array([number for _, number in here], np.int64)
    row = keys.find(keys.pack(index.topic_index, index.partition), keys.pack(numbers, partition))
    leader = state[Partitions].leader
    return {
        place: int(leader[at])
        for place, at in zip(here, row.tolist(), strict=True)
        if at != UNKNOWN
    }
