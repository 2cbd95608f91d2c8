"""What polls show about replicas that left the ISR, about their leaders and their brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.declarations.signature import Before, Cycle, TableGroup
from twin.declarations.table import UNKNOWN, Bool, Int32, Int64, Rows
from twin.rules.isr.isr_verdicts import Evidence
from twin.rules.partitions.leaders import LeaderEnds, Leaders, Roles
from twin.tables.state import Assignment, BrokerMetrics, Brokers, Partitions, Replicas

SLOW_ANSWER_MS: Final = 1_000
"""Small requests are answered in a few milliseconds; followers wait at most half a second."""

BROKER_CLOCK_SKEW_MS: Final = 2_000
"""How far the clocks of brokers and collector may differ where observations of both are joined."""

FENCED_WITHIN_MS: Final = 30_000
"""A dead broker is fenced within its session, 9 s by default; later it is another story."""

STOPS_WITHIN_MS: Final = 15_000
"""A broker that shuts down in good order hands over first; three cycles see that it is silent."""


@dataclass(frozen=True, slots=True)
class Polled(TableGroup):
    """The polled tables of this cycle that shrinks are judged by."""

    partitions: Partitions
    assignment: Assignment
    replicas: Replicas
    roles: Roles
    leaders: Leaders
    brokers: Brokers
    metrics: BrokerMetrics
    previous: Before[LeaderEnds]
    cycle: Cycle

    def has(self, role: Bool, row: Int32, broker: Int32) -> Bool:
        """[N] the broker's replica of that partition has the role; ``role`` is [P, R]."""
        of_broker = role[row] & (self.assignment.broker[row] == broker[:, None])
        return of_broker.any(axis=1)


def bits(holds: Mapping[Evidence, Bool], count: int) -> Int32:
    """[N] the evidence that holds."""
    found = np.zeros(count, np.int32)
    for one, where in holds.items():
        found |= np.where(where, np.int32(one), np.int32(0))
    return found


def as_it_left(it: Polled, row: Rows, slot: Rows, leader: Int32) -> Int32:
    """[N] what the cycle in which a replica left shows of it, its leader and the others.

    Dead followers leave for reasons of their own: only live ones that leave a partition together
    are evidence against its leader.
    """
    broker, brokers, now_ms = it.assignment.broker[row, slot], it.brokers, it.cycle.observed_at_ms
    end, goal = it.replicas.log_end_offset[row, slot], it.leaders.log_end_offset[row]
    offline = it.roles.is_offline[row, slot]
    silent = np.isin(broker, brokers.broker[~brokers.answered])
    alive = ~offline & ~silent
    slow = brokers.broker[are_slow(brokers, it.metrics, now_ms)]
    left_alive = np.bincount(row[alive], minlength=row.max() + 1)[row]
    holds = {
        Evidence.FOLLOWER_OFFLINE: offline,
        Evidence.FOLLOWER_SILENT: silent,
        Evidence.FOLLOWER_BEHIND: (end != UNKNOWN) & (goal != UNKNOWN) & (end < goal),
        Evidence.LEADER_SILENT: was_silent(brokers, leader, np.full(len(row), now_ms)),
        Evidence.LEADER_ANSWERS_SLOWLY: np.isin(leader, slow),
        Evidence.SEVERAL_FOLLOWERS_LEFT: alive & (left_alive > 1),
        Evidence.WAS_LEADER: it.previous.leader[row] == broker,
    }
    return bits(holds, len(row))


def after_it_left(
    it: Polled, row: Int32, broker: Int32, last_in_isr_at_ms: Int64, at_ms: Int64, is_out: Bool
) -> Int32:
    """[N] what shows only after a replica left: that its broker was stopping or dead.

    A crashed follower may leave by lag before it is fenced, so its death shows later. A follower in
    a controlled restart leaves first and then stops. It may be back before any listing shows it as
    fenced, so a silence that begins at about that time is evidence as well. A death of one that is
    in the ISR again (not ``is_out``) is another story.
    """
    is_soon = is_out & (it.cycle.observed_at_ms - at_ms <= FENCED_WITHIN_MS)
    holds = {
        Evidence.FOLLOWER_OFFLINE: is_soon & it.has(it.roles.is_offline, row, broker),
        Evidence.FOLLOWER_SILENT: _fell_silent(it.brokers, broker, last_in_isr_at_ms, at_ms),
    }
    return bits(holds, len(row))


def are_slow(brokers: Brokers, metrics: BrokerMetrics, now_ms: int) -> Bool:
    """[B] it answers slowly, or measures itself that followers' fetches take long."""
    works_slowly = [
        metrics.of_brokers(brokers.broker, name, now_ms) >= SLOW_ANSWER_MS  # NaN is not
        for name in ("fetch_follower_local_p99_ms", "fetch_follower_queue_p99_ms")
    ]
    answers_slowly = brokers.answered & (brokers.answered_in_ms >= SLOW_ANSWER_MS)
    slow: Bool = np.any([answers_slowly, *works_slowly], axis=0)
    return slow


def was_silent(brokers: Brokers, broker: Int32, at_ms: Int64) -> Bool:
    """[N] the broker answered no request of the twin until about that time.

    A leader that stood still removes late followers as soon as it runs again, so it answers in this
    cycle or in the next one.
    """
    if not len(brokers.broker):
        return np.zeros(len(broker), bool)
    row = keys.find_sorted(brokers.broker, broker)
    since, until = brokers.silent_since_ms[row], brokers.silent_until_ms[row]
    spans = (since < at_ms) & (at_ms <= until + BROKER_CLOCK_SKEW_MS)
    return (row != UNKNOWN) & np.where(
        brokers.answered[row], (until != UNKNOWN) & spans, since < at_ms
    )


def _fell_silent(brokers: Brokers, broker: Int32, last_in_isr_at_ms: Int64, at_ms: Int64) -> Bool:
    """[N] the newest silence of the replica's broker began about when it left the ISR."""
    if not len(brokers.broker):
        return np.zeros(len(broker), bool)
    row = keys.find_sorted(brokers.broker, broker)
    since, until = brokers.silent_since_ms[row], brokers.silent_until_ms[row]
    lasts = ~brokers.answered[row] | (until >= last_in_isr_at_ms)
    silent: Bool = (row != UNKNOWN) & (since != UNKNOWN) & lasts
    silent &= since <= at_ms + STOPS_WITHIN_MS
    return silent
