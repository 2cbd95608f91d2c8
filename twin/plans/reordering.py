"""New orders of replicas, and what a plan must know of a replica before it moves it.

Kafka elects leaders by the order of the assignment. A new order of the same replicas does not move
data, and does not change the leader epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from twin.declarations.table import UNKNOWN, Array, Bool, Int32, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.rules.election.next_leader import Candidates
from twin.rules.partitions.leaders import Roles, assigned_brokers, has_flag
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, Brokers, Partitions, Replicas


class Obstacle(Enum):
    """Why a plan leaves partitions as they are; the value follows their number in a sentence."""

    NOT_DESCRIBED = "not described by the controller yet"
    REASSIGNING = "being reassigned"
    PREFERRED_COLD = "with a cold preferred replica (only --preferred changes that)"
    LED_COLD = "led by a cold replica (leader balancing elects the preferred one)"
    SILENT = "with a replica on a broker that does not answer (its offsets may be old)"
    NOT_IN_SYNC = "with a replica that is not in sync or does not answer (it has to catch up first)"
    NO_WARM = "without another replica that is in sync and warm"


@dataclass(frozen=True, slots=True)
class Reordering:
    """[N] partitions whose replicas get another order; the sets stay the same."""

    row: Rows
    before: Int32  # [N, R] brokers in assignment order, NO_BROKER behind the last
    after: Int32  # [N, R]


def reordering(state: ShardState, slot: Int64, row: Rows | None = None) -> Reordering:
    """The orders that the slots [P, R] give to those rows; by default, to all rows they change."""
    if row is None:
        row = np.flatnonzero((slot != np.arange(slot.shape[1])).any(axis=1))
    before = assigned_brokers(state[Assignment], state[Roles])[row]
    return Reordering(row, before, np.take_along_axis(before, slot[row], axis=1))


def sorted_within(movable: Bool, rank: Array) -> Int64:
    """[P, R] the slot to put at each place: movable slots by rank, the others as they are.

    Slots of one rank keep their order.
    """
    width = movable.shape[1]
    place = np.arange(width)
    # Slots that stay come last in both orders, each at its own place.
    left = np.where(movable, place, width + place).argsort(axis=1)
    sort_key = np.where(movable, rank * width + place, (rank.max(initial=0) + 1) * width + place)
    slot = np.empty(movable.shape, np.int64)
    np.put_along_axis(slot, left, sort_key.argsort(axis=1), axis=1)
    return slot


def is_described(state: ShardState) -> Bool:
    """[P] the controller has described the partition."""
    return state[Partitions].described_at_ms != UNKNOWN


def is_reassigning(state: ShardState) -> Bool:
    """[P] a replica is being added or removed."""
    flags = state[Replicas].replica_flags
    moving = has_flag(flags, ReplicaFlags.ADDING) | has_flag(flags, ReplicaFlags.REMOVING)
    return np.logical_or.reduce(moving & state[Roles].is_assigned, axis=1)


def has_answered(state: ShardState) -> Bool:
    """[P, R] assigned replicas on brokers that answered the newest cycle."""
    brokers = state[Brokers]
    answered = np.isin(state[Assignment].broker, brokers.broker[brokers.answered])
    return answered & state[Roles].is_assigned


def could_lead(state: ShardState) -> Bool:
    """[P, R] replicas that are in sync and that the controller would accept, as is known now."""
    able: Bool = state[Roles].in_isr & state[Candidates].is_acceptable
    return able & has_answered(state)


def is_warm(state: ShardState) -> Bool:
    """[P, R] replicas that could lead and hold enough local log."""
    warm: Bool = state[ReplicaCoverage].coverage == Coverage.WARM
    return warm & could_lead(state)
