"""What if: the same rules over a state in which something was changed.

Each function takes a state and returns a value; nothing is changed. Shards are asked one by one and
their answers add up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from twin.arrays.slots import any_slot, count_slots
from twin.declarations.signature import parameters
from twin.declarations.table import KAFKA, NO_BROKER, UNKNOWN, Array, Bool, Int32, Rows
from twin.engine.shard_state import ShardState
from twin.questions.adds_up import AddsUp
from twin.rules.election.after_loss import away_replicas
from twin.rules.election.ballots import Ballot
from twin.rules.election.next_leader import Electorate, NextLeaders, elected_under, elected_without
from twin.rules.election.unclean_successors import SuccessorCosts
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr, TopicConfigs, min_isr_under
from twin.rules.tiering.bootstrap import BootstrapOff, BootstrapOn, BootstrapPath, cannot_start
from twin.tables.state import Assignment, Brokers, Partitions

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


def _path_name(path: int) -> str:
    return "unknown" if path == UNKNOWN else BootstrapPath(path).name.lower()
