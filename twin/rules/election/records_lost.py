"""Records that were lost because the elected leader did not have them.

A leader from outside the ISR and the ELR (an unclean election, or the last known leader) begins
where its own log ends; every other replica truncates to that. The records between the old leader's
log end and the new one's are lost, acknowledged or not.

Source: KIP-966, and PartitionChangeBuilder.electLeader, Kafka 4.3: Election.UNCLEAN and the last
known leader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from twin.arrays import plain
from twin.arrays.alignment import appeared
from twin.declarations.declare import (
    Alert,
    Occurrence,
    OfRows,
    api_field,
    event,
    gauge,
    loss_field,
    risk,
    rule,
)
from twin.declarations.signature import Before, Cycle, Earlier, Latest
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int32,
    Int64,
    ReplicaTable,
    SparseTable,
    column,
)
from twin.kafka.election import Outcome
from twin.rules.election.next_leader import NextLeaders
from twin.rules.partitions.leaders import LeaderEnds, Leaders, Roles
from twin.tables.state import Assignment, Partitions, Replicas

LOSS_WINDOW_MS: Final = 3_600_000
"""How long a loss is shown: until somebody had time to look at what producers wrote."""


class SafeSuccessors(ReplicaTable, kind="safe_successors", on_demand="flags of the table replicas"):
    """[P, R] replicas that have every committed record by the controller's view."""

    is_safe: Bool = column("in the ISR or in the ELR", fill=False)


class LeaderChanges(SparseTable, kind="leader_changes"):
    """[N] one row a partition whose leader is gone, until a new one has answered."""

    old_leader: Int32 = column("broker id of the leader before")
    end_offset: Int64 = column("its last known log end offset")
    new_leader: Int32 = column("broker id of the leader now, -1 for none", fill=NO_BROKER)
    new_end_offset: Int64 = column("its log end offset; unknown until it has answered")
    is_unclean: Bool = column("it was neither in the ISR nor in the ELR", fill=False)


class RecordsLost(SparseTable, kind="records_lost"):
    """[N] one row an election in the last hour that lost records."""

    at_ms: Int64 = column("when the new leader was first observed")
    old_leader: Int32 = column("broker id of the leader before")
    new_leader: Int32 = column("broker id of the leader since")
    start_offset: Int64 = column("first offset that is lost: the log end of the new leader")
    end_offset: Int64 = column("first offset behind the loss: the last known log end before")


@rule
def safe_successors(roles: Roles) -> SafeSuccessors:
    """If one of these becomes the leader, no committed record is lost."""
    return SafeSuccessors(roles.in_isr | roles.in_elr)


@rule
def leader_changes(
    partitions: Partitions,
    leaders: Leaders,
    ends: Before[LeaderEnds],
    was_safe: Before[SafeSuccessors],
    before: Before[LeaderChanges],
    cycle: Cycle,
) -> LeaderChanges:
    """A successor is judged in the cycle that first lists it: later ISRs are set by it."""
    waiting = before.pick(before.new_end_offset == UNKNOWN)
    old_leader, end = ends.leader.copy(), ends.offset.copy()
    unclean = np.zeros(len(end), bool)
    old_leader[waiting.row], end[waiting.row] = waiting.old_leader, waiting.end_offset
    unclean[waiting.row] = waiting.is_unclean
    row = np.flatnonzero((old_leader != NO_BROKER) & (partitions.leader != old_leader))
    leader = partitions.leader[row]
    is_new = (leader != NO_BROKER) & (leader != ends.leader[row])
    is_safe = was_safe.is_safe[row, leaders.slot[row]]
    answered = (leader != NO_BROKER) & (leaders.sampled_at_ms[row] == cycle.observed_at_ms)
    return LeaderChanges(
        row=row.astype(np.int32),
        old_leader=old_leader[row],
        end_offset=end[row],
        new_leader=leader,
        new_end_offset=np.where(answered, leaders.log_end_offset[row], UNKNOWN),
        is_unclean=unclean[row] | (is_new & ~is_safe),
    )


