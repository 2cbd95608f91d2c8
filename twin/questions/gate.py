"""May these brokers be restarted now? Reasons against it, from the twin's state alone.

A restart takes a broker out of every ISR for about a minute. It is unsafe if, in that time, a
partition would have no leader, a leader from outside the ISR, a cold leader where it has none now,
or too few replicas in sync; if another broker would carry more than its configured capacity; if the
controllers would have no majority; or if another broker is not fully in sync, since replication
does not cover two brokers that are out at once. Brokers that are named together are out together:
the same conditions hold for the state without all of them.

No order of restarts can avoid some reasons: a partition with one replica, or with no more replicas
than min.insync.replicas; a quorum of one or two voters. Each of these is a separate reason, so that
a user can allow it each time, or allow single replicas once by the cluster's configuration.

Each shard answers separately; ``reasons`` combines the answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from twin.arrays.plain import counted
from twin.arrays.slots import any_slot, count_slots
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.declarations.signature import parameters, reading
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Rows
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.questions import whatif
from twin.questions.load import above_capacity, peaks_of
from twin.questions.quorum import behind, newest_quorum
from twin.questions.whatif import Loss
from twin.rules.election.after_loss import away_replicas
from twin.rules.election.ballots import in_isr
from twin.rules.election.next_leader import Candidates, Electorate
from twin.rules.election.redundancy import Redundancy, Spare
from twin.rules.load.peaks import CarriedPeaks
from twin.rules.partitions.leaders import Roles, has_flag
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.rules.replication.isr import IsrSizes
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.tables.enums import ReplicaFlags
from twin.tables.state import (
    Assignment,
    Brokers,
    ControllerQuorum,
    PartitionIndex,
    Partitions,
    Replicas,
    Topics,
)


class Reason(Enum):
    """Why a broker may not be restarted; the value is the sentence for users."""

    OFFLINE = "partitions would have no leader"
    OUTSIDE_ISR = "partitions would be led by a replica from outside the ISR"
    UNDER_MIN_ISR = "partitions would have fewer replicas in sync than min.insync.replicas"
    UNDER_MARGIN = (
        "partitions would have fewer replicas in sync than min.insync.replicas and margin"
    )
    COLD = "partitions would be led by a cold replica, and are not now"
    ONE_REPLICA = "partitions have one replica: a restart always takes them offline"
    NO_SPARE_REPLICA = "partitions have min.insync.replicas replicas or fewer: none can be spared"
    ONE_REPLICA_ACCEPTED = "partitions have one replica, which the configuration accepts"
    OVER_CAPACITY = "brokers would carry more than their capacity"
    FULL_DISK = "a disk of brokers would be full, so that they could not start again"
    QUORUM = "the other controllers that are caught up would be no majority"
    SMALL_QUORUM = "a controller quorum of one or two voters has no majority without one of them"
    BROKER_OUT = "other brokers are out"
    BROKER_NOT_IN_SYNC = "other brokers are not in every ISR of their replicas"
    NOT_DESCRIBED = "partitions have not been described by the controller yet"
    BROKER_SILENT = "brokers do not answer"
    QUORUM_UNKNOWN = "facts on the controller quorum are not known"


LASTING_REASONS: Final = frozenset(
    {Reason.ONE_REPLICA, Reason.NO_SPARE_REPLICA, Reason.SMALL_QUORUM}
)
"""Reasons that no time and no order of restarts removes."""

UNKNOWN_REASONS: Final = frozenset(
    {Reason.NOT_DESCRIBED, Reason.BROKER_SILENT, Reason.QUORUM_UNKNOWN}
)
"""Reasons why the twin does not know: neither safe nor unsafe."""

BACK_WITHIN_MS: Final = 1_800_000
"""A broker that is restarted has caught up after so long, with its logs to recover."""

Names = Mapping[Reason, Sequence[str]]
"""The partitions, brokers or voters that a reason is about."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The margin that a user asks for, and the reasons that a user allows."""

    margin: int = 0  # replicas in sync above min.insync.replicas, where replication allows it
    allowed: frozenset[Reason] = frozenset()

    def allows(self, reason: Reason) -> bool:
        """A user allows the reason, or the configuration does."""
        return reason in self.allowed or reason is Reason.ONE_REPLICA_ACCEPTED


