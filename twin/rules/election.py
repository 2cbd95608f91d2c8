"""Who leads a partition after an election, and what losing its leader does to it.

Knows the order in which the Kafka 4.x controller tries candidates
(PartitionChangeBuilder.electLeader) and the order KIP-1303 proposes instead. Knows nothing of where
the numbers come from, what time it is, or what anyone does with the answer.

Rows are partitions; columns are replica slots in assignment order, so slot 0 is the preferred
replica. A slot with no replica holds NO_BROKER. Every function takes and returns whole tables: one
call elects for a thousand partitions or for one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.tables import NO_BROKER, Coverage, Slot

Slots = NDArray[np.bool_]  # [partitions, slots]


class Kind(IntEnum):
    """Which of the controller's elections is held."""

    PREFERRED = 0  # leader balancing, or an operator asked for the preferred replica
    ONLINE = 1  # the leader was lost, or a replica came back
    UNCLEAN = 2  # as ONLINE, and data loss is acceptable


class Outcome(IntEnum):
    """How safe the elected leader is, best first. The value is stored, so it never changes."""

    CLEAN = 0  # an in-sync replica
    ELR = 1  # an eligible leader replica (KIP-966): not in sync, has every committed record
    LAST_KNOWN = 2  # the last known leader: committed records may be lost
    UNCLEAN = 3  # any live replica: committed records may be lost
    NONE = 4  # the partition stays offline


class LossOutcome(IntEnum):
    """What losing its leader does to a partition, best first. Stored: values never change."""

    CLEAN_WARM = 0  # an in-sync replica with enough local log leads
    CLEAN_THIN = 1  # an in-sync replica leads, and reads from remote storage what consumers ask
    ELR = 2
    LAST_KNOWN = 3
    UNCLEAN = 4
    NONE = 5


@dataclass(frozen=True, slots=True)
class Ballot:
    """What the controller looks at when it elects, for many partitions at once."""

    broker: NDArray[np.int32]  # [partitions, slots] broker id, or NO_BROKER
    acceptable: Slots  # registered, not fenced, not shutting down, log directory online
    in_isr: Slots
    in_elr: Slots
    leader: NDArray[np.int32]  # [partitions] current leader, or NO_BROKER
    last_known_leader: NDArray[np.int32]  # [partitions] sole member of lastKnownElr, or NO_BROKER

    def rows(self, row: Array) -> Ballot:
        """The ballot of those partitions."""
        return Ballot(*(getattr(self, field.name)[row] for field in fields(Ballot)))


@dataclass(frozen=True, slots=True)
class NextLeaders:
    """[P] who leads each partition once its leader is lost, and how safe that is, by both rules."""

    kafka: Array
    kafka_outcome: Array  # LossOutcome
    kip1303: Array
    kip1303_outcome: Array


