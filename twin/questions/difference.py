"""What differs between two states of one shard: leaders, ISRs, assignments, risks, settings.

Partitions are matched by topic id and number, since rows move when others come and go. A partition
that one of the states does not know the description of is not compared: unknown is no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from twin.arrays import plain
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Int32, Int64, Rows
from twin.engine.risks import OpenRisks
from twin.engine.rows import common_rows
from twin.engine.shard_state import ShardState
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, Configs, Partitions, Replicas

_NO_SETTINGS: Final = ("topic", "configured_at_ms")

Setting = tuple[Any, Any]
"""A value before and after; None where it is unknown, or unlimited."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The partitions of a shard that differ: [N] arrays, a row a partition that is in both."""

    before: ShardState
    after: ShardState
    old_row: Rows  # its row in ``before``
    row: Rows  # its row in ``after``
    leader: Bool  # another leader
    isr: Bool  # another set of replicas is in sync
    replicas: Bool  # another assignment, or another order of it
    opened: Int64  # risks that are open after, and were not, as bits
    closed: Int64  # the other way round
    came: Rows  # [A] rows of ``after`` that were not there
    went: Rows  # [G] rows of ``before`` that are no longer there
    compared: int  # partitions that were compared
    not_compared: int  # in both, but not described in one of them


def difference(before: ShardState, after: ShardState) -> Difference:
    """What differs between two states of the same shard."""
    was_row = common_rows(before, after)
    new = np.flatnonzero(was_row != UNKNOWN)
    old = was_row[new]
    was, now = before[Partitions], after[Partitions]
    known = was.described_at_ms[old] != UNKNOWN
    known &= now.described_at_ms[new] != UNKNOWN
    old, new = old[known], new[known]
    leader = was.leader[old] != now.leader[new]
    isr = _differ(isr_of(before)[old], isr_of(after)[new])
    replicas = _differ(assignment_of(before)[old], assignment_of(after)[new])
    bits_before, bits_after = before[OpenRisks].bits[old], after[OpenRisks].bits[new]
    differs = leader | isr | replicas | (bits_before != bits_after)
    return Difference(
        before, after, old[differs], new[differs], leader[differs], isr[differs],
        replicas[differs], (bits_after & ~bits_before)[differs],
        (bits_before & ~bits_after)[differs],
        came=np.flatnonzero(was_row == UNKNOWN),
        went=np.setdiff1d(np.arange(before.partitions), was_row),
        compared=len(new),
        not_compared=int((~known).sum()),
    )  # fmt: skip


def assignment_of(state: ShardState) -> Int32:
    """[P, R] brokers in the order of the assignment, NO_BROKER behind them."""
    is_assigned = np.arange(state.slots) < state[Partitions].assigned[:, None]
    return np.where(is_assigned, state[Assignment].broker, np.int32(NO_BROKER))


def isr_of(state: ShardState) -> Int32:
    """[P, R] brokers in the ISR by id, NO_BROKER behind them."""
    is_in = (state[Replicas].replica_flags & ReplicaFlags.IN_ISR) != 0
    largest = np.iinfo(np.int32).max  # sorts behind every broker
    assigned = assignment_of(state)
    brokers = np.sort(np.where(is_in & (assigned != NO_BROKER), assigned, largest), axis=1)
    return np.where(brokers == largest, np.int32(NO_BROKER), brokers)


def settings(before: ShardState, after: ShardState) -> Mapping[str, Mapping[str, Setting]]:
    """By topic, the settings that differ; the empty name has those of the cluster.

    A topic whose settings one of the states does not know is not compared.
    """
    was, now = before[Configs], after[Configs]
    topics, old, new = np.intersect1d(was.topic, now.topic, return_indices=True)
    changed: dict[str, dict[str, Setting]] = {}
    for column in Configs.columns:
        if column.name in _NO_SETTINGS:
            continue
        values = getattr(was, column.name)[old], getattr(now, column.name)[new]
        at = np.flatnonzero(values[0] != values[1])
        pairs = zip(*(plain.column_values(column, each[at]) for each in values), strict=True)
        for topic, pair in zip(topics[at].tolist(), pairs, strict=True):
            changed.setdefault(topic, {})[column.name] = pair
    return changed


def _differ(one: Array, other: Array) -> Bool:
    """[N] whether rows differ; what one is wider by must have no brokers."""
    narrow = min(one.shape[1], other.shape[1])
    differs: Bool = (one[:, :narrow] != other[:, :narrow]).any(axis=1)
    for each in (one, other):
        differs |= (each[:, narrow:] != NO_BROKER).any(axis=1)
    return differs
