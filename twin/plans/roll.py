"""A rolling restart: which brokers may go down together, and in which order.

A batch is one broker, or brokers of one rack. Every batch passes the gate in the state that the
plan was made from: whoever follows the plan waits until all replicas are in sync again, and then
makes a new one, since leaders have moved. The batch of the active controller comes last, so that
it moves once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from twin.engine.shard_state import ShardState
from twin.plans.restart_cost import RestartCosts, restart_costs, total_costs
from twin.questions import gate, whatif
from twin.questions.gate import Names, Terms
from twin.questions.quorum import newest_quorum
from twin.questions.whatif import Loss
from twin.questions.whatif_groups import HurtGroup, hurt_by_loss, together
from twin.rules.partitions.leaders import Roles
from twin.tables.state import Assignment

NO_RACK: Final = ""


@dataclass(frozen=True, slots=True)
class RestartBatch:
    """Brokers that may be restarted together."""

    brokers: tuple[int, ...]
    rack: str  # the rack of all of them, empty if unknown
    allowed: Names  # reasons against it that the terms allow
    costs: RestartCosts
    hurt: tuple[HurtGroup, ...] = ()  # groups of consumers, the worst first


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A broker that may not be restarted in the present state."""

    broker: int
    reasons: Names


@dataclass(frozen=True, slots=True)
class Roll:
    """Every requested broker: either in one batch, or left out."""

    batches: tuple[RestartBatch, ...]
    left_out: tuple[LeftOut, ...]


def roll(
    states: Sequence[ShardState],
    targets: Collection[int],
    terms: Terms,
    by_rack: bool = False,
    most: int | None = None,
    own: ShardState | None = None,
) -> Roll:
    """The plan for those brokers; ``states`` are all shards of the cluster.

    Args:
        states: the states of all shards.
        targets: the brokers to restart.
        terms: the margin and the allowed reasons, as for the gate.
        by_rack: a batch may be several brokers of one rack; one broker otherwise.
        most: the largest number of brokers in a batch.
        own: the cluster's own shard, as the gate reads it.
    """
    alone: dict[int, Names] = {}
    costs: dict[tuple[int, ...], RestartCosts] = {}
    hurt: dict[tuple[int, ...], tuple[HurtGroup, ...]] = {}
    for broker in sorted(targets):
        losses = [whatif.lose(state, [broker]) for state in states]  # used by both calls
        alone[broker] = gate.reasons(states, [broker], terms, losses, own=own)
        if not _blocking(alone[broker], terms):
            costs[broker,] = _costs(states, [broker], losses)
            hurt[broker,] = _hurt(states, [broker], losses)
    able = [broker for (broker,) in costs]
    last = _active_controllers(states)
    racks = _racks(states)
    batches: list[tuple[int, ...]] = []
    if by_rack:
        in_order = sorted(able, key=lambda b: (racks.get(b, NO_RACK), b in last, b))
        for rack, brokers in groupby(in_order, key=lambda b: racks.get(b, NO_RACK)):
            limit = 1 if rack == NO_RACK else most
            batches += _together(states, list(brokers), terms, limit, own)
    else:
        batches = [(broker,) for broker in able]
    batches.sort(key=lambda batch: not last.isdisjoint(batch))

    def judged(brokers: tuple[int, ...]) -> RestartBatch:
        rack = racks.get(brokers[0], NO_RACK)
        if len(brokers) == 1:
            return RestartBatch(brokers, rack, alone[brokers[0]], costs[brokers], hurt[brokers])
        losses = [whatif.lose(state, brokers) for state in states]
        against = gate.reasons(states, brokers, terms, losses, own=own)
        each = _costs(states, brokers, losses), _hurt(states, brokers, losses)
        return RestartBatch(brokers, rack, against, *each)

    left_out = (LeftOut(b, _blocking(alone[b], terms)) for b in alone if b not in able)
    return Roll(tuple(map(judged, batches)), tuple(left_out))


def _costs(
    states: Sequence[ShardState], brokers: Sequence[int], losses: Sequence[Loss]
) -> RestartCosts:
    each = zip(states, losses, strict=True)
    return total_costs(restart_costs(state, brokers, loss) for state, loss in each)


def _hurt(
    states: Sequence[ShardState], brokers: Sequence[int], losses: Sequence[Loss]
) -> tuple[HurtGroup, ...]:
    each = zip(states, losses, strict=True)
    return tuple(together(hurt_by_loss(state, brokers, loss) for state, loss in each))


def _together(
    states: Sequence[ShardState],
    brokers: Sequence[int],
    terms: Terms,
    most: int | None,
    own: ShardState | None,
) -> Iterator[tuple[int, ...]]:
    """Split brokers, each of which may be restarted alone, into batches that may go together."""
    # A partition on only one of them loses no more by a batch than by that broker alone.
    shared = [_shared_partitions(state, brokers) for state in states]
    waiting = list(brokers)

    def blocks(batch: Sequence[int]) -> bool:
        return bool(_blocking(gate.reasons(shared, batch, terms, whole=states, own=own), terms))

    while waiting:
        batch = waiting[:most]
        if blocks(batch):
            batch = waiting[:1]
            for broker in waiting[1:]:
                if len(batch) == most:
                    break
                more = [*batch, broker]
                if not blocks(more):
                    batch.append(broker)
        waiting = [broker for broker in waiting if broker not in batch]
        yield tuple(batch)


def _shared_partitions(state: ShardState, brokers: Sequence[int]) -> ShardState:
    """The partitions that more than one of the brokers hold."""
    is_replica = np.isin(state[Assignment].broker, brokers) & state[Roles].is_assigned
    return state.take(np.flatnonzero(is_replica.sum(axis=1) > 1))


def _blocking(against: Names, terms: Terms) -> Names:
    """The reasons that the terms do not allow."""
    return {reason: names for reason, names in against.items() if not terms.allows(reason)}


def _active_controllers(states: Sequence[ShardState]) -> frozenset[int]:
    """The active controller; empty if unknown."""
    quorum = newest_quorum(states)
    return frozenset(quorum.node[quorum.is_active].tolist())


def _racks(states: Sequence[ShardState]) -> dict[int, str]:
    brokers = gate.newest_brokers(states)
    return dict(zip(brokers.broker.tolist(), map(str, brokers.rack.tolist()), strict=True))
