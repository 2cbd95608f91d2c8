"""What each partition loses if the brokers of some of its replicas are lost.

Most partitions of a cluster look alike: the same slots are in sync, covered and able to lead. Those
are judged once, as a group; only the records that a new leader lacks are each partition's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.arrays.slots import any_slot, as_sets, count_slots
from twin.declarations.table import KAFKA, NO_BROKER, UNKNOWN, Array, Bool, Int32, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.rules.election.after_loss import away_replicas
from twin.rules.election.ballots import Ballot, in_isr
from twin.rules.election.next_leader import Electorate, elected_under, elected_without
from twin.rules.election.truncations import CommonLogs
from twin.rules.election.unclean_successors import lacking
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import (
    LeaderMinIsr,
    differ_by_leader,
    holds_unclean_elections,
    min_isr_under,
)
from twin.rules.tiering.coverage import Coverage
from twin.tables.state import Brokers

BY_RULE: Final = ("offline", "outside_isr", "cold")
"""Partitions that nobody leads; that are led from outside the ISR; that get a cold leader."""

BY_KAFKA: Final = ("records_lost", "records_unknown", "under_min_isr")
"""Records that new leaders lack; partitions for which that is unknown; partitions under min ISR."""

_RECORDS: Final = 2
"""The first of these that are about records."""


def counted_things(rules: Iterable[str]) -> list[tuple[str, str]]:
    """[C] the election rule and the name of each number of an effect, Kafka's first."""
    return [(KAFKA, name) for name in (*BY_KAFKA, *BY_RULE)] + [
        (rule, name) for rule in rules if rule != KAFKA for name in BY_RULE
    ]