@rule
def records_lost(changes: LeaderChanges, latest: Latest[RecordsLost], cycle: Cycle) -> RecordsLost:
    """Losses of this cycle are computed again with each frame; earlier ones are kept."""
    now_ms = cycle.observed_at_ms
    kept = latest.pick((latest.at_ms < now_ms) & (now_ms - latest.at_ms <= LOSS_WINDOW_MS))
    answered = changes.new_end_offset != UNKNOWN
    lacks = answered & (changes.new_end_offset < changes.end_offset)
    losses = changes.pick(lacks & changes.is_unclean)
    news = RecordsLost(
        row=losses.row,
        at_ms=np.full(len(losses), now_ms),
        old_leader=losses.old_leader,
        new_leader=losses.new_leader,
        start_offset=losses.new_end_offset,
        end_offset=losses.end_offset,
    )
    return kept.with_rows(news)


@risk(
    "records_lost",
    rank=25,
    severity="page",
    sentence="a leader was elected that lacks records of the leader before",
    source="KIP-966; PartitionChangeBuilder.electLeader, Kafka 4.3",
    alert=Alert(
        summary="lost records in a leader election",
        description="Leaders of {n} partitions of {cluster} were elected from outside the ISR in "
        "the last hour and lack records of the leaders before; kafka_twin_partition_records_lost "
        "is their number.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def lost_records(losses: RecordsLost, partitions: Partitions) -> Bool:
    """Records were lost within the last hour."""
    return losses.row_mask(len(partitions.leader))


@event("records_lost")
def records_were_lost(was: Earlier[RecordsLost], now: RecordsLost) -> Iterator[Occurrence]:
    """Each election that lost records is reported once."""
    for i in appeared(was, now):
        start, end = int(now.start_offset[i]), int(now.end_offset[i])
        text = (
            f"{{p}}: {plain.counted(end - start, 'record')} lost, offsets {start} to {end - 1}: "
            f"the new leader {now.new_leader[i]} lacks them, leader {now.old_leader[i]} had them"
        )
        broker, row = int(now.new_leader[i]), int(now.row[i])
        yield Occurrence(text, row, broker=broker, before=(end,), after=(start,))


@gauge(
    "records_lost_recent",
    "Records lost in leader elections in the last hour: the new leader lacked them.",
)
def records_lost_recent(losses: RecordsLost) -> int:
    """The lost records of all elections, added up."""
    return int((losses.end_offset - losses.start_offset).sum())


@gauge(
    "records_lost",
    "Records of the partition lost in leader elections in the last hour.",
    level="partition",
)
def partition_records_lost(losses: RecordsLost) -> OfRows:
    """The lost records of each partition; no series without any."""
    row, at = np.unique(losses.row, return_inverse=True)
    records = np.zeros(len(row), np.int64)
    np.add.at(records, at, losses.end_offset - losses.start_offset)
    return OfRows(row, records)


@api_field(
    "records_lost",
    "elections in the last hour that lost records: `at_ms`, `old_leader`, `new_leader`, and the "
    "lost offsets from `start_offset` to before `end_offset`",
)
def records_lost_field(losses: RecordsLost, partitions: Partitions) -> list[list[dict[str, Any]]]:
    """A list of elections that lost records for each partition."""
    names = [c.name for c in RecordsLost.columns if c.name != "row"]
    objects = ({name: int(getattr(losses, name)[i]) for name in names} for i in range(len(losses)))
    return plain.by_partition(losses.row, objects, len(partitions.leader))


@loss_field(
    "records_lost",
    "records lost",
    "records that the new leader lacks, for one from outside the ISR and the ELR",
)
def records_lost_then(
    following: NextLeaders, leaders: Leaders, assignment: Assignment, replicas: Replicas
) -> Array:
    """The difference of the present log ends, in records; unknown for clean successors."""
    unsafe = np.isin(following.outcome, (Outcome.LAST_KNOWN, Outcome.UNCLEAN))
    row = np.flatnonzero(unsafe & (leaders.log_end_offset != UNKNOWN))
    slot = (assignment.broker[row] == following.leader[row][:, None]).argmax(axis=1)
    end = replicas.log_end_offset[row, slot]
    lost_records = np.full(len(unsafe), UNKNOWN, np.int64)
    lacking = np.maximum(leaders.log_end_offset[row] - end, 0)
    lost_records[row] = np.where(end == UNKNOWN, UNKNOWN, lacking)
    return lost_records
