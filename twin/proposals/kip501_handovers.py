"""Solution 2 of KIP-501: a leader that processes a fetch for too long hands over.

It moves itself to the end of the ISR, so that the next live member leads. The limit is a setting of
its own, "the maximum time in milliseconds that a leader can process the follower fetch requests";
as in solution 1 the time begins when a request handler takes the fetch. No Kafka has it, and no API
reports a fetch before it is answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twin.arrays import keys, plain
from twin.declarations.declare import Occurrence, api_field, counter, event, gauge, rule
from twin.declarations.signature import Before, Cycle, Earlier, Lazy
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    Bool,
    Int8,
    Int32,
    Int64,
    KeyedTable,
    PartitionTable,
    SparseTable,
    column,
)
from twin.kafka.follower_state import SLOW_FETCH_KEPT_MS
from twin.proposals.kip501 import InSyncKip501, kept_isr, would_have_stayed
from twin.rules.brokers.lag_limits import LagLimits
from twin.rules.election.next_leader import Candidates
from twin.rules.isr.isr_shrink_evidence import are_slow
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.partitions.leaders import IsrMembers, LeaderEnds, Roles
from twin.rules.replication.caught_up import tracked
from twin.rules.tiering.coverage import Coverage, ReplicaCoverage
from twin.tables.state import (
    Assignment,
    BrokerMetrics,
    Brokers,
    Configs,
    FollowerStates,
    Partitions,
)


class HandoverKip501(
    PartitionTable,
    kind="handover_kip501",
    api="handover_kip501",
    on_demand="a function of stored follower states",
):
    """[P] to whom a slow leader would hand over now by solution 2 of KIP-501."""

    leader: Int32 = column("broker id, null where the leader stays", fill=NO_BROKER)
    is_cold: Int8 = column("that replica holds too little local log", tri_state=True)
    is_slow: Int8 = column(
        "that replica's broker is slow too, by its answers or its own measurements; unknown "
        "without measurements",
        tri_state=True,
    )


class Kip501PingPong(SparseTable, kind="kip501_ping_pong"):
    """[N] one row a partition whose slow leader would hand over to a broker that is slow too."""

    broker: Int32 = column("broker id of the replica that would lead")
    since_ms: Int64 = column("since when both have been slow")


class Kip501Handovers(SparseTable, kind="kip501_handovers"):
    """[N] who would lead by solution 2 of KIP-501, for each row of isr_shrinks."""

    broker: Int32 = column("broker id of the replica that left the ISR")
    at_ms: Int64 = column("when that was observed")
    next_leader: Int32 = column("who would lead, -1 for nobody", fill=NO_BROKER)
    next_leader_cold: Int8 = column("that replica holds too little local log", tri_state=True)


class Kip501HandoverCount(KeyedTable, kind="kip501_handover_count"):
    """[1] how often leaders would have handed over by solution 2 of KIP-501."""

    handovers: Int64 = column("since the state began", fill=0)


@rule
def handover_kip501(
    configs: Configs,
    limits: LagLimits,
    followers: FollowerStates,
    assignment: Assignment,
    roles: Roles,
    partitions: Partitions,
    candidates: Candidates,
    coverage: ReplicaCoverage,
    shrinks: IsrShrinks,
    now_in_sync: Lazy[InSyncKip501],
    brokers: Brokers,
    metrics: BrokerMetrics,
    cycle: Cycle,
) -> HandoverKip501:
    """A leader is too slow if it processed a recent fetch for longer than the limit.

    It hands over to a member of the ISR as solution 1 keeps it: by then Kafka's leader may have
    removed every follower.

    The time that a fetch waited in the request queue does not count: the leader knows of a fetch
    once a request handler has taken it.
    """
    count = len(partitions.leader)
    to, cold = np.full(count, NO_BROKER, np.int32), np.full(count, UNKNOWN, np.int8)
    rows, _, states = tracked(followers, assignment, roles, partitions)
    if not len(rows):
        return HandoverKip501(to, cold, cold)
    recent = cycle.observed_at_ms - states.longest_processing_at_ms <= SLOW_FETCH_KEPT_MS
    limit_ms = _processing_max_ms(configs, limits)[rows]
    is_slow = recent & (limit_ms != UNKNOWN) & (states.longest_processing_ms > limit_ms)
    row = np.unique(rows[is_slow])
    if len(row):
        members = kept_isr(roles, assignment, shrinks, now_in_sync())
        to[row], cold[row] = _next_member(
            row, members, partitions.leader, assignment, candidates, coverage
        )
    return HandoverKip501(to, cold, _slowness(to, brokers, metrics, cycle.observed_at_ms))


@rule
def kip501_ping_pong(
    following: HandoverKip501, before: Before[Kip501PingPong], cycle: Cycle
) -> Kip501PingPong:
    """The time counts from the cycle that found both slow, for as long as the broker is the same.

    Two slow brokers hand leadership to each other, which the KIP names as a risk of solution 2.
    """
    row = np.flatnonzero((following.leader != NO_BROKER) & (following.is_slow == 1))
    broker = following.leader[row]
    since_ms = keys.look_up(
        keys.pack(before.row, before.broker), before.since_ms, keys.pack(row, broker)
    )
    since_ms = np.where(since_ms == UNKNOWN, cycle.observed_at_ms, since_ms)
    return Kip501PingPong(row.astype(np.int32), broker, since_ms)


@rule
def kip501_handovers(
    shrinks: IsrShrinks,
    latest: Earlier[Kip501Handovers],
    was_member: Before[IsrMembers],
    previous: Before[LeaderEnds],
    assignment: Assignment,
    candidates: Candidates,
    coverage: ReplicaCoverage,
    cycle: Cycle,
) -> Kip501Handovers:
    """A handover is judged when its shrink is first observed, and kept as long as the shrink."""
    if not len(shrinks):
        return Kip501Handovers.empty()
    to, cold = _next_member(
        shrinks.row, was_member.in_isr, previous.leader, assignment, candidates, coverage
    )
    here, earlier = keys.pairs(
        keys.pack(shrinks.row, shrinks.broker), keys.pack(latest.row, latest.broker)
    )
    # Shrinks that a poll observed in this cycle are judged again with each frame of the cycle.
    polled_now = (shrinks.at_ms == cycle.observed_at_ms) & (shrinks.at_ms != shrinks.logged_at_ms)
    same = (shrinks.at_ms[here] == latest.at_ms[earlier]) & ~polled_now[here]
    here, earlier = here[same], earlier[same]
    to[here], cold[here] = latest.next_leader[earlier], latest.next_leader_cold[earlier]
    return Kip501Handovers(shrinks.row, shrinks.broker, shrinks.at_ms, to, cold)


@rule
def kip501_handover_count(
    following: HandoverKip501,
    before: Before[HandoverKip501],
    count: Before[Kip501HandoverCount],
) -> Kip501HandoverCount:
    """The count grows if a leader that stayed in the previous cycle would hand over in this one."""
    begins = (following.leader != NO_BROKER) & (before.leader == NO_BROKER)
    return Kip501HandoverCount(np.array([count.handovers.sum() + begins.sum()], np.int64))


def _processing_max_ms(configs: Configs, limits: LagLimits) -> Int64:
    """[P] the limit of solution 2: its own, or the leader's replica.lag.time.max.ms."""
    own_ms = configs.cluster_wide("fetch_processing_max_ms")
    return (
        limits.lag_time_max_ms
        if own_ms == UNKNOWN
        else np.full_like(limits.lag_time_max_ms, own_ms)
    )