def reasons(
    states: Sequence[ShardState],
    together: Collection[int],
    terms: Terms,
    losses: Sequence[Loss] | None = None,
    whole: Sequence[ShardState] | None = None,
    own: ShardState | None = None,
) -> Names:
    """The reasons against restarting those brokers together, allowed ones included.

    Args:
        states: all shards of the cluster; brokers and controllers are as the newest lists them.
        together: the brokers; empty to ask whether every broker is in sync.
        terms: the margin asked for, and the reasons that are allowed.
        losses: the loss of those brokers in each state; computed if omitted.
        whole: all partitions, where ``states`` have only some: what brokers carry is a sum of all.
        own: the cluster's own shard. It has the most that brokers carried, of which a capacity may
            be a percentage, and says when disks are full.
    """
    brokers = newest_brokers(states)
    if losses is None:
        losses = [whatif.lose(state, together) for state in states]
    parts = [
        restart(state, together, terms, loss) for state, loss in zip(states, losses, strict=True)
    ]
    parts.append(of_quorum(newest_quorum(states), together))
    carried = (states, losses) if whole is None else (whole, None)
    parts.append(of_loads(carried[0], together, carried[1], peaks_of(own)))
    parts.append(of_disks(own, together))
    # A broker that is out serves nothing, so others need not be in sync; they may wait for it.
    if not together or np.isin(list(together), brokers.broker[~_is_out(brokers)]).any():
        parts.append(not_in_sync(outside_isr(state, together) for state in states))
        expected = brokers.pick(~holding_nothing(states if whole is None else whole, brokers))
        parts.append(of_brokers(expected, together))
    return combined(parts)


def newest_brokers(states: Iterable[ShardState]) -> Brokers:
    """The brokers as the shard that was observed last lists them."""
    newest = max(states, key=lambda state: state.observed_at_ms, default=None)
    return Brokers.empty() if newest is None else newest[Brokers]


def restart(state: ShardState, together: Collection[int], terms: Terms, loss: Loss) -> Names:
    """The reasons of one shard against restarting those brokers, allowed ones included.

    ``loss`` is the loss of those brokers in this shard.
    """
    row = whatif.described_on(state, together)  # nothing changes for the others
    here = state.with_only(_READS).take(row)
    rows = _harmed(here, together, terms, loss, np.searchsorted(row, loss.row))
    named = {reason: _partition_names(here, mask) for reason, mask in rows.items()}
    is_unknown = state[Partitions].described_at_ms == UNKNOWN
    named[Reason.NOT_DESCRIBED] = _partition_names(state, is_unknown)
    return {reason: names for reason, names in named.items() if names}


_READS: Final = (
    *reading(Roles, Candidates, LeaderMinIsr, ReplicaCoverage, Redundancy, IsrSizes, Brokers),
    *parameters(Electorate),
)
"""The tables that ``_harmed`` reads."""


def _harmed(
    state: ShardState, together: Collection[int], terms: Terms, loss: Loss, loss_rows: Rows
) -> Mapping[Reason, Bool]:
    """A mask [P] of partitions for each reason; ``loss_rows`` are the rows of ``loss`` here."""
    assignment, roles, partitions = state[Assignment], state[Roles], state[Partitions]
    mine = whatif.on_brokers(assignment.broker, together) & roles.is_assigned
    members = in_isr(roles)
    away = away_replicas(whatif.electorate_of(state), state[Brokers], state.observed_at_ms)
    left = count_slots(members & ~away & ~mine)
    # What a reassignment still adds cannot stand in yet, unless it is in sync already.
    least, expected = state[LeaderMinIsr].min_isr.copy(), state[IsrSizes].expected
    least[loss_rows] = loss.min_isr
    # A broker that is already out costs nothing, even as the last member of an ISR.
    leaves = any_slot(members & state[Candidates].is_acceptable & mine)
    falls_short = np.zeros(len(left), bool)
    falls_short[loss_rows] = leaves[loss_rows] & loss.under_min_isr
    no_spare = falls_short & (expected <= least)
    goal = np.minimum(least + terms.margin, np.maximum(expected.astype(np.int64) - 1, 0))
    leads = whatif.on_brokers(partitions.leader[loss_rows], together)
    outcome, coverage = (np.full(len(left), UNKNOWN, np.int64) for _ in range(2))
    outcome[loss_rows[leads]] = loss.kafka.outcome[leads]
    coverage[loss_rows[leads]] = loss.kafka.coverage[leads]
    cold_now = any_slot(roles.is_leader & (state[ReplicaCoverage].coverage == Coverage.COLD))
    one = leaves & (left == 0) & (expected == 1)
    is_accepted = state[Redundancy].redundancy == Spare.ONE_REPLICA_ACCEPTED
    return {
        Reason.OFFLINE: (outcome == Outcome.NONE) & ~one,
        Reason.OUTSIDE_ISR: np.isin(outcome, (Outcome.ELR, Outcome.LAST_KNOWN, Outcome.UNCLEAN)),
        Reason.UNDER_MIN_ISR: falls_short & ~no_spare & ~one,
        Reason.UNDER_MARGIN: leaves & (left >= least) & (left < goal),
        Reason.COLD: (coverage == Coverage.COLD) & ~cold_now,
        Reason.ONE_REPLICA: one & ~is_accepted,
        Reason.ONE_REPLICA_ACCEPTED: one & is_accepted,
        Reason.NO_SPARE_REPLICA: no_spare & ~one,
    }


def of_loads(
    states: Sequence[ShardState],
    together: Collection[int],
    losses: Sequence[Loss] | None = None,
    peaks: CarriedPeaks | None = None,
) -> Names:
    """Brokers that would carry more than their capacity, where one is configured."""
    names = above_capacity(states, together, losses, peaks)
    return {Reason.OVER_CAPACITY: names} if names else {}


