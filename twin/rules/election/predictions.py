"""The track record: each change of leader, compared with what was predicted before it.

A change is judged in the cycle that first lists the new leader, against the forecasts of the cycle
before. If Kafka elected another leader than predicted, the election is repeated with the
facts of this cycle. If that gives Kafka's leader, something changed between the last observation
and the election, and the prediction was overtaken; otherwise it was wrong.

A leader that changes and changes back between two cycles is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np

from twin.declarations.declare import rule
from twin.declarations.signature import Before, Cycle, Earlier, TableGroup
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int8,
    Int32,
    Int64,
    Rows,
    SparseTable,
    column,
)
from twin.kafka.election import ElectionKind, ElectionState, Outcome, Slots, elect, pick_slot
from twin.rules.brokers.brokers import is_silent
from twin.rules.election.forecasts import Forecast, ForecastOutcomes, Forecasts
from twin.rules.election.next_leader import Candidates, hold_election
from twin.rules.partitions.leaders import LeaderEnds, Leaders, Roles
from twin.rules.partitions.topic_configs import (
    TopicConfigs,
    forbids_unclean_elections,
    holds_unclean_elections,
)
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.tables.state import Assignment, Brokers, Partitions

MAX_PREDICTIONS: Final = 1_000
"""How many of the newest changes a shard keeps; its counters include the older ones."""


class Cause(IntEnum):
    """Why a partition got another leader. Stored: values never change."""

    LOSS = 0  # the leader was fenced, shut down, or its log directory failed
    RETURN = 1  # a replica came back to a partition that nobody led
    BALANCE = 2  # a preferred election, by leader balancing or by an operator
    REASSIGNMENT = 3  # the leader's replica was moved to another broker
    OPERATOR = 4  # an unclean election that the configuration does not allow


class Result(IntEnum):
    """How the prediction of a change turned out. Stored: values never change."""

    RIGHT = 0
    WRONG = 1
    OVERTAKEN = 2  # something else changed between the last observation and the election
    UNFORESEEN = 3  # the twin did not know the partition, or not the replica that leads


class OvertakenBy(IntEnum):
    """The other change that overtook a prediction. Stored: values never change."""

    NOTHING = 0
    ASSIGNMENT = 1  # the replicas are others, or in another order
    BROKER = 2  # another broker was lost, or came back
    ISR = 3  # another replica left the ISR, or joined it
    ELECTIONS = 4  # the leader changed more than once


class Predictions(SparseTable, kind="predictions"):
    """[N] one row a change of leader: what was predicted, and what Kafka did."""

    at_ms: Int64 = column("when the new leader was first observed")
    predicted_at_ms: Int64 = column("when the state behind the prediction was observed")
    cause: Int8 = column("why the leader changed", enum=Cause)
    result: Int8 = column("how the prediction turned out", enum=Result)
    overtaken_by: Int8 = column("which other change overtook it", fill=0, enum=OvertakenBy)
    leader_epoch: Int32 = column("leader epoch since the change")
    old_leader: Int32 = column(
        "broker id before, -1 for none", fill=NO_BROKER, minus_one_is_a_value=True
    )
    new_leader: Int32 = column(
        "broker id since, -1 for none", fill=NO_BROKER, minus_one_is_a_value=True
    )
    predicted_leader: Int32 = column(
        "broker id that was predicted, -1 for nobody and for a replica that is no longer assigned",
        fill=NO_BROKER,
        minus_one_is_a_value=True,
    )
    predicted_outcome: Int8 = column(
        "how safe the predicted leader of a lost one was", enum=Outcome
    )
    predicted_coverage: Int8 = column(
        "whether it held enough local log to lead, null for nobody", enum=Coverage
    )
    warm_was_passed_over: Int8 = column(
        "a cold replica was elected, although a warm one was in sync: KIP-1303 would have elected "
        "the warm one; unknown where the new leader is neither warm nor cold",
        tri_state=True,
    )
    local_records: Int64 = column("records that the new leader has on its own disk")
    local_bytes: Int64 = column("size of the new leader's local log")


@dataclass(frozen=True, slots=True)
class ChangeFacts(TableGroup):
    """The tables of this cycle and of the one before that show why a leader changed."""

    partitions: Partitions
    assignment: Assignment
    roles: Roles
    candidates: Candidates
    configs: TopicConfigs
    ends: Before[LeaderEnds]
    forecasts: Before[Forecasts]
    brokers: Brokers
    brokers_before: Before[Brokers]


@rule
def predictions(
    facts: ChangeFacts,
    coverage: ReplicaCoverage,
    leaders: Leaders,
    outcomes: Before[ForecastOutcomes],
    latest: Earlier[Predictions],
    cycle: Cycle,
) -> Predictions:
    """Changes of earlier cycles are kept; those of this cycle are judged again with each frame."""
    kept = _newest(latest.pick(latest.at_ms < cycle.observed_at_ms))
    partitions = facts.partitions
    row = _changed_rows(partitions, facts.ends, outcomes)
    if not len(row):
        return kept
    change = _Change.of_rows(row, facts, cycle)
    cause = _causes(change)
    predicted, is_loss = _predicted(change, cause), cause == Cause.LOSS
    elections = partitions.leader_epoch[row] - outcomes.leader_epoch[row]
    # A replica that was predicted and is no longer assigned looks like nobody.
    is_gone = (predicted == NO_BROKER) & (outcomes.if_lost[row] != Outcome.NONE)
    right = (predicted == change.new) & ~(is_gone & is_loss)
    result, overtaken_by = _judged(change, cause, right, elections)
    local_end, local_start = leaders.log_end_offset[row], leaders.local_log_start_offset[row]
    is_measured = (local_end != UNKNOWN) & (local_start != UNKNOWN)
    news = Predictions(
        row=row.astype(np.int32),
        at_ms=np.full(len(row), cycle.observed_at_ms),
        predicted_at_ms=np.full(len(row), cycle.prev_observed_at_ms),
        cause=cause,
        result=result,
        overtaken_by=overtaken_by,
        leader_epoch=partitions.leader_epoch[row],
        old_leader=change.old,
        new_leader=change.new,
        predicted_leader=predicted,
        predicted_outcome=np.where(is_loss, outcomes.if_lost[row], np.int8(UNKNOWN)),
        predicted_coverage=np.where(is_loss, outcomes.coverage_if_lost[row], np.int8(UNKNOWN)),
        warm_was_passed_over=_warm_was_passed_over(change, cause, coverage.coverage[row]),
        local_records=np.where(is_measured, local_end - local_start, UNKNOWN),
        local_bytes=leaders.local_log_bytes[row],
    )
    return _newest(kept.with_rows(news))


def _changed_rows(partitions: Partitions, ends: LeaderEnds, outcomes: ForecastOutcomes) -> Rows:
    """[N] partitions with another leader than in the cycle before, and a later leader epoch."""
    changed = ends.leader != partitions.leader
    changed &= partitions.leader_epoch > outcomes.leader_epoch
    # A partition that was not described before has no epoch. Its replicas cannot tell that, since
    # a reassignment may have replaced all of them.
    changed &= outcomes.leader_epoch != UNKNOWN
    return np.flatnonzero(changed)


@dataclass(frozen=True, slots=True)
class _Change:
    """[N] changes of leader; [N, R] facts before them and now, in the present replica slots."""

    old: Int32
    new: Int32
    is_unclean_allowed: Bool
    may_be_unclean: Bool  # allowed, or not known to be forbidden
    broker: Int32  # [N, R]
    forecasts: Forecasts
    was_described: Slots
    was_acceptable: Slots
    was_in_isr: Slots
    was_in_elr: Slots
    was_last_known: Slots
    is_acceptable: Slots
    is_in_isr: Slots
    is_in_elr: Slots
    answers_again: Slots  # its broker had been silent

    @staticmethod
    def of_rows(row: Rows, facts: ChangeFacts, cycle: Cycle) -> _Change:
        roles, configs = facts.roles, facts.configs
        assigned, leads = roles.is_assigned[row], roles.is_leader[row]
        row_forecasts = Forecasts(facts.forecasts.flags[row] * assigned)
        last_known = row_forecasts.has(Forecast.IN_LAST_KNOWN_ELR)
        return _Change(
            old=facts.ends.leader[row],
            new=facts.partitions.leader[row],
            is_unclean_allowed=holds_unclean_elections(configs)[row],
            may_be_unclean=~forbids_unclean_elections(configs)[row],
            broker=np.where(assigned, facts.assignment.broker[row], NO_BROKER).astype(np.int32),
            forecasts=row_forecasts,
            was_described=row_forecasts.has(Forecast.IS_DESCRIBED),
            was_acceptable=row_forecasts.has(Forecast.IS_ACCEPTABLE),
            was_in_isr=row_forecasts.has(Forecast.IN_ISR),
            was_in_elr=row_forecasts.has(Forecast.IN_ELR),
            was_last_known=last_known & (last_known.sum(axis=1) == 1)[:, None],
            # A broker that leads is not fenced, even if an earlier list says so.
            is_acceptable=facts.candidates.is_acceptable[row] | leads,
            is_in_isr=roles.in_isr[row] & assigned,
            is_in_elr=roles.in_elr[row] & assigned,
            answers_again=assigned
            & np.isin(facts.assignment.broker[row], _answering_again(facts, cycle)),
        )

    def slots_of(self, broker: Int32) -> Slots:
        """[N, R] the slot of that broker; none for NO_BROKER."""
        return (self.broker == broker[:, None]) & (broker != NO_BROKER)[:, None]

    def broker_with(self, flag: Forecast) -> Int32:
        """[N] the broker of the replica with that flag, NO_BROKER without one."""
        slot = self.forecasts.has(flag)
        broker = pick_slot(self.broker, slot.argmax(axis=1))
        return np.where(slot.any(axis=1), broker, NO_BROKER).astype(np.int32)

    def state(
        self, acceptable: Slots, in_isr: Slots, in_elr: Slots, leader: Int32
    ) -> ElectionState:
        """An election over these facts; the last known leaders are from before the change."""
        last = self.was_last_known
        last_known = np.where(
            last.any(axis=1), pick_slot(self.broker, last.argmax(axis=1)), NO_BROKER
        )
        return ElectionState(
            self.broker, acceptable, in_isr, in_elr, leader, last_known.astype(np.int32)
        )


def _answering_again(facts: ChangeFacts, cycle: Cycle) -> Int32:
    """Ids of the brokers that answer in this cycle and were silent in the one before.

    One that only missed a cycle was late. One that is silent for longer than a session, and that
    the controller has not fenced, shows that there is no quorum.
    """
    was, now = facts.brokers_before, facts.brokers
    silent = was.broker[is_silent(was, cycle.prev_observed_at_ms)]
    return np.intersect1d(silent, now.broker[now.answered])


def _causes(change: _Change) -> Int8:
    """[N] the cause of each change: the first of the list that fits."""
    old, new = change.slots_of(change.old), change.slots_of(change.new)
    was_offline = change.old == NO_BROKER
    was_safe = change.was_in_isr | change.was_in_elr | change.was_last_known
    by_rule = (new & was_safe).any(axis=1) | change.may_be_unclean
    stays_in_sync = (old & change.is_in_isr & change.is_acceptable).any(axis=1)
    return np.select(
        [
            was_offline & by_rule,
            was_offline,
            ~old.any(axis=1),
            stays_in_sync & new[:, 0],
        ],
        [Cause.RETURN, Cause.OPERATOR, Cause.REASSIGNMENT, Cause.BALANCE],
        Cause.LOSS,
    ).astype(np.int8)


def _predicted(change: _Change, cause: Int8) -> Int32:
    """[N] the predicted leader, by the rule of the cause."""
    nobody = np.full(len(cause), NO_BROKER, np.int32)
    # The prediction is about who leads once a replica is back, not about which one comes back.
    returned = change.state(change.is_acceptable, change.was_in_isr, change.was_in_elr, nobody)
    if_returned, _ = hold_election(returned, change.is_unclean_allowed)
    if_forced, _ = elect(returned, ElectionKind.UNCLEAN)
    return np.select(
        [cause == each for each in Cause],
        [
            change.broker_with(Forecast.LEADS_IF_LOST),
            if_returned,
            change.broker_with(Forecast.LEADS_IF_BALANCED),
            change.broker_with(Forecast.LEADS_IF_REASSIGNED),
            if_forced,
        ],
    ).astype(np.int32)


def _judged(change: _Change, cause: Int8, right: Bool, elections: Int32) -> tuple[Int8, Int8]:
    """[N] Result and OvertakenBy."""
    new = change.slots_of(change.new)
    is_foreseeable = (change.new == NO_BROKER) | (new & change.was_described).any(axis=1)
    explained = _repeated_election(change, cause) == change.new
    several = elections > 1
    result = np.select(
        [right, ~is_foreseeable, explained | several],
        [Result.RIGHT, Result.UNFORESEEN, Result.OVERTAKEN],
        Result.WRONG,
    ).astype(np.int8)
    by = np.where(explained, _what_else_changed(change), OvertakenBy.ELECTIONS)
    return result, np.where(result == Result.OVERTAKEN, by, OvertakenBy.NOTHING).astype(np.int8)


def _repeated_election(change: _Change, cause: Int8) -> Int32:
    """[N] the leader by the same rule, with the facts of this cycle."""
    old = change.slots_of(change.old)
    nobody = np.full(len(cause), NO_BROKER, np.int32)
    without = change.state(
        change.is_acceptable & ~old, change.is_in_isr & ~old, change.is_in_elr & ~old, nobody
    )
    leader, _ = hold_election(without, change.is_unclean_allowed)
    leader = np.where(leader == change.new, leader, _before_returns(change, without))
    is_balance = cause == Cause.BALANCE
    with_all = change.state(change.is_acceptable, change.is_in_isr, change.is_in_elr, change.old)
    balanced, _ = elect(with_all, ElectionKind.PREFERRED)
    # If several came back, the first one led. No poll shows which one that was.
    new = change.slots_of(change.new)
    in_elr = change.was_in_elr & ~_left_elr(change, new)
    only = change.state(change.is_acceptable & new, change.was_in_isr, in_elr, nobody)
    came_first, _ = hold_election(only, change.is_unclean_allowed)
    return np.select([is_balance, cause == Cause.RETURN], [balanced, came_first], leader).astype(
        np.int32
    )


def _before_returns(change: _Change, state: ElectionState) -> Int32:
    """[N] the leader without the brokers that were silent and answer again in this cycle.

    Such a broker may have crashed. When it registers again, the controller fences it and removes it
    from the ISR (ReplicationControlManager.handleUncleanBrokerShutdown); soon after it is in the
    ISR again. If the election took place in between, neither cycle shows why it was passed over.
    """
    away = change.answers_again
    without = replace(
        state,
        acceptable=state.acceptable & ~away,
        in_isr=state.in_isr & ~away,
        in_elr=state.in_elr & ~away,
    )
    leader, _ = hold_election(without, change.is_unclean_allowed)
    return leader


def _left_elr(change: _Change, new: Slots) -> Slots:
    """[N, R] eligible replicas that came back, did not lead, and are not eligible any more.

    The controller removes a broker from the ELR that registers after a crash (KIP-966,
    ReplicationControlManager.handleUncleanBrokerShutdown). Once it is empty, the last known leader
    may lead. Nobody knows before the return whether a silent broker has crashed.
    """
    came_back = change.is_acceptable & ~change.was_acceptable
    return change.was_in_elr & ~change.is_in_elr & came_back & ~new


def _what_else_changed(change: _Change) -> Array:
    """[N] OvertakenBy: what changed besides the old leader's own replica."""
    others = ~change.slots_of(change.old) & (change.broker != NO_BROKER)
    assignment = (others & ~change.was_described).any(axis=1)
    came_or_went = change.was_acceptable != change.is_acceptable
    broker = (others & (came_or_went | change.answers_again)).any(axis=1)
    isr = (others & (change.was_in_isr != change.is_in_isr)).any(axis=1)
    return np.select(
        [assignment, broker, isr],
        [OvertakenBy.ASSIGNMENT, OvertakenBy.BROKER, OvertakenBy.ISR],
        OvertakenBy.ASSIGNMENT,  # nothing is left but the order of the replicas
    )


def _warm_was_passed_over(change: _Change, cause: Int8, coverage: Array) -> Int8:
    """[N] tri-state, for losses: a cold replica leads where a warm one was in sync."""
    new = change.slots_of(change.new)
    is_loss = (cause == Cause.LOSS) & (change.new != NO_BROKER)
    cold = (new & (coverage == Coverage.COLD)).any(axis=1)
    could_lead = change.was_in_isr & change.is_acceptable & ~change.slots_of(change.old)
    warm = (could_lead & (coverage == Coverage.WARM)).any(axis=1)
    is_judged = is_loss & (new & np.isin(coverage, (Coverage.COLD, Coverage.WARM))).any(axis=1)
    return np.where(is_judged, (cold & warm).astype(np.int8), np.int8(UNKNOWN))


def _newest(table: Predictions) -> Predictions:
    """The newest MAX_PREDICTIONS rows; the oldest cycle among them may be incomplete."""
    if len(table) <= MAX_PREDICTIONS:
        return table
    newest = np.argsort(table.at_ms, kind="stable")[-MAX_PREDICTIONS:]
    return table.pick(np.sort(newest))
