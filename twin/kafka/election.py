"""How the Kafka 4.x controller elects a leader, for many partitions at once.

Knows the order in which the controller tries candidates (PartitionChangeBuilder.electLeader).
Knows nothing of where the numbers come from, what time it is, or what anyone does with the answer.

Rows are partitions; columns are replica slots in assignment order, so slot 0 is the preferred
replica. A slot with no replica holds NO_BROKER. Every function takes and returns whole tables: one
call elects for a thousand partitions or for one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twin.arrays.slots import any_slot, in_slots
from twin.declarations.table import NO_BROKER, Array

Slots = NDArray[np.bool_]  # [partitions, slots]


class ElectionKind(IntEnum):
    """The controller's kinds of elections."""

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


OUTCOME_WORDS: Final = {
    "clean": "in sync",
    "elr": "eligible (ELR)",
    "last_known": "last known leader",
    "unclean": "unclean",
    "none": "nobody",
}
"""Who leads then, for a person: by the command line, the console and Grafana alike."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The controller's input of an election, for many partitions at once."""

    broker: NDArray[np.int32]  # [partitions, slots] broker id, or NO_BROKER
    acceptable: Slots  # registered, not fenced, not shutting down, log directory online
    in_isr: Slots
    in_elr: Slots
    leader: NDArray[np.int32]  # [partitions] current leader, or NO_BROKER
    last_known_leader: NDArray[np.int32]  # [partitions] sole member of lastKnownElr, or NO_BROKER

    def rows(self, row: Array) -> ElectionState:
        """The state of those partitions."""
        columns = (getattr(self, field.name) for field in fields(ElectionState))
        return ElectionState(*(values.take(row, axis=0) for values in columns))


def elect(
    state: ElectionState, kind: ElectionKind, preference: NDArray[np.int16] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Elect a leader for every row of the state.

    Args:
        state: the state the controller would see.
        kind: which election is held.
        preference: [partitions, slots] slot numbers, the preferred one first; in the order of
            the assignment if omitted.

    Returns:
        The elected broker ([partitions], NO_BROKER where none can lead) and its Outcome
        ([partitions]).

    Source: metadata/.../controller/PartitionChangeBuilder.java, Kafka 4.3.
    """
    if preference is not None:
        state = _reordered(state, preference)

    clean: Slots = state.acceptable & state.in_isr
    leads_now: Slots = state.broker == in_slots(state.leader, state.broker.shape[1])
    last_known = np.zeros_like(clean)
    without_isr = np.flatnonzero(~any_slot(state.in_isr))
    if len(without_isr):  # of few: only then is the ELR consulted
        few = state.rows(without_isr)
        clean[without_isr] = few.acceptable & few.in_elr
        # lastKnownElr is consulted only when nobody is left in either set.
        is_last = few.broker == few.last_known_leader[:, None]
        last_known[without_isr] = few.acceptable & is_last & ~any_slot(few.in_elr)[:, None]

    # The candidates in the order the controller asks them; the first that answers wins.
    slot = np.full(len(state.broker), NO_BROKER, np.intp)
    outcome = np.full(len(state.broker), Outcome.NONE, np.int8)

    def elect_from(candidates: Slots, answer: Outcome) -> None:
        if not candidates.any():
            return
        row = np.flatnonzero((slot == NO_BROKER) & any_slot(candidates))
        slot[row] = candidates.take(row, axis=0).argmax(axis=1)
        outcome[row] = answer

    if kind is ElectionKind.PREFERRED:
        elect_from(clean & (np.arange(clean.shape[1]) == 0), Outcome.CLEAN)
    # A valid leader keeps the partition: no order of preference evicts it.
    elect_from(clean & leads_now, Outcome.CLEAN)
    elect_from(clean, Outcome.CLEAN)
    elect_from(last_known, Outcome.LAST_KNOWN)
    if kind is ElectionKind.UNCLEAN:
        elect_from(state.acceptable, Outcome.UNCLEAN)

    elected = np.where(slot == NO_BROKER, NO_BROKER, pick_slot(state.broker, slot))
    outcome[without_isr[outcome[without_isr] == Outcome.CLEAN]] = Outcome.ELR
    return elected.astype(np.int32), outcome


def _reordered(state: ElectionState, preference: NDArray[np.int16]) -> ElectionState:
    def reorder(table: NDArray[Any]) -> NDArray[Any]:
        return np.take_along_axis(table, preference.astype(np.intp), axis=1)

    return ElectionState(
        broker=reorder(state.broker),
        acceptable=reorder(state.acceptable),
        in_isr=reorder(state.in_isr),
        in_elr=reorder(state.in_elr),
        leader=state.leader,
        last_known_leader=state.last_known_leader,
    )


def pick_slot(table: NDArray[Any], slot: NDArray[Any]) -> NDArray[Any]:
    """[P] the value of one slot of each row."""
    return table[np.arange(len(table)), slot]