Effect = Mapping[int, Array]
"""[N] numbers of partitions by their place in ``counted_things``, those that are not all 0."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """The effect of losing the replicas in one set of slots."""

    by_group: Effect  # [G] what is the same for all partitions of a group
    by_partition: Effect  # [P] records


class Effects:
    """What happens to each partition if the replicas in a set of its slots are lost.

    A set of slots is a number: bit n is slot n.
    """

    def __init__(self, state: ShardState, rows: Rows, electorate: Electorate, sets: Sequence[int]):
        """Judge the loss of each set.

        Args:
            state: the shard.
            rows: [P] the partitions.
            electorate: theirs.
            sets: of slots.
        """
        # As in ``whatif.lose``: what cannot lead now, or does not answer, counts as lost too.
        away = away_replicas(electorate, state[Brokers], state.observed_at_ms)
        least = _least_by_slot(state, rows, electorate)
        rules = state.catalog.election_rules
        ballots = [state[Ballot.under(rule)].take(rows) for rule in rules if rule != KAFKA]
        self._leader_end = state[Leaders].log_end_offset[rows]
        self._common_end = state[CommonLogs].end_offset[rows]
        first, self._group = keys.groups(_what_counts(electorate, away, least, ballots))
        self._judged = dict(
            zip(
                sets,
                self._judge(np.array(sets, np.int64), first, electorate, away, least, ballots),
                strict=True,
            )
        )

    def at(self, one: int, rows: Rows | slice) -> Effect:
        """The effects of one set on partitions that have these slots."""
        judged = self._judged[one]
        return self._spread(judged.by_group, judged.by_partition, rows)

    def beyond(self, rows: Rows | slice, union: int, first: int, second: int) -> Effect:
        """The effects of losing both sets, less those of losing each alone."""
        both, *parts = (self._judged[each] for each in (union, first, second))
        return self._spread(
            _difference(both.by_group, [part.by_group for part in parts]),
            _difference(both.by_partition, [part.by_partition for part in parts]),
            rows,
        )

    def _spread(self, by_group: Effect, by_partition: Effect, rows: Rows | slice) -> Effect:
        own = {number: values[rows] for number, values in by_partition.items()}
        if not by_group:
            return own
        group = self._group[rows]
        return own | {number: values[group] for number, values in by_group.items()}

    def _judge(
        self, sets: Int64, first: Rows, electorate: Electorate, away: Bool, least: Array,
        ballots: Sequence[Ballot],
    ) -> Iterator[_Judged]:  # fmt: skip
        """Judge each set. All are rows of one election."""
        rows = np.tile(first, len(sets))
        few = electorate.take(rows)
        roles, members = few.roles, in_isr(few.roles)
        slots = (sets[:, None] >> np.arange(away.shape[1]) & 1).astype(bool)
        named = roles.is_assigned & slots.repeat(len(first), axis=0)
        gone = named | away[rows]
        loses_leader = any_slot(roles.is_leader & named)
        shrinks = any_slot(members & named)
        # A leader that is in sync and not lost stays, so no election is held.
        stays = any_slot(roles.is_leader & members & ~gone)
        is_elected = (loses_leader | shrinks) & ~stays
        following = elected_without(few, gone)
        leads = stays | (is_elected & (following.leader != NO_BROKER))
        leader = np.where(stays, few.partitions.leader, following.leader)
        needed = _of_slot(least[rows], few.assignment.broker == leader[:, None])
        falls_short = (np.maximum(count_slots(members & ~gone), leads) < needed) & shrinks
        loses = loses_leader & is_elected
        matters = (loses_leader | falls_short) & is_elected

        masks = [falls_short]
        others = (elected_under(ballot.take(rows), few, gone, following) for ballot in ballots)
        for each in chain([following], others):
            is_outside = (each.outcome > Outcome.CLEAN) & (each.outcome < Outcome.NONE)
            masks.append(matters & (each.leader == NO_BROKER))
            masks.append(loses & is_outside)
            masks.append(loses & (each.coverage == Coverage.COLD))

        is_unsafe = loses & np.isin(following.outcome, (Outcome.LAST_KNOWN, Outcome.UNCLEAN))
        slot = (few.assignment.broker == following.leader[:, None]).argmax(axis=1)
        shape = len(sets), len(first)
        by_set = np.stack(masks, axis=1).reshape(*shape, len(masks)).astype(np.int64)
        for numbers, unsafe, leader in zip(
            by_set, is_unsafe.reshape(shape), slot.reshape(shape), strict=True
        ):
            by_group = enumerate(numbers.T, start=_RECORDS)
            yield _Judged(
                {number: values for number, values in by_group if values.any()},
                dict(enumerate(self._records(unsafe, leader))),
            )

    def _records(self, is_unsafe: Bool, leader: Rows) -> Iterator[Int64]:
        """[P] records that new leaders lack, and 1 where that is unknown, as ``lose`` has them.

        Args:
            is_unsafe: [G] the leader is lost, and the next one may lack records.
            leader: [G] the slot of that one.
        """
        if not is_unsafe.any():
            return
        rows = np.flatnonzero(is_unsafe[self._group])
        lacks = lacking(self._leader_end[rows], self._common_end[rows, leader[self._group[rows]]])
        for values in (np.maximum(lacks, 0), lacks == UNKNOWN):
            numbers = np.zeros(len(self._group), np.int64)
            numbers[rows] = values
            yield numbers


def _least_by_slot(state: ShardState, rows: Rows, electorate: Electorate) -> Int32:
    """[P, R] min.insync.replicas if the replica in the slot leads; [P, 1] if nobody changes it."""
    least, configs = state[LeaderMinIsr].min_isr[rows], electorate.topic_configs
    if not differ_by_leader(configs, state[Brokers]).any():
        return least[:, None]
    slots = electorate.assignment.broker.T
    return np.stack(
        [
            min_isr_under(ids, least, electorate.partitions, configs, state[Brokers])
            for ids in slots
        ],
        axis=1,
    )


def _of_slot(least: Int32, leads: Bool) -> Int32:
    """[P] the value of the slot that leads [P, R]; of the first where nobody does, or of the only
    one that there is."""
    return (
        least[:, 0] if least.shape[1] == 1 else least[np.arange(len(least)), leads.argmax(axis=1)]
    )


def _what_counts(
    electorate: Electorate, away: Bool, least: Array, ballots: Sequence[Ballot]
) -> Iterator[Array]:
    """[P] each: the numbers that decide what a loss does to a partition, but for its records."""
    roles, candidates = electorate.roles, electorate.candidates
    for mask in (
        roles.is_assigned, roles.is_leader, roles.in_isr, roles.in_elr, candidates.is_acceptable,
        candidates.is_last_known, away, *(ballot.in_sync for ballot in ballots),
    ):  # fmt: skip
        yield as_sets(mask)
    yield electorate.partitions.leader == NO_BROKER
    yield holds_unclean_elections(electorate.topic_configs)
    yield electorate.elr_least.controller_min_isr
    yield from least.T
    for values in (electorate.coverage.coverage, *(ballot.rank for ballot in ballots)):
        yield from values.T


def _difference(union: Effect, parts: Iterable[Effect]) -> Effect:
    extra = dict(union)
    for part in parts:
        for number, values in part.items():
            extra[number] = extra[number] - values if number in extra else -values
    return {number: values for number, values in extra.items() if values.any()}