def _next_member(
    row: Array, members: Bool, leader: Int32, assignment: Assignment, candidates: Candidates,
    coverage: ReplicaCoverage,
) -> tuple[Int32, Int8]:  # fmt: skip
    """[N] the first live member of the ISR that does not lead, and whether it is cold.

    Args:
        row: [N] partitions.
        members: [P, R] the ISR.
        leader: [P] the leader that hands over.
    """
    brokers = assignment.broker[row]
    able = members[row] & (brokers != leader[row][:, None]) & candidates.is_acceptable[row]
    slot, any_able, at = able.argmax(axis=1), able.any(axis=1), np.arange(len(row))
    to = np.where(any_able, brokers[at, slot], NO_BROKER)
    covered = coverage.coverage[row][at, slot]
    is_judged = any_able & np.isin(covered, (Coverage.WARM, Coverage.COLD))
    cold = np.where(is_judged, covered == Coverage.COLD, UNKNOWN)
    return to.astype(np.int32), cold.astype(np.int8)


def _slowness(broker: Int32, brokers: Brokers, metrics: BrokerMetrics, now_ms: int) -> Int8:
    """[P] whether those brokers are slow; a broker that does not answer stands still."""
    measured = metrics.of_brokers(brokers.broker, "fetch_follower_local_p99_ms", now_ms)
    slow = are_slow(brokers, metrics, now_ms) | ~brokers.answered
    of_brokers = np.where(slow, 1, np.where(np.isnan(measured), UNKNOWN, 0)).astype(np.int8)
    place = keys.find_sorted(brokers.broker, broker)
    return np.append(of_brokers, np.int8(UNKNOWN))[place]


