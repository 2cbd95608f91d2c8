"""Records that were lost, or truncated, when a leader was elected.

A leader from outside the ISR and the ELR (an unclean election, or the last known leader) begins its
epoch where its own log ends; every other replica truncates to that. The records between that offset
and the old leader's log end are lost, acknowledged or not. So are those that a leader had and lacks
when it is back: its disk was replaced, or it lost power before it had flushed them.

Were they acknowledged? A leader that was in the ISR when it was elected has every committed record:
what only the old leader had was acknowledged to producers with acks=1 at most. The ISR of the cycle
before does not prove that: it may have shrunk since. So a loss is

* ``certain`` to have hit committed records, if an offset above its start was committed: the old
  leader's high watermark, or the offset of a group of consumers, which reads no others;
* ``no`` loss of these, if the controller may elect nobody from outside the ISR and the ELR, and the
  new leader was in one of them and answered ever since;
* ``possible`` else.

Where a loss begins is known exactly from the new leader's epochs. Nobody can poll where it ends:
the old leader wrote until it was lost. Its last sample is a lower bound, and its rate gives an
estimate. If a tap reads its log, it is known when the old leader has loaded its log again.

Source: KIP-966, and PartitionChangeBuilder.electLeader, Kafka 4.3: Election.UNCLEAN and the last
known leader; UnifiedLog's load; ReplicaManager.readFromLog, which sends consumers nothing beyond
the high watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

import numpy as np

from twin.arrays import keys, plain
from twin.arrays.alignment import appeared
from twin.declarations.declare import Alert, Occurrence, api_field, event, gauge, risk, rule
from twin.declarations.results import OfRows
from twin.declarations.signature import Before, Cycle, Earlier, TableGroup
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Bool,
    Int8,
    Int32,
    Int64,
    SparseTable,
    column,
)
from twin.rules.election.leader_changes import LeaderChanges
from twin.rules.election.truncations import Truncations, first_difference
from twin.rules.isr.isr_shrink_evidence import BROKER_CLOCK_SKEW_MS
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs, forbids_unclean_elections
from twin.rules.replication.logged_changes import (
    logged_as_unclean,
    logged_removals,
    logged_watermarks,
)
from twin.tables.state import (
    GroupOffsets,
    IsrRemovals,
    LoggedHighWatermarks,
    LoggedUncleanElections,
    Partitions,
    PriorEnds,
    TruncatedLogs,
)

LOSS_WINDOW_MS: Final = 3_600_000
"""How long a loss is shown: until somebody had time to look at what producers wrote."""

EVIDENCE_WITHIN_MS: Final = 120_000
"""Groups are read every half minute, and taps are seconds late; later offsets are of a new log."""


class LossCause(IntEnum):
    """Why the new leader lacks records that the old leader had."""

    UNCLEAN = 0  # it was elected from outside the ISR and the ELR
    SHORTER_LOG = 1  # it came back with less than it had
    ACKS_1 = 2  # it was in sync by all that is known, and the old leader had not replicated them


class Acknowledged(IntEnum):
    """Whether lost records were committed, and thereby acknowledged to producers with acks=all.

    Those that write with acks=1 or 0 got an acknowledgement in any case. Stored: values never
    change.
    """

    NO = 0
    POSSIBLE = 1  # nobody saw whether the new leader was in the ISR when it was elected
    CERTAIN = 2  # an offset above the start of the loss was committed


class RecordsLost(SparseTable, kind="records_lost", version=3):
    """[N] one row an election that lost records, in the last hour or until the old leader is
    back."""

    at_ms: Int64 = column("when the new leader's epoch was known")
    cause: Int8 = column("why", enum=LossCause)
    acknowledged: Int8 = column(
        "whether any of them was committed", fill=Acknowledged.POSSIBLE, enum=Acknowledged
    )
    committed_offset: Int64 = column(
        "highest offset that the old leader is known to have committed up to"
    )
    old_epoch: Int32 = column("leader epoch of the old leader, unknown if only a log shows it")
    old_leader: Int32 = column("broker id of the leader before")
    new_leader: Int32 = column("broker id of the leader since")
    start_offset: Int64 = column("first offset that is lost: the start of the new leader's epoch")
    start_is_exact: Bool = column("it was read from the leader's epochs", fill=False)
    latest_start_offset: Int64 = column(
        "the start, or an upper bound of it where it is not exact", in_api=False
    )
    end_offset: Int64 = column("first offset behind the loss, or a lower bound of it")
    end_estimate_offset: Int64 = column("the same, estimated from the old leader's rate")
    end_is_exact: Bool = column("the old leader logged it when it was back", fill=False)
    sampled_at_ms: Int64 = column("when the old leader last answered before", in_api=False)


@dataclass(frozen=True, slots=True)
class LossEvidence(TableGroup):
    """What this cycle shows of changes of leaders."""

    changes: LeaderChanges
    prior: PriorEnds
    away: Truncations
    was_away: Before[Truncations]
    truncated: TruncatedLogs
    partitions: Partitions
    leaders: Leaders
    configs: TopicConfigs
    removals: IsrRemovals
    watermarks: LoggedHighWatermarks
    elections: LoggedUncleanElections
    groups: GroupOffsets
    cycle: Cycle


@rule
def records_lost(it: LossEvidence, latest: Earlier[RecordsLost]) -> RecordsLost:
    """Losses of this cycle are computed again with each frame; earlier ones are kept."""
    now_ms = it.cycle.observed_at_ms
    earlier = latest.pick(latest.at_ms < now_ms)
    awaited = np.isin(
        keys.pack(earlier.row, earlier.old_leader), keys.pack(it.away.row, it.away.broker)
    )
    kept = earlier.pick(awaited | (now_ms - earlier.at_ms <= LOSS_WINDOW_MS))
    losses = kept.with_rows(_by_samples(it))
    end = _logged_ends(it.truncated, losses)
    is_logged = ~losses.end_is_exact & (end >= losses.end_offset)
    losses = replace(
        losses,
        end_offset=np.where(is_logged, end, losses.end_offset),
        end_is_exact=losses.end_is_exact | is_logged,
    )
    return _judged(it, losses.with_rows(_by_logs(it, losses)))


def _by_samples(it: LossEvidence) -> RecordsLost:
    """Elections of this cycle whose leaders begin below the last sample of the old leader."""
    changes = it.changes.pick(
        (it.changes.start_offset != UNKNOWN) & (it.changes.new_leader != NO_BROKER)
    )
    start, is_exact = first_difference(changes, it.was_away)
    had = _common_before(it, keys.pack(changes.row, changes.new_leader))
    is_shorter = (changes.new_leader == changes.old_leader) | (had > start)
    cause = np.where(is_shorter, LossCause.SHORTER_LOG, LossCause.ACKS_1)
    cause = np.where(changes.is_unclean, LossCause.UNCLEAN, cause)
    latest_start = np.where(changes.start_is_exact, changes.start_offset, changes.new_end_offset)
    # What was committed was written. An old leader that never answered has neither.
    end = np.maximum(changes.end_offset, changes.committed_offset)
    # Two samples of different times prove nothing of a leader that was in sync.
    is_lost = (start < end) & (changes.start_is_exact | (cause != LossCause.ACKS_1))
    is_clean = changes.was_in_isr & ~_was_silent(it, changes, changes.new_leader)
    return RecordsLost(
        row=changes.row,
        at_ms=np.full(len(changes), it.cycle.observed_at_ms),
        cause=cause.astype(np.int8),
        acknowledged=_if(is_clean & (cause == LossCause.ACKS_1)),
        committed_offset=changes.committed_offset,
        old_epoch=changes.old_epoch,
        old_leader=changes.old_leader,
        new_leader=changes.new_leader,
        start_offset=start,
        start_is_exact=is_exact,
        latest_start_offset=np.where(is_exact, start, latest_start),
        end_offset=end,
        end_estimate_offset=np.maximum(changes.end_estimate_offset, end),
        end_is_exact=np.zeros(len(changes), bool),
        sampled_at_ms=changes.sampled_at_ms,
    ).pick(is_lost)


def _if(is_clean: Bool) -> Int8:
    """[N] whether lost records were acknowledged, by the kind of election alone."""
    return np.where(is_clean, Acknowledged.NO, Acknowledged.POSSIBLE).astype(np.int8)


def _was_silent(it: LossEvidence, of: LeaderChanges | Truncations, broker: Int32) -> Bool:
    """[N] the replica did not answer for a while since the old leader did, or its log became
    shorter: it may have lost records meanwhile."""
    prior = it.prior
    at_ms = keys.look_up(keys.pack(prior.row, prior.broker), prior.at_ms, keys.pack(of.row, broker))
    silent: Bool = at_ms > of.sampled_at_ms
    return silent


def _judged(it: LossEvidence, losses: RecordsLost) -> RecordsLost:
    """The losses, with what proves that the new leader was not in the ISR when it was elected.

    Logs and groups may be read later than the election.
    """
    if not len(losses):
        return losses
    removed, _ = logged_removals(
        losses.row, losses.new_leader, losses.old_leader,
        losses.sampled_at_ms - BROKER_CLOCK_SKEW_MS,
        losses.at_ms + BROKER_CLOCK_SKEW_MS, it.removals,
    )  # fmt: skip
    removed |= (losses.old_epoch != UNKNOWN) & logged_as_unclean(
        losses.row, losses.old_epoch, it.partitions.leader_epoch[losses.row],
        losses.at_ms + BROKER_CLOCK_SKEW_MS, it.elections,
    )  # fmt: skip
    logged = logged_watermarks(losses.row, losses.old_leader, losses.old_epoch, it.watermarks)
    committed = np.maximum(losses.committed_offset, logged)
    is_open = it.cycle.observed_at_ms - losses.at_ms <= EVIDENCE_WITHIN_MS
    committed = np.maximum(committed, np.where(is_open, _read_by_groups(it, losses), UNKNOWN))
    is_proven = committed > losses.latest_start_offset
    least = np.where(removed, Acknowledged.POSSIBLE, losses.acknowledged)
    # Who is elected from the ISR alone, and lacks committed records, has lost them itself.
    lost_them = forbids_unclean_elections(it.configs)[losses.row] & ~removed
    why = np.where(lost_them, LossCause.SHORTER_LOG, LossCause.UNCLEAN)
    is_refuted = (losses.cause == LossCause.ACKS_1) & (is_proven | removed)
    return replace(
        losses,
        cause=np.where(is_refuted, why, losses.cause).astype(np.int8),
        acknowledged=np.where(is_proven, Acknowledged.CERTAIN, least).astype(np.int8),
        committed_offset=committed,
        end_offset=np.maximum(losses.end_offset, committed),
        end_estimate_offset=np.maximum(losses.end_estimate_offset, committed),
    )


def _read_by_groups(it: LossEvidence, losses: RecordsLost) -> Int64:
    """[N] the highest offset that a group has committed in the old leader's log, or unknown.

    That is an offset that was read before the old leader's last answer, or that is beyond the
    new leader's log. It may still be of a log that an earlier loss has cut, or be set by hand; so
    no offset counts beyond what the old leader may have written, or inside an earlier loss.
    """
    offsets, leaders = it.groups, it.leaders
    of = np.flatnonzero(losses.row_mask(len(leaders.slot))[offsets.row])
    loss, at = keys.pairs(losses.row.astype(np.int64), offsets.row[of].astype(np.int64))
    row, committed = losses.row[loss], offsets.committed_offset[of[at]]
    read_at_ms = offsets.read_at_ms[of[at]]
    # The estimate is of half a cycle.
    most = 2 * losses.end_estimate_offset - losses.end_offset
    most = np.where(losses.end_is_exact, losses.end_offset, most)
    was_before = read_at_ms <= losses.sampled_at_ms[loss]
    is_ahead = (leaders.sampled_at_ms[row] >= read_at_ms) & (leaders.log_end_offset[row] != UNKNOWN)
    is_ahead &= committed > leaders.log_end_offset[row]
    counts = (was_before | is_ahead) & (committed <= most[loss])
    pair, cut = keys.pairs(row.astype(np.int64), losses.row.astype(np.int64))
    is_cut = losses.at_ms[cut] < losses.at_ms[loss[pair]]
    is_cut &= (losses.start_offset[cut] < committed[pair]) & (committed[pair] <= most[cut])
    counts[pair[is_cut]] = False
    highest = np.full(len(losses), UNKNOWN, np.int64)
    np.maximum.at(highest, loss[counts], committed[counts])
    return highest


def _common_before(it: LossEvidence, replica: Int64) -> Int64:
    """[N] what a replica that may have lost records had in common with its leader, or unknown.

    A replica that diverged from its leader has truncated what it had beyond that.
    """
    its = keys.pack(it.prior.row, it.prior.broker)
    diverged = keys.pack(it.was_away.row, it.was_away.broker)
    far = np.iinfo(np.int64).max  # has not diverged
    end = np.minimum(it.prior.end_offset, keys.look_up(diverged, it.was_away.to_offset, its, far))
    return keys.look_up(its, end, replica)


def _by_logs(it: LossEvidence, known: RecordsLost) -> RecordsLost:
    """Elections whose losses only the old leader's own log shows: it wrote on after its sample."""
    led = it.away.pick(it.away.was_leader & (it.away.to_offset != UNKNOWN))
    is_known = np.isin(keys.pack(led.row, led.broker), keys.pack(known.row, known.old_leader))
    led = led.pick(~is_known)
    losses = RecordsLost(
        row=led.row,
        at_ms=np.full(len(led), it.cycle.observed_at_ms),
        cause=np.where(led.is_unclean, LossCause.UNCLEAN, LossCause.ACKS_1).astype(np.int8),
        acknowledged=_if(led.was_in_isr & ~_was_silent(it, led, it.partitions.leader[led.row])),
        committed_offset=np.full(len(led), UNKNOWN, np.int64),
        old_epoch=np.full(len(led), UNKNOWN, np.int32),
        old_leader=led.broker,
        new_leader=it.partitions.leader[led.row],
        start_offset=led.to_offset,
        start_is_exact=np.ones(len(led), bool),
        latest_start_offset=led.to_offset,
        end_offset=led.to_offset,
        end_estimate_offset=led.to_offset,
        end_is_exact=np.ones(len(led), bool),
        sampled_at_ms=led.sampled_at_ms,
    )
    end = _logged_ends(it.truncated, losses)
    return replace(losses, end_offset=end, end_estimate_offset=end).pick(end != UNKNOWN)


