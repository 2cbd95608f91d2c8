"""The placement of a whole cluster, with the places of its shards in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from streaming.plans.plan import Key, partition_keys
from streaming.questions.answer import brokers_of
from streaming.runtime.quantities import size_text
from twin.arrays.plain import counted
from twin.arrays.slots import any_slot
from twin.declarations.table import NO_BROKER, UNKNOWN, Float64, Int32, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.plans.placement import Placement, Reach, placement
from twin.questions.incoming import copied_bytes
from twin.rules.brokers.racks import rack_names, racks_of
from twin.tables.state import Brokers

HEADER: Final = ("what is lost", "under min ISR", "offline", "then under min ISR", "then offline")


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """The partitions of all shards, one after the other."""

    states: Sequence[ShardState]
    broker: Int32  # [B] ids, ascending
    brokers: Brokers
    racks: Sequence[str]
    placement: Placement

    @classmethod
    def of(cls, states: Sequence[ShardState]) -> Placed:
        """The placement of these shards, of which there is at least one."""
        newest = max(states, key=lambda state: state.observed_at_ms)
        brokers = newest[Brokers]
        ids = np.array(brokers_of(states), np.int32)
        where = placement(states, ids, racks_of(brokers, ids))
        return cls(states, ids, brokers, rack_names(brokers), where)

    def copied_bytes(self) -> Float64:
        """[P] bytes that a new replica copies; NaN where that is unknown."""
        return np.concatenate([copied_bytes(state) for state in self.states])

    def shards(self, row: Rows) -> Iterator[tuple[ShardState, Rows]]:
        """Each shard, with those of the ascending rows that are in it, counted from its first."""
        first = 0
        for state in self.states:
            last = first + state.partitions
            yield state, row[(row >= first) & (row < last)] - first
            first = last

    def new_replicas(self, then: Placement) -> list[tuple[ShardState, Rows, Int32]]:
        """Of each shard the partitions [N] that get new replicas, and [N, A] their brokers."""
        new = np.where(self.placement.is_added(then), then.place, UNKNOWN)
        row = np.flatnonzero(any_slot(new != UNKNOWN))
        brokers, replicas, first = self.ids(new[row]), [], 0
        for state, rows in self.shards(row):
            replicas.append((state, rows, brokers[first : first + len(rows)]))
            first += len(rows)
        return replicas

    def keys(self) -> list[Key]:
        """[P] topic and number of each partition."""
        every = [partition_keys(state, np.arange(state.partitions)) for state in self.states]
        return [key for keys in every for key in keys]

    def ids(self, place: Int64) -> Int32:
        """The broker ids of places, of any shape; NO_BROKER where there is no replica."""
        return np.append(self.broker, NO_BROKER)[place]


def reach_rows(now: Reach, then: Reach) -> list[tuple[str, int, int, int, int]]:
    """One row below ``HEADER`` for each kind of loss."""
    kinds = {
        "one broker": "by_one",
        "one rack": "by_rack",
        "a rack and one broker": "by_rack_and_one",
        "the worst pair of brokers": "worst_pair",
    }
    return [(text, *getattr(now, name), *getattr(then, name)) for text, name in kinds.items()]


def copied_line(copied: Float64) -> str:
    """The sentence about [N] new replicas and the bytes that each copies; NaN: unknown."""
    unknown = int(np.isnan(copied).sum())
    in_all = size_text(round(float(np.nansum(copied))))
    are = counted(len(copied), "replica is", "replicas are")
    return f"{are} copied, {in_all} in all" + (
        f" and {unknown} of unknown size." if unknown else "."
    )
