"""What each broker would carry after a loss, of a shard; and which would carry too much.

Shards add up. ``twin.rules.load`` has the sums and the forecast; here are the election rules, and
the loss of several brokers at once, whose leaders are those of ``whatif.lose``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final

import numpy as np

from twin.arrays.slots import any_slot
from twin.declarations.signature import parameters
from twin.declarations.table import KAFKA, NO_BROKER, Float64, Int32, Rows
from twin.engine.shard_state import ShardState
from twin.questions.whatif import Loss, lose, on_brokers
from twin.rules.election.ballots import Ballot
from twin.rules.election.next_leader import NextLeaders
from twin.rules.load.amounts import IN, OUT, Amounts
from twin.rules.load.capacity import capacities, is_limited
from twin.rules.load.forecast import at_once, exceeds, measured
from twin.rules.load.peaks import CarriedPeaks
from twin.rules.load.shifts import Carried, LoadTables, Shifts
from twin.tables.state import BrokerMetrics, Brokers, Partitions

_TABLES: Final = parameters(LoadTables)


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """What the brokers of a shard carry [Q, B], and what shifts by each election rule."""

    now: Amounts
    shifts: Mapping[str, Shifts]

    def __add__(self, other: Load) -> Load:
        shifts = {rule: each + other.shifts[rule] for rule, each in self.shifts.items()}
        return Load(self.now + other.now, shifts)


def load_in_turn(state: ShardState, broker: Int32) -> Load:
    """What shifts if each broker is lost in turn; ``broker``: [B] all ids, ascending."""
    carried = _carried(state, broker)
    leaders = {KAFKA: carried.next_leaders(state[NextLeaders])}
    for rule in state.catalog.election_rules:
        if rule != KAFKA:
            following = state[NextLeaders.under(rule)]
            leaders[rule] = carried.next_leaders(following, state[Ballot.under(rule)])
    return _load(carried, leaders)


def load_at_once(
    state: ShardState, broker: Int32, gone: Collection[int], loss: Loss, rules: Iterable[str]
) -> Load:
    """What shifts if those brokers are lost at once; ``loss`` is their loss in this shard."""
    carried = _carried(state, broker, gone)
    leaders = {}
    for rule in rules:
        leader = state[Partitions].leader.copy()
        leader[loss.row] = loss.next_leaders[rule].leader
        leaders[rule] = leader
    return _load(carried, leaders)


def _carried(state: ShardState, broker: Int32, gone: Collection[int] | None = None) -> Carried:
    tables = LoadTables(**state.arguments(_TABLES))
    electorate = tables.electorate
    lost = None
    if gone is not None:
        lost = on_brokers(electorate.assignment.broker, gone) & electorate.roles.is_assigned
    return Carried(tables, broker, state.observed_at_ms, lost)


def _load(carried: Carried, leaders: Mapping[str, Int32]) -> Load:
    kafka = carried.shifts(leaders[KAFKA])
    shifts = {
        rule: kafka if rule == KAFKA else carried.with_other_leaders(kafka, leaders[KAFKA], leader)
        for rule, leader in leaders.items()
    }
    return Load(carried.now(), shifts)


def peaks_of(cluster: ShardState | None) -> CarriedPeaks:
    """The peaks of all brokers, from the cluster's own shard; empty while that shard is unknown."""
    return CarriedPeaks.empty() if cluster is None else cluster[CarriedPeaks]


def above_capacity(
    states: Sequence[ShardState],
    gone: Collection[int],
    losses: Sequence[Loss] | None = None,
    peaks: CarriedPeaks | None = None,
) -> list[str]:
    """The survivors that would carry more than their capacity, and how much, as texts.

    A part that is unknown counts as nothing. Without a capacity nothing is computed.
    """
    capacity = _capacities(states, peaks)
    if not gone or capacity is None:
        return []
    if losses is None:
        losses = [lose(state, gone) for state in states]
    broker = _brokers(states)
    load = reduce(
        add,
        (
            load_at_once(state, broker, gone, loss, (KAFKA,))
            for state, loss in zip(states, losses, strict=True)
        ),
    )
    above = _above(states, capacity, load.now, load.shifts[KAFKA])
    return [text_of_share(*each) for each in above.items() if each[0] not in gone]


def above_capacity_after_moves(
    states: Sequence[ShardState],
    moves: Iterable[tuple[Rows, Int32]],
    peaks: CarriedPeaks | None = None,
) -> dict[int, float]:
    """The brokers that would carry more than their capacity, and which share of it.

    A part that is unknown counts as nothing. Without a capacity nothing is computed.

    Args:
        states: all shards.
        moves: for each shard, partitions and who leads them then; no replica is lost.
        peaks: the most that brokers carried; a capacity may be a percentage of it.
    """
    capacity = _capacities(states, peaks)
    if capacity is None:
        return {}
    broker = _brokers(states)
    now, shifts = [], []
    for state, (row, leader) in zip(states, moves, strict=True):
        carried = _carried(state, broker, ())
        leaders = state[Partitions].leader.copy()
        is_moved = (leaders[row] != leader) & (leaders[row] != NO_BROKER)
        leaders[row] = leader
        now.append(carried.now())
        shifts.append(carried.shifts_of_leaders(row[is_moved], leaders))
    return _above(states, capacity, reduce(add, now), reduce(add, shifts))


def text_of_share(broker: int, share: float) -> str:
    """``broker 3 (130 % of its capacity)``."""
    return f"broker {broker} ({share:.0%} of its capacity)".replace("%", " %")


def _newest(states: Sequence[ShardState]) -> ShardState | None:
    return max(states, key=lambda state: state.observed_at_ms, default=None)


def _brokers(states: Sequence[ShardState]) -> Int32:
    newest = _newest(states)
    assert newest is not None
    return np.unique(newest[Brokers].broker)


def _capacities(states: Sequence[ShardState], peaks: CarriedPeaks | None) -> Float64 | None:
    """[Q, B] the capacity of every broker; None if there is none."""
    newest = _newest(states)
    if newest is None or not is_limited(newest[Brokers]):
        return None
    known = CarriedPeaks.empty() if peaks is None else peaks
    each = capacities(newest[Brokers], _brokers(states), known, newest.observed_at_ms)
    return None if np.isnan(each).all() else each


def _above(
    states: Sequence[ShardState], capacity: Float64, now: Amounts, shifts: Shifts
) -> dict[int, float]:
    """For each broker that all these shifts bring above its capacity, its load as a share of it."""
    newest, broker = _newest(states), _brokers(states)
    assert newest is not None
    by_brokers = measured(newest[BrokerMetrics], broker, newest.observed_at_ms)
    forecast = at_once(now, shifts, by_brokers)
    above = exceeds(forecast, capacity)[0][:, 0]
    share = np.where(above, forecast.then.known[:, 0] / capacity, 0.0)
    return {
        int(broker[i]): float(share[[IN, OUT], i].max()) for i in np.flatnonzero(any_slot(above.T))
    }