def of_disks(own: ShardState | None, together: Collection[int]) -> Names:
    """Those of the brokers of which a disk would be full by the time they are back."""
    if own is None:
        return {}
    forecasts = own[DiskForecasts]
    within_ms = np.full(len(forecasts.broker), BACK_WITHIN_MS)
    near = forecasts.is_near(within_ms, own.observed_at_ms) & forecasts.is_current
    brokers = np.unique(forecasts.broker[near & np.isin(forecasts.broker, list(together))])
    return {Reason.FULL_DISK: _broker_names(brokers)} if len(brokers) else {}


def outside_isr(state: ShardState, together: Collection[int]) -> Counter[int]:
    """The number of replicas outside their ISR on each other broker, without those being added."""
    roles, broker = state[Roles], state[Assignment].broker
    described = (state[Partitions].described_at_ms != UNKNOWN)[:, None]
    is_added = has_flag(state[Replicas].replica_flags, ReplicaFlags.ADDING)
    outside = described & roles.is_assigned & ~roles.in_isr & ~is_added
    outside &= ~whatif.on_brokers(broker, together)
    return Counter(broker[outside].tolist())


def not_in_sync(shards: Iterable[Counter[int]]) -> Names:
    """Other brokers that are missing from ISRs of their replicas, with the number of partitions."""
    counts = sum(shards, Counter[int]())
    names = [f"broker {b} ({counted(n, 'partition')})" for b, n in sorted(counts.items())]
    return {Reason.BROKER_NOT_IN_SYNC: names} if names else {}


def leadership_count(state: ShardState, together: Collection[int]) -> int:
    """The number of partitions that those brokers lead."""
    return int(whatif.on_brokers(state[Partitions].leader, together).sum())


def of_brokers(brokers: Brokers, together: Collection[int]) -> Names:
    """Other brokers that are out, and brokers that do not answer although they are not out."""
    out = _is_out(brokers)
    others = ~np.isin(brokers.broker, list(together))
    silent = ~brokers.answered & ~out
    named = {
        Reason.BROKER_OUT: _broker_names(brokers.broker[out & others]),
        Reason.BROKER_SILENT: _broker_names(brokers.broker[silent]),
    }
    return {reason: names for reason, names in named.items() if names}


def holding_nothing(states: Iterable[ShardState], brokers: Brokers) -> Bool:
    """[B] those that are out and hold no replica: nothing waits for them, however long they stay.

    ``states`` are all shards of the cluster.
    """
    is_idle = _is_out(brokers)
    for state in states:
        if is_idle.any():
            held = state[Assignment].broker[state[Roles].is_assigned]
            is_idle[is_idle] = ~np.isin(brokers.broker[is_idle], held)
    return is_idle


def is_out(states: Iterable[ShardState], broker: int) -> bool:
    """The broker is fenced, or not listed."""
    brokers = newest_brokers(states)
    return bool(_is_out(brokers)[brokers.broker == broker].any())


def _is_out(brokers: Brokers) -> Bool:
    return ~brokers.listed | (brokers.fenced == 1)


def of_quorum(quorum: ControllerQuorum, together: Collection[int]) -> Names:
    """Whether the controllers have a majority without these nodes, if one is a controller."""
    voters = quorum.node[quorum.node != NO_BROKER]
    if not len(quorum.node):
        return {Reason.QUORUM_UNKNOWN: ("its voters",)}
    leaves = np.isin(quorum.node, list(together))
    if not leaves.any():
        return {}
    if len(voters) <= 2:
        return {Reason.SMALL_QUORUM: _voter_names(voters)}
    is_behind = behind(quorum)
    if is_behind is None:
        return {Reason.QUORUM_UNKNOWN: ("how far its voters are behind",)}
    left = (~is_behind & ~leaves).sum()
    if left > len(voters) // 2:
        return {}
    return {Reason.QUORUM: _voter_names(quorum.node[is_behind]) or _voter_names(voters)}


def combined(parts: Iterable[Names]) -> Names:
    """All reasons, in their order, with the names of every part."""
    listed = list(parts)
    together = {reason: [n for part in listed for n in part.get(reason, ())] for reason in Reason}
    return {reason: names for reason, names in together.items() if names}


def _partition_names(state: ShardState, mask: Bool) -> list[str]:
    row = np.flatnonzero(mask)
    if not len(row):
        return []
    index = state[PartitionIndex]
    topics = state[Topics].topic[index.topic_index[row]].tolist()
    numbers = index.partition[row].tolist()
    return [f"{topic}-{number}" for topic, number in zip(topics, numbers, strict=True)]


def _broker_names(brokers: Array) -> list[str]:
    return [f"broker {broker}" for broker in brokers.tolist()]


def _voter_names(voters: Array) -> list[str]:
    return [f"controller {node}" for node in voters.tolist()]
