"""What each broker carries, and what moves to the others if it is lost.

A loss moves only what has a replica on the lost broker:

* its leaderships go to the next leaders: with the bytes of producers, and with replication to the
  followers that are left; a new leader no longer replicates the partition itself;
* of what it follows, the leader has one follower less;
* consumers read from the new leader, or from the replica to which that sends their rack.

So each partition is judged once for the loss of its leader, and once for that of each follower, and
the results are added at the pair of lost broker and survivor. Sums are whole numbers: they are the
same in any order of shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twin.arrays import keys
from twin.arrays.slots import any_slot
from twin.declarations.signature import TableGroup
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Int32, Int64, Rows
from twin.rules.election.after_loss import away_replicas
from twin.rules.election.ballots import Ballot
from twin.rules.election.next_leader import (
    Electorate,
    NextLeaders,
    elected_under,
    elected_without,
)
from twin.rules.groups.loss import reads_then, servers_after_loss
from twin.rules.groups.moves import GroupMoves
from twin.rules.groups.reads import GroupReads, GroupServers, ReadsFrom, Servers
from twin.rules.load.amounts import (
    IN,
    LEADERS,
    OUT,
    REMOTE,
    REPLICATION_IN,
    REPLICATION_OUT,
    Amounts,
    Sums,
)
from twin.rules.load.rates import AppendedBytes, GroupBytes
from twin.rules.partitions.growth import RecordSizes
from twin.tables.state import Brokers, GroupOffsets


@dataclass(frozen=True, slots=True)
class LoadTables(TableGroup):
    """The tables that say what brokers carry, and who takes it over."""

    electorate: Electorate
    appended: AppendedBytes
    sizes: RecordSizes
    servers: Servers
    moves: GroupMoves
    offsets: GroupOffsets
    reads: GroupReads
    serving: GroupServers
    read: GroupBytes
    brokers: Brokers


@dataclass(frozen=True, slots=True, eq=False)
class Shifts:
    """[Q, lost, survivor] what survivors get, and what they no longer carry."""

    gained: Amounts
    dropped: Amounts

    def __add__(self, other: Shifts) -> Shifts:
        return Shifts(self.gained + other.gained, self.dropped + other.dropped)

    def __sub__(self, other: Shifts) -> Shifts:
        return Shifts(self.gained - other.gained, self.dropped - other.dropped)


@dataclass(frozen=True)
class Carried:
    """What the brokers of a shard carry, and how that shifts.

    ``broker``: [B] ids of all brokers, ascending. ``lost``: [P, R] replicas that are lost at once;
    None where each broker is lost in turn. ``now_ms`` is the time of the observation.
    """

    tables: LoadTables
    broker: Int32
    now_ms: int
    lost: Bool | None = None

    # ------------------------------------------------------------ who is where

    @cached_property
    def _place(self) -> Int64:
        """[P, R] the place of each replica's broker; UNKNOWN in slots without a replica."""
        place = keys.find_sorted(self.broker, self.tables.electorate.assignment.broker)
        return np.where(self.tables.electorate.roles.is_assigned, place, UNKNOWN)

    @cached_property
    def _leader(self) -> Int64:
        """[P] the place of each leader; UNKNOWN without one, and where nothing is judged."""
        electorate = self.tables.electorate
        partitions, configs = electorate.partitions, electorate.topic_configs
        is_judged = (partitions.described_at_ms != UNKNOWN) & (configs.diskless != 1)
        leader = keys.find_sorted(self.broker, partitions.leader)
        return np.where(is_judged & (partitions.leader != NO_BROKER), leader, UNKNOWN)

    @cached_property
    def away(self) -> Bool:
        """[P, R] replicas that cannot lead now or do not answer: as in ``whatif.lose``."""
        return away_replicas(self.tables.electorate, self.tables.brokers, self.now_ms)

    @cached_property
    def _follows(self) -> Bool:
        """[P, R] replicas that copy from a leader."""
        roles = self.tables.electorate.roles
        follows = roles.is_assigned & ~roles.is_leader & ~self.away
        return follows & (self._leader != UNKNOWN)[:, None]

    @cached_property
    def _leader_is_lost(self) -> Bool:
        """[P] the leader is lost: in turn, or with all that are lost at once."""
        led = self._leader != UNKNOWN
        if self.lost is None:
            return led
        return led & any_slot(self.lost & self.tables.electorate.roles.is_leader)

    # ------------------------------------------------------------ now

    def now(self) -> Amounts:
        """[Q, B] what each broker carries."""
        sums, rate = Sums(len(self.broker)), self.tables.appended.appended_bytes_per_s
        sums.add(LEADERS, np.ones(len(rate)), self._leader)
        sums.add(IN, rate, self._leader)
        row, slot = np.nonzero(self._follows)
        sums.add(REPLICATION_IN, rate[row], self._place[row, slot])
        sums.add(REPLICATION_OUT, rate[row], self._leader[row])
        if len(self.tables.moves):
            sums.add(OUT, self._read_rate, self._server)
            sums.add(REMOTE, self._remote_bytes, self._server)
        return sums.total

    # ------------------------------------------------------------ then

    def next_leaders(self, following: NextLeaders, ballot: Ballot | None = None) -> Int32:
        """[P] who leads if the leader is lost, without replicas that are away.

        Args:
            following: [P] the same where nobody is away. They alone elect anew.
            ballot: of an election rule; Kafka's if omitted.
        """
        roles = self.tables.electorate.roles
        row = np.flatnonzero(any_slot(self.away & ~roles.is_leader))
        if not len(row):
            return following.leader
        few, gone = self.tables.electorate.take(row), (self.away | roles.is_leader)[row]
        then = elected_without(few, gone)
        if ballot is not None:
            then = elected_under(ballot.take(row), few, gone, then)
        leader = following.leader.copy()
        leader[row] = then.leader
        return leader

    def shifts(self, next_leader: Int32) -> Shifts:
        """What shifts if ``next_leader`` [P] leads each partition that loses its leader."""
        followers = self._shifts_of_followers()
        return followers + self.shifts_of_leaders(np.flatnonzero(self._leader_is_lost), next_leader)

    def with_other_leaders(self, shifts: Shifts, was: Int32, leader: Int32) -> Shifts:
        """The shifts if other next leaders are elected; only what differs is judged again."""
        row = np.flatnonzero(self._leader_is_lost & (was != leader))
        if not len(row):
            return shifts
        return shifts - self.shifts_of_leaders(row, was) + self.shifts_of_leaders(row, leader)

    def shifts_of_leaders(self, row: Rows, next_leader: Int32) -> Shifts:
        """What shifts by the loss of the leaders of those partitions."""
        gained, dropped = self._sums(), self._sums()
        lost = self._leader[row]
        rate = self.tables.appended.appended_bytes_per_s[row]
        follows = self._follows[row]
        if self.lost is not None:
            follows &= ~self.lost[row]
        elected = next_leader[row]
        place = keys.find_sorted(self.broker, elected)
        place = np.where(elected == NO_BROKER, UNKNOWN, place)
        leads = self.tables.electorate.assignment.broker[row] == elected[:, None]
        gained.add(LEADERS, np.ones(len(row)), lost, place)
        gained.add(IN, rate, lost, place)
        at, _ = np.nonzero(follows & ~leads)
        gained.add(REPLICATION_OUT, rate[at], lost[at], place[at])
        # The new leader copies from nobody, and without a new leader nobody copies.
        stops = follows & (leads | (elected == NO_BROKER)[:, None])
        at, slot = np.nonzero(stops)
        dropped.add(REPLICATION_IN, rate[at], lost[at], self._place[row[at], slot])
        if len(self.tables.moves):
            self._shift_groups(gained, dropped, row, next_leader)
        return Shifts(gained.total, dropped.total)

    def _shifts_of_followers(self) -> Shifts:
        """What shifts by the loss of replicas whose leader stays."""
        gained, dropped = self._sums(), self._sums()
        is_lost = self._follows
        if self.lost is not None:
            is_lost = is_lost & self.lost & ~self._leader_is_lost[:, None]
        row, slot = np.nonzero(is_lost)
        rate = self.tables.appended.appended_bytes_per_s[row]
        dropped.add(REPLICATION_OUT, rate, self._place[row, slot], self._leader[row])
        if len(self.tables.moves):
            self._shift_groups_of_followers(gained, dropped)
        return Shifts(gained.total, dropped.total)

    def _sums(self) -> Sums:
        return Sums(len(self.broker), len(self.broker))

    # ------------------------------------------------------------ groups of consumers

    @cached_property
    def _group_row(self) -> Rows:
        return self.tables.moves.row.astype(np.intp)

    @cached_property
    def _is_served(self) -> Bool:
        """[N] who serves the group is known: not so under a custom selector."""
        return self.tables.serving.broker != NO_BROKER

    @cached_property
    def _server(self) -> Int64:
        """[N] the place of the broker that serves each group; the leader's if it is not known."""
        leader = self._leader[self._group_row]
        place = keys.find_sorted(self.broker, self.tables.serving.broker)
        return np.where(self._is_served & (leader != UNKNOWN), place, leader)

    @cached_property
    def _read_rate(self) -> Array:
        """[N] bytes a second that each group reads; NaN also where nobody knows from whom."""
        return np.where(self._is_served, self.tables.read.read_bytes_per_s, np.nan)

    @cached_property
    def _remote_bytes(self) -> Array:
        """[N] bytes that each group will read from remote storage."""
        reads = self.tables.reads
        return _remote_bytes(
            reads.remote_records, reads.reads_from, self.tables.sizes, self._group_row
        )

    def _shift_groups(self, gained: Sums, dropped: Sums, row: Rows, next_leader: Int32) -> None:
        """Groups of partitions that lose their leader; with it, perhaps, who serves them."""
        roles = self.tables.electorate.roles
        is_here = np.zeros(len(next_leader), bool)
        is_here[row] = True
        some = np.flatnonzero(is_here[self._group_row])
        gone = roles.is_leader if self.lost is None else self.lost
        leader = np.where(is_here, next_leader, self.tables.electorate.partitions.leader)
        lost = self._leader[self._group_row[some]]
        self._move(gained, dropped, some, leader.astype(np.int32), gone, lost)

    def _shift_groups_of_followers(self, gained: Sums, dropped: Sums) -> None:
        """Groups that are served by a follower which is lost, while the leader stays."""
        place, leader = self._place, self.tables.electorate.partitions.leader
        by_follower = self._is_served & (self._server != self._leader[self._group_row])
        by_follower &= self._server != UNKNOWN
        stays = ~self._leader_is_lost if self.lost is not None else np.ones(len(place), bool)
        by_follower &= stays[self._group_row]
        if not by_follower.any():
            return
        if self.lost is not None:
            some = np.flatnonzero(by_follower)
            self._move(gained, dropped, some, leader, self.lost, self._server[some])
            return
        for slot in range(place.shape[1]):
            some = np.flatnonzero(by_follower & (place[self._group_row, slot] == self._server))
            if len(some):
                gone = np.zeros(place.shape, bool)
                gone[:, slot] = True
                self._move(gained, dropped, some, leader, gone, self._server[some])

    def _move(
        self, gained: Sums, dropped: Sums, some: Rows, leader: Int32, gone: Bool, lost: Int64
    ) -> None:
        """Move the reads of those groups to the brokers that serve them under these leaders [P].

        ``gone``: [P, R] the replicas that are lost. ``lost``: [N] the place of the broker whose
        loss moves each of the groups.
        """
        if not len(some):
            return
        tables = self.tables
        after = servers_after_loss(leader, gone, tables.servers, tables.electorate.partitions)
        moves, reads = tables.moves.pick(some), tables.reads.pick(some)
        rack = tables.servers.reader_racks(tables.offsets.pick(some))
        then = reads_then(after, moves, reads, rack, tables.sizes)
        _, broker, reads_from, records, *_ = then
        row = self._group_row[some]
        has_leader = leader[row] != NO_BROKER
        is_served = broker != NO_BROKER
        server = keys.find_sorted(self.broker, np.where(is_served, broker, leader[row]))
        server = np.where(has_leader, server, UNKNOWN)
        was = self._server[some]
        moved = (server != was) & (was != UNKNOWN)
        rate = self._read_rate[some]
        rate_then = np.where(is_served, rate, np.nan)
        remote = _remote_bytes(records, reads_from, tables.sizes, row)
        for quantity, before, later in (
            (OUT, rate, rate_then),
            (REMOTE, self._remote_bytes[some], remote),
        ):
            dropped.add(quantity, before[moved], lost[moved], was[moved])
            gained.add(quantity, later[moved], lost[moved], server[moved])


def _remote_bytes(records: Array, reads_from: Array, sizes: RecordSizes, row: Rows) -> Array:
    """[N] the size of these records in whole bytes; NaN if unknown, 0 where nobody is read from."""
    known = np.where(records == UNKNOWN, np.nan, records)
    known = np.where(reads_from == ReadsFrom.NOBODY, 0.0, known)
    return np.where(known == 0, 0.0, np.rint(known * sizes.bytes_per_record[row]))