# ---------------------------------------------------------------- exported


@gauge(
    "partitions_kip501_would_hand_over",
    "Partitions whose leader would hand over now by solution 2 of KIP-501: it processed a fetch of "
    "the last minute for too long.",
)
def kip501_handovers_now(following: HandoverKip501) -> int:
    """The partitions whose leader has a live member of the ISR to hand over to."""
    return int((following.leader != NO_BROKER).sum())


@event("kip501_handover")
def would_have_handed_over(
    was: Earlier[HandoverKip501], now: HandoverKip501, partitions: Partitions
) -> Iterator[Occurrence]:
    """Each leader that stayed in the previous cycle and would hand over in this one."""
    for row in np.flatnonzero((now.leader != NO_BROKER) & (was.leader == NO_BROKER)).tolist():
        leader, to = int(partitions.leader[row]), int(now.leader[row])
        cold = ", which is cold" if now.is_cold[row] == 1 else ""
        text = f"{{p}}: leader {leader} processed a fetch for too long; by solution 2 of KIP-501 "
        text += f"it would hand over to {to}{cold}"
        if now.is_slow[row] == 1:
            text += ", which is slow too and would hand back"
        yield Occurrence(text, row, broker=leader, before=(leader,), after=(to,))


@counter(
    "kip501_handovers",
    "Times that a leader would have handed over by solution 2 of KIP-501.",
)
def kip501_handovers_counted(count: Kip501HandoverCount) -> int:
    """The handovers since the state began."""
    return int(count.handovers.sum())


@api_field(
    "kip501",
    "for each entry of `isr_shrinks`, in the same order: whether solution 1 of KIP-501 would have "
    "kept the replica (`would_have_stayed`), who would have led by solution 2 (`next_leader`, null "
    "for nobody) and whether that replica is cold (`next_leader_cold`)",
)
def kip501_field(
    shrinks: IsrShrinks, handovers: Kip501Handovers, partitions: Partitions
) -> list[list[dict[str, Any]]]:
    """A list of handovers for each partition."""
    stayed = would_have_stayed(shrinks)
    objects = (
        {
            "would_have_stayed": plain.yes_or_no(stayed[i]),
            "next_leader": plain.integer(handovers.next_leader[i]),
            "next_leader_cold": plain.yes_or_no(handovers.next_leader_cold[i]),
        }
        for i in range(len(handovers))
    )
    return plain.by_partition(handovers.row, objects, len(partitions.leader))


@api_field(
    "kip501_ping_pong",
    "where a slow leader would hand over by solution 2 of KIP-501 to a `broker` that is slow too: "
    "`since_ms` when, and how many `handovers` there would have been since then at most, back and "
    "forth, one each time the limit has passed; else null",
)
def kip501_ping_pong_field(
    ping_pong: Kip501PingPong,
    configs: Configs,
    limits: LagLimits,
    partitions: Partitions,
    cycle: Cycle,
) -> list[dict[str, int] | None]:
    """The first handover counts at once."""
    objects: list[dict[str, int] | None] = [None] * len(partitions.leader)
    limit_ms = np.maximum(_processing_max_ms(configs, limits), 1).tolist()
    for i, row in enumerate(ping_pong.row.tolist()):
        since_ms = int(ping_pong.since_ms[i])
        objects[row] = {
            "broker": int(ping_pong.broker[i]),
            "since_ms": since_ms,
            "handovers": 1 + (cycle.observed_at_ms - since_ms) // limit_ms[row],
        }
    return objects