def _logged_ends(truncated: TruncatedLogs, losses: RecordsLost) -> Int64:
    """[N] where the old leader's log ended before it truncated what was lost, or unknown.

    A former leader that had followed the new one before it stopped does not truncate: it has the
    new leader's records, and its log end says nothing.
    """
    place = keys.find(
        keys.pack(truncated.row, truncated.broker), keys.pack(losses.row, losses.old_leader)
    )
    if not len(truncated):
        return np.full(len(losses), UNKNOWN, np.int64)
    to_offset, end = truncated.to_offset[place], truncated.end_offset[place]
    holds = (place != UNKNOWN) & (truncated.at_ms[place] > losses.sampled_at_ms)
    holds &= (to_offset <= losses.start_offset) & (end > losses.start_offset)
    return np.where(holds, end, UNKNOWN)


def _recent(losses: RecordsLost, cycle: Cycle, *, page: bool) -> RecordsLost:
    """The losses of the last hour that page somebody, or the others."""
    recent = cycle.observed_at_ms - losses.at_ms <= LOSS_WINDOW_MS
    return losses.pick(recent & ((losses.cause != LossCause.ACKS_1) == page))


@risk(
    "records_lost",
    rank=25,
    severity="page",
    sentence="a leader was elected that lacks records of the leader before",
    source="KIP-966; PartitionChangeBuilder.electLeader, Kafka 4.3",
    alert=Alert(
        summary="lost records in a leader election",
        description="Leaders of {n} partitions of {cluster} were elected in the last hour that "
        "lack records of the leaders before; kafka_twin_partition_records_lost is their number, "
        "or a lower bound of it.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def lost_records(losses: RecordsLost, partitions: Partitions, cycle: Cycle) -> Bool:
    """A leader was elected uncleanly or lost records, or lacks records that were committed."""
    return _recent(losses, cycle, page=True).row_mask(len(partitions.leader))


@event("records_lost")
def records_were_lost(was: Earlier[RecordsLost], now: RecordsLost) -> Iterator[Occurrence]:
    """Each election that lost records; that it did, if that is found out later; and where the loss
    ends, once the old leader logged it."""
    lost = now.cause != LossCause.ACKS_1
    for i in appeared(was, now):
        if lost[i]:
            yield _occurrence(now, i, _why(now, i))
    known = keys.pairs(keys.pack(was.row, was.old_leader), keys.pack(now.row, now.old_leader))
    for then, i in zip(*known, strict=True):
        if was.at_ms[then] != now.at_ms[i] or not lost[i]:
            continue
        is_refuted = was.cause[then] == LossCause.ACKS_1
        is_proven = (now.acknowledged[i] == Acknowledged.CERTAIN) > (
            was.acknowledged[then] == Acknowledged.CERTAIN
        )
        if is_refuted or is_proven:
            yield _occurrence(now, int(i), _why(now, i))
        elif now.end_is_exact[i] and not was.end_is_exact[then]:
            yield _occurrence(now, int(i), "leader {old} has logged where they end")


@event("records_truncated")
def records_were_truncated(was: Earlier[RecordsLost], now: RecordsLost) -> Iterator[Occurrence]:
    """Each election after which the old leader truncates records that it had not replicated."""
    for i in appeared(was, now):
        if now.cause[i] == LossCause.ACKS_1:
            yield _occurrence(now, i, _why(now, i))


_WHY: Final = {
    LossCause.UNCLEAN: "the new leader {new} lacks them, leader {old} had them",
    LossCause.SHORTER_LOG: "leader {new} came back with a shorter log",
    LossCause.ACKS_1: "leader {old} had not replicated them when {new} took over",
}

_ACKNOWLEDGED: Final = {
    Acknowledged.NO: "producers with acks=all got no acknowledgement for them",
    Acknowledged.POSSIBLE: "whether they were acknowledged is unknown",
    Acknowledged.CERTAIN: "records before offset {committed} were committed",
}


def _why(losses: RecordsLost, i: int) -> str:
    acknowledged = _ACKNOWLEDGED[Acknowledged(int(losses.acknowledged[i]))]
    return f"{_WHY[LossCause(int(losses.cause[i]))]}; {acknowledged}"


def _occurrence(losses: RecordsLost, i: int, why: str) -> Occurrence:
    start, end = int(losses.start_offset[i]), int(losses.end_offset[i])
    old, new, row = int(losses.old_leader[i]), int(losses.new_leader[i]), int(losses.row[i])
    records, beyond = plain.counted(end - start, "record"), ""
    if not losses.end_is_exact[i]:
        least = "at least" if losses.start_is_exact[i] else "about"
        records = f"{least} {records}"
        beyond = f" or beyond (estimated: {max(int(losses.end_estimate_offset[i]) - 1, end - 1)})"
    text = f"{{p}}: {records} lost, offsets {start} to {end - 1}{beyond}: "
    reason = why.format(old=old, new=new, committed=int(losses.committed_offset[i]))
    return Occurrence(text + reason, row, broker=new, before=(end,), after=(start,))


@gauge(
    "records_lost_recent",
    "Records lost in leader elections in the last hour, or a lower bound: the new leader lacked "
    "them.",
)
def records_lost_recent(losses: RecordsLost, cycle: Cycle) -> int:
    """The lost records of all elections, added up."""
    return _number(_recent(losses, cycle, page=True))


@gauge(
    "records_truncated_recent",
    "Records that only the old leader had when a replica took over that was in sync by all that is "
    "known, in the last hour, or a lower bound: `acknowledged` of each loss in the API says "
    "whether producers with acks=all may have got an acknowledgement.",
)
def records_truncated_recent(losses: RecordsLost, cycle: Cycle) -> int:
    """The records of all such elections, added up."""
    return _number(_recent(losses, cycle, page=False))


def _number(losses: RecordsLost) -> int:
    return int((losses.end_offset - losses.start_offset).sum())


@gauge(
    "records_lost",
    "Records of the partition lost in leader elections in the last hour, or a lower bound.",
    level="partition",
)
def partition_records_lost(losses: RecordsLost, cycle: Cycle) -> OfRows:
    """The lost records of each partition; no series without any."""
    recent = _recent(losses, cycle, page=True)
    row, at = np.unique(recent.row, return_inverse=True)
    records = np.zeros(len(row), np.int64)
    np.add.at(records, at, recent.end_offset - recent.start_offset)
    return OfRows(row, records)


@api_field(
    "records_lost",
    "elections in the last hour that lost records: `at_ms`, `old_leader`, `new_leader`, `cause` "
    "(`unclean`; `shorter_log`: a leader came back with less than it had; `acks_1`: only the old "
    "leader had them, and the new one was in sync by all that is known), and the lost offsets from "
    "`start_offset` to before `end_offset`. `acknowledged`: `certain` if an offset beyond the "
    "start was committed, by the old leader's high watermark or a group of consumers "
    "(`committed_offset`, null if none is known); `no` if the new leader was in the ISR or the ELR "
    "and the controller elects nobody else; else `possible`. Producers with acks=1 got an "
    "acknowledgement in any case. `start_is_exact` if it was read from the leader's epochs; unless "
    "`end_is_exact`, the end is the old leader's last sample, and `end_estimate_offset` adds what "
    "it may have written until it was lost",
)
def records_lost_field(
    losses: RecordsLost, partitions: Partitions, cycle: Cycle
) -> list[list[dict[str, Any]]]:
    """A list of elections that lost records for each partition."""
    recent = losses.pick(cycle.observed_at_ms - losses.at_ms <= LOSS_WINDOW_MS)
    objects = (
        {
            "at_ms": int(recent.at_ms[i]),
            "cause": LossCause(int(recent.cause[i])).name.lower(),
            "acknowledged": Acknowledged(int(recent.acknowledged[i])).name.lower(),
            "committed_offset": plain.integer(recent.committed_offset[i]),
            "old_leader": int(recent.old_leader[i]),
            "new_leader": int(recent.new_leader[i]),
            "start_offset": int(recent.start_offset[i]),
            "start_is_exact": bool(recent.start_is_exact[i]),
            "end_offset": int(recent.end_offset[i]),
            "end_estimate_offset": int(recent.end_estimate_offset[i]),
            "end_is_exact": bool(recent.end_is_exact[i]),
        }
        for i in range(len(recent))
    )
    return plain.by_partition(recent.row, objects, len(partitions.leader))