def elect(
    ballot: Ballot, kind: Kind, preference: NDArray[np.int16] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Elect a leader for every row of the ballot.

    Args:
        ballot: the state the controller would see.
        kind: which election is held.
        preference: [partitions, slots] slot numbers, most wanted first (see ``warm_first``);
            assignment order when omitted.

    Returns:
        The elected broker ([partitions], NO_BROKER where none can lead) and its Outcome
        ([partitions]).

    Source: metadata/.../controller/PartitionChangeBuilder.java, Kafka 4.3.
    """
    if preference is not None:
        ballot = _reordered(ballot, preference)

    isr_is_empty = np.logical_not(ballot.in_isr.any(axis=1))
    elr_is_empty = np.logical_not(ballot.in_elr.any(axis=1))
    clean: Slots = ballot.acceptable & (ballot.in_isr | (isr_is_empty[:, None] & ballot.in_elr))
    leads_now: Slots = ballot.broker == ballot.leader[:, None]
    # lastKnownElr is consulted only when nobody is left in either set.
    last_known: Slots = (
        ballot.acceptable
        & (ballot.broker == ballot.last_known_leader[:, None])
        & isr_is_empty[:, None]
        & elr_is_empty[:, None]
    )

    # The candidates in the order the controller asks them; the first that answers wins.
    slot = np.full(len(ballot.broker), NO_BROKER, np.intp)
    outcome = np.full(len(ballot.broker), Outcome.NONE, np.int8)

    def ask(candidates: Slots, answer: Outcome) -> None:
        open_rows = (slot == NO_BROKER) & candidates.any(axis=1)
        slot[open_rows] = candidates[open_rows].argmax(axis=1)
        outcome[open_rows] = answer

    if kind is Kind.PREFERRED:
        ask(clean & (np.arange(clean.shape[1]) == 0), Outcome.CLEAN)
    # A valid leader keeps the partition: no order of preference evicts it.
    ask(clean & leads_now, Outcome.CLEAN)
    ask(clean, Outcome.CLEAN)
    ask(last_known, Outcome.LAST_KNOWN)
    if kind is Kind.UNCLEAN:
        ask(ballot.acceptable, Outcome.UNCLEAN)

    elected = np.where(slot == NO_BROKER, NO_BROKER, _pick(ballot.broker, slot))
    outcome[(outcome == Outcome.CLEAN) & ~_pick(ballot.in_isr, slot)] = Outcome.ELR
    return elected.astype(np.int32), outcome


def warm_first(eligible: Slots) -> NDArray[np.int16]:
    """[P, R] slots in KIP-1303's order: enough local log first, assignment order within each.

    Thin replicas are moved back, never removed: a partition with only thin replicas still elects.
    """
    return np.argsort(~eligible, axis=1, kind="stable").astype(np.int16)


def next_leaders(fleet: Fleet) -> NextLeaders:
    """What the controller would do now if each partition's leader were fenced.

    A partition without a leader is asked as it stands. Reads the fleet's ``coverage`` column.
    Source: ReplicationControlManager.generateLeaderAndIsrUpdates and PartitionChangeBuilder.build,
    Kafka 4.3.
    """
    return leaders_without(fleet, fleet.leads)


def leaders_without(fleet: Fleet, lost: Slots) -> NextLeaders:
    """Who would lead each partition if the brokers of those replicas [P, R] were fenced at once.

    A leader that is not among them stays. A partition that loses nobody is asked as it stands.
    """
    ballot = _without(fleet, lost)
    unclean = fleet.topic_setting("unclean_leader_election") == 1
    thin = fleet.coverage == Coverage.THIN
    kafka, kafka_outcome = _elect(ballot, unclean, thin, None)

    # Where nobody is thin KIP-1303 sorts nothing, so only the other rows are held again.
    kip1303, kip1303_outcome = kafka.copy(), kafka_outcome.copy()
    row = np.flatnonzero((thin & fleet.present).any(axis=1))
    if len(row):
        kip1303[row], kip1303_outcome[row] = _elect(
            ballot.rows(row), unclean[row], thin[row], warm_first(~thin[row])
        )
    return NextLeaders(kafka, kafka_outcome, kip1303, kip1303_outcome)


def acceptable(fleet: Fleet) -> Slots:
    """[P, R] the controller would take the replica as leader: registered, unfenced, disk online.

    Source: ReplicationControlManager.LeaderAcceptor.
    """
    able: Slots = fleet.present & ~fleet.marked(Slot.OFFLINE)
    if len(fleet.brokers.broker):
        active = fleet.brokers.broker[fleet.brokers.fenced != 1]
        able &= np.isin(fleet.broker, active)
    return able


def effective_min_isr(fleet: Fleet) -> NDArray[np.int64]:
    """[P] min.insync.replicas, never above the replication of the topic's first partition.

    Unknown counts as Kafka's default of 1. Source: ReplicationControlManager
    .getTopicEffectiveMinIsr.
    """
    told = np.maximum(fleet.topic_setting("min_insync_replicas"), 1)
    first = np.searchsorted(fleet.topic_index, fleet.topic_index)
    return np.minimum(told, np.maximum(fleet.assigned[first], 1))


def as_it_stands(fleet: Fleet) -> Ballot:
    """The ballot with nobody lost: what leader balancing looks at."""
    return Ballot(
        broker=np.where(fleet.present, fleet.broker, NO_BROKER),
        acceptable=acceptable(fleet),
        in_isr=fleet.marked(Slot.IN_ISR) & fleet.present,
        in_elr=fleet.marked(Slot.IN_ELR) & fleet.present,
        leader=fleet.leader,
        last_known_leader=_last_known_leader(fleet),
    )


def _without(fleet: Fleet, lost: Slots) -> Ballot:
    """The ballot once those are fenced: out of the ISR, perhaps in the ELR."""
    in_isr = fleet.marked(Slot.IN_ISR) & fleet.present
    left = in_isr & ~lost
    elr = np.zeros_like(in_isr)
    if fleet.setting("elr_enabled") == 1:
        # maybePopulateTargetElr: below min ISR, who leaves the ISR stays eligible.
        short = left.sum(axis=1) < effective_min_isr(fleet)
        elr = short[:, None] & (in_isr | (fleet.marked(Slot.IN_ELR) & fleet.present)) & ~left
    led_by_lost = (fleet.leads & lost).any(axis=1)
    return Ballot(
        broker=np.where(fleet.present, fleet.broker, NO_BROKER),
        acceptable=acceptable(fleet) & ~lost,
        in_isr=left,
        in_elr=elr,
        leader=np.where(led_by_lost, NO_BROKER, fleet.leader).astype(np.int32),
        last_known_leader=_last_known_leader(fleet),
    )


def _last_known_leader(fleet: Fleet) -> Array:
    last = fleet.marked(Slot.LAST_KNOWN_ELR) & fleet.present
    sole = last.sum(axis=1) == 1
    return np.where(sole, _pick(fleet.broker, last.argmax(axis=1)), NO_BROKER)


def _elect(
    ballot: Ballot, unclean: Array, thin: Slots, preference: NDArray[np.int16] | None
) -> tuple[Array, Array]:
    """[P] the elected broker and its LossOutcome; ``unclean`` rows may lose data to stay online."""
    leader, outcome = elect(ballot, Kind.ONLINE, preference)
    row = np.flatnonzero(unclean & (outcome == Outcome.NONE))
    if len(row):
        leader[row], outcome[row] = elect(
            ballot.rows(row), Kind.UNCLEAN, None if preference is None else preference[row]
        )
    elected = ballot.broker == leader[:, None]
    is_thin = (elected & thin).any(axis=1) & (outcome == Outcome.CLEAN)
    return leader, np.where(is_thin, np.int8(LossOutcome.CLEAN_THIN), _LOSS_OUTCOME[outcome])


_LOSS_OUTCOME = np.zeros(len(Outcome), np.int8)
_LOSS_OUTCOME[Outcome.CLEAN] = LossOutcome.CLEAN_WARM
_LOSS_OUTCOME[Outcome.ELR] = LossOutcome.ELR
_LOSS_OUTCOME[Outcome.LAST_KNOWN] = LossOutcome.LAST_KNOWN
_LOSS_OUTCOME[Outcome.UNCLEAN] = LossOutcome.UNCLEAN
_LOSS_OUTCOME[Outcome.NONE] = LossOutcome.NONE


def _reordered(ballot: Ballot, preference: NDArray[np.int16]) -> Ballot:
    def reorder(table: NDArray[Any]) -> NDArray[Any]:
        return np.take_along_axis(table, preference.astype(np.intp), axis=1)

    return Ballot(
        broker=reorder(ballot.broker),
        acceptable=reorder(ballot.acceptable),
        in_isr=reorder(ballot.in_isr),
        in_elr=reorder(ballot.in_elr),
        leader=ballot.leader,
        last_known_leader=ballot.last_known_leader,
    )


def _pick(table: NDArray[Any], slot: NDArray[Any]) -> NDArray[Any]:
    picked: NDArray[Any] = table[np.arange(len(table)), slot]
    return picked
