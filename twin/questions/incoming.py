"""What brokers receive when data moves, and what the logs take there afterwards.

Each shard answers for its own partitions. A replica that is made anew copies what an empty follower
copies, and from then on its log is like its leader's: so the model of logs tells what it takes.

Source: twin.rules.tiering.bootstrap and twin.rules.disks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from twin.arrays import keys
from twin.arrays.slots import any_slot
from twin.declarations.signature import parameters
from twin.declarations.table import NO_BROKER, UNKNOWN, Array, Bool, Float64, Int32, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.questions.whatif import Loss, is_judged, on_brokers
from twin.rules.brokers.log_dirs import ReplicaDirs
from twin.rules.disks.curves import LogTables, sums_by_directory
from twin.rules.disks.points import POINTS_S
from twin.rules.partitions.growth import RecordSizes
from twin.rules.partitions.leaders import Leaders, Roles, has_flag
from twin.rules.tiering.bootstrap import BootstrapOff, BootstrapOn
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, Configs, Partitions, Replicas


@dataclass(frozen=True, slots=True, eq=False)
class Growths:
    """[K] what logs take from now on, by broker and directory, at POINTS_S [H].

    ``directory`` is the number of it, UNKNOWN where Kafka chooses.
    """

    broker: Int32
    directory: Int64
    least_bytes: Float64  # [K, H]
    most_bytes: Float64  # [K, H]
    judged_bytes: Float64  # of the logs that are in the sums, now

    def later(self, after_s: float) -> Growths:
        """The same, counted from so many seconds from now on."""
        return replace(
            self,
            least_bytes=_from(self.least_bytes, after_s),
            most_bytes=_from(self.most_bytes, after_s),
        )


def _from(curve: Float64, after_s: float) -> Float64:
    moved = [np.interp(POINTS_S + after_s, POINTS_S, each) for each in curve]
    if not moved:
        return curve
    ahead: Float64 = np.stack(moved)
    return ahead - ahead[:, :1]


@dataclass(frozen=True, slots=True, eq=False)
class Incoming:
    """[N] replicas that brokers receive, and what their logs take once they are there."""

    broker: Int32
    directory: Int64  # number of it, UNKNOWN where Kafka chooses, or the broker has one
    bytes: Float64  # that are still to be copied; NaN where that is unknown
    is_new: Bool  # the curves of its volume do not have it: the growths do
    growths: Growths

    @property
    def brokers(self) -> Int32:
        """Those that receive something, ascending."""
        return np.unique(self.broker)

    def of(self, brokers: Int32) -> Incoming:
        """Only what those brokers receive."""
        mine, grow = np.isin(self.broker, brokers), np.isin(self.growths.broker, brokers)
        growths = self.growths
        return Incoming(
            self.broker[mine], self.directory[mine], self.bytes[mine], self.is_new[mine],
            Growths(
                growths.broker[grow], growths.directory[grow], growths.least_bytes[grow],
                growths.most_bytes[grow], growths.judged_bytes[grow],
            ),
        )  # fmt: skip


def together(parts: Sequence[Incoming]) -> Incoming:
    """The growths of all shards in one table."""
    return Incoming(
        _joined(part.broker for part in parts).astype(np.int32),
        _joined(part.directory for part in parts).astype(np.int64),
        _joined(part.bytes for part in parts),
        _joined(part.is_new for part in parts).astype(bool),
        growths_together([part.growths for part in parts]),
    )


def growths_together(parts: Sequence[Growths]) -> Growths:
    """The growths of all shards in one table."""
    none = np.zeros((0, len(POINTS_S)))
    return Growths(
        _joined(each.broker for each in parts).astype(np.int32),
        _joined(each.directory for each in parts).astype(np.int64),
        _joined((each.least_bytes for each in parts), none),
        _joined((each.most_bytes for each in parts), none),
        _joined(each.judged_bytes for each in parts),
    )


def _joined(values: Iterable[Array], none: Array | None = None) -> Array:
    return np.concatenate([np.zeros(0) if none is None else none, *values])


def copied_bytes(state: ShardState) -> Float64:
    """[P] bytes that a new replica copies, NaN where that is unknown.

    With KIP-1023 only if it is on for the whole cluster.
    """
    if state[Configs].cluster_wide("last_tiered_fetch") == 1:
        return state[BootstrapOn].bytes_estimate
    return state[BootstrapOff].bytes_estimate


def held_bytes(state: ShardState) -> Float64:
    """[P] bytes that a replica like the leader's has on disk, NaN where that is unknown.

    With KIP-1023 a new one copies less at first, and grows until it has as much.
    """
    return _known(state[Leaders].local_log_bytes)


def _known(size: Int64) -> Float64:
    return np.where(size == UNKNOWN, np.nan, size)


def added(state: ShardState, row: Rows, broker: Int32) -> Incoming:
    """New replicas of partitions of a shard.

    Args:
        state: the shard.
        row: [N] rows of the partitions.
        broker: [N, A] brokers that get a replica of each, NO_BROKER behind the last.
    """
    at, slot = np.nonzero(broker != NO_BROKER)
    to = broker[at, slot]
    return Incoming(
        to.astype(np.int32),
        np.full(len(to), UNKNOWN, np.int64),
        held_bytes(state)[row[at]],
        np.ones(len(to), bool),
        grown(state, row, broker, np.full(broker.shape, UNKNOWN, np.int64)),
    )


def replacing(state: ShardState, loss: Loss, lost: Collection[int]) -> Incoming:
    """The replicas that empty brokers in place of the lost ones get from who leads then.

    Those that nobody else can lead are left out: there is nothing to copy them from. Of what they
    take from then on nothing is said: the curves of the lost brokers have it, see ``grown_on``.
    """
    assignment, leader = state[Assignment].broker, state[Partitions].leader.copy()
    leader[loss.row] = np.where(
        on_brokers(leader[loss.row], lost), loss.kafka.leader, leader[loss.row]
    )
    has_source = is_judged(state) & (leader != NO_BROKER)
    mine = on_brokers(assignment, lost) & state[Roles].is_assigned
    row, slot = np.nonzero(mine)
    row, slot = row[has_source[row]], slot[has_source[row]]
    is_source = assignment[row] == leader[row][:, None]
    size = state[Replicas].local_log_bytes[row, is_source.argmax(axis=1)]
    return Incoming(
        assignment[row, slot].astype(np.int32),
        np.full(len(row), UNKNOWN, np.int64),
        _known(np.where(any_slot(is_source), size, UNKNOWN)),
        np.zeros(len(row), bool),
        growths_together([]),
    )


def grown_on(state: ShardState, brokers: Collection[int], *, chosen: bool) -> Growths:
    """What the logs of brokers take from now on, if they are as those of their leaders.

    ``chosen``: Kafka chooses their directories anew.
    """
    mine = on_brokers(state[Assignment].broker, brokers) & state[Roles].is_assigned
    row = np.flatnonzero(any_slot(mine) & is_judged(state))
    directory = state[ReplicaDirs].number[row].astype(np.int64)
    who = np.where(mine[row], state[Assignment].broker[row], NO_BROKER).astype(np.int32)
    return grown(state, row, who, np.full_like(directory, UNKNOWN) if chosen else directory)


def under_way(state: ShardState) -> Incoming:
    """What replicas lack that are being added, or are not in sync: it is still to be copied.

    Of one whose broker does not have it yet, that is the whole log; it goes where Kafka chooses.
    Those that are offline copy nothing.
    """
    roles, replicas, leaders = state[Roles], state[Replicas], state[Leaders]
    flags = replicas.replica_flags
    waits = roles.is_assigned & ~roles.in_isr & ~roles.is_offline & ~roles.is_leader
    waits &= ~has_flag(flags, ReplicaFlags.REMOVING)
    waits &= (is_judged(state) & (state[Partitions].leader != NO_BROKER))[:, None]
    row, slot = np.nonzero(waits)
    own, end = replicas.log_end_offset[row, slot], leaders.log_end_offset[row]
    begins = leaders.local_log_start_offset[row]
    is_known = (own != UNKNOWN) & (end != UNKNOWN) & (begins != UNKNOWN)
    # One that ends below the leader's local log starts anew there.
    lacks = np.where(is_known, np.maximum(end - np.maximum(own, begins), 0), 0)
    size = np.where(lacks == 0, 0.0, lacks * state[RecordSizes].bytes_per_record[row])
    is_new = has_flag(flags[row, slot], ReplicaFlags.ADDING) & (own == UNKNOWN)
    size = np.where(is_known, size, np.where(is_new, held_bytes(state)[row], np.nan))
    broker, directory = state[Assignment].broker, state[ReplicaDirs].number.astype(np.int64)
    # The curves of their volumes have all others already.
    fresh = np.zeros(waits.shape, bool)
    fresh[row, slot] = is_new
    begun = np.flatnonzero(any_slot(fresh))
    return Incoming(
        broker[row, slot].astype(np.int32),
        directory[row, slot],
        size,
        is_new,
        grown(
            state,
            begun,
            np.where(fresh, broker, NO_BROKER)[begun].astype(np.int32),
            directory[begun],
        ),
    )


def grown(state: ShardState, row: Rows, broker: Int32, directory: Int64) -> Growths:
    """What logs like those of the leaders take from now on, if they were on other brokers.

    Args:
        state: the shard.
        row: [N] rows of the partitions.
        broker: [N, A] brokers that have the log, NO_BROKER behind the last.
        directory: [N, A] number of the directory there; UNKNOWN where Kafka chooses.
    """
    parts: list[Growths] = []
    if not len(row):
        return growths_together(parts)
    few = state.with_only(_LOGS)
    for slot in range(broker.shape[1]):  # replicas of a partition, of which there are few
        here = np.flatnonzero(broker[:, slot] != NO_BROKER)
        if len(here):
            taken = few.take(row[here])
            parts.append(_grown(taken, broker[here, slot], directory[here, slot]))
    return growths_together(parts)


def _grown(state: ShardState, broker: Int32, directory: Int64) -> Growths:
    """The sums of the leaders' logs, as if they were on those brokers [P]."""
    roles, width = state[Roles], state.slots
    alone = replace(
        roles, is_assigned=roles.is_leader, is_offline=np.zeros(roles.is_leader.shape, bool)
    )
    moved = np.where(roles.is_leader, broker[:, None], NO_BROKER).astype(np.int32)
    number = np.repeat(directory.astype(np.int8)[:, None], width, axis=1)
    tables = LogTables(
        **state.with_tables(alone, replace(state[Assignment], broker=moved)).arguments(_LOGS)
    )
    sums = sums_by_directory(tables, ReplicaDirs(number), state.observed_at_ms)
    first = sums.point == 0

    def curve(values: Float64) -> Float64:
        of_cells = values.reshape(-1, len(POINTS_S))
        from_now: Float64 = of_cells - of_cells[:, :1]
        return from_now

    return Growths(
        sums.broker[first],
        sums.number[first].astype(np.int64),
        curve(sums.least_bytes),
        curve(sums.most_bytes),
        sums.judged_bytes[first],
    )


_LOGS: Final = parameters(LogTables)


def logs_by_directory(
    states: Sequence[ShardState], brokers: Collection[int]
) -> tuple[Int64, Int64, Bool]:
    """[M], [M] brokers and directories, packed, and how many logs are in each.

    Also whether each of ``brokers``, ascending, has a replica in a directory that nobody knows.
    """
    ids = np.array(sorted(brokers), np.int64)
    packed = [np.zeros(0, np.int64)]
    unclear = np.zeros(len(ids), bool)
    for state in states:
        roles, broker = state[Roles], state[Assignment].broker
        mine = on_brokers(broker, brokers) & roles.is_assigned & ~roles.is_offline
        number = state[ReplicaDirs].number[mine]
        packed.append(keys.pack(broker[mine], number))
        unclear[np.searchsorted(ids, broker[mine][number == UNKNOWN])] = True
    each, counts = np.unique(np.concatenate(packed), return_counts=True)
    return each, counts.astype(np.int64), unclear
