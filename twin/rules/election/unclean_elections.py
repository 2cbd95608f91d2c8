"""Leaders that were elected from outside the ISR and the ELR.

Such a leader may lack committed records, whether a sample shows it or not: nobody polls where the
log of the old leader ended. So each of these elections is told, with the bounds of what is lost.

A replica that was outside the ISR in the cycle before is not unclean for that: it may have joined
just before it was elected, as each replica does that takes over by a reassignment. Nor does the
controller elect one where unclean elections are off, unless an operator asks for it, which it
accepts of partitions without a leader only.

Source: KIP-966; PartitionChangeBuilder.electLeader and ReplicationControlManager.electLeader,
Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from twin.arrays import keys, plain
from twin.declarations.declare import Alert, Occurrence, api_field, event, gauge, risk, rule
from twin.declarations.signature import Cycle, Earlier
from twin.declarations.table import NO_BROKER, UNKNOWN, Bool, Int32, Int64, SparseTable, column
from twin.rules.election.leader_changes import EPOCH_END_WITHIN_MS, LeaderChanges
from twin.rules.election.records_lost import LOSS_WINDOW_MS, LossCause, RecordsLost
from twin.tables.state import Partitions


class UncleanElections(SparseTable, kind="unclean_elections"):
    """[N] one row an election from outside the ISR and the ELR, in the last hour."""

    at_ms: Int64 = column("when it was known")
    old_epoch: Int32 = column("leader epoch of the leader before")
    old_leader: Int32 = column("broker id of the leader before")
    new_leader: Int32 = column("broker id of the leader since")
    start_offset: Int64 = column(
        "start of the new leader's epoch: from there on records may be lost; unknown while it does "
        "not answer"
    )
    start_is_exact: Bool = column("it was read from the leader's epochs", fill=False)
    end_offset: Int64 = column(
        "log end of the old leader by its last answer; unknown if it never answered"
    )
    end_estimate_offset: Int64 = column("the same when it was lost, estimated from its rate")


@rule
def unclean_elections(
    changes: LeaderChanges, losses: RecordsLost, latest: Earlier[UncleanElections], cycle: Cycle
) -> UncleanElections:
    """An election is told once it is known where the new leader begins, or after a while without;
    or when a loss turns out to be of an unclean election."""
    now_ms = cycle.observed_at_ms
    kept = latest.pick((latest.at_ms < now_ms) & (now_ms - latest.at_ms <= LOSS_WINDOW_MS))
    elections = _of_losses(losses, now_ms)
    seen = _of_changes(changes, now_ms)
    elections = seen.pick(~np.isin(_key(seen), _key(elections))).with_rows(elections)
    # What is known of a start stays; the same election is told again once its start is known.
    place = keys.find(_key(kept), _key(elections))
    is_news = place == UNKNOWN
    if len(kept):
        is_news |= (kept.start_offset[place] == UNKNOWN) & (elections.start_offset != UNKNOWN)
    elections = elections.pick(is_news)
    return kept.pick(~np.isin(_key(kept), _key(elections))).with_rows(elections)


def _of_changes(changes: LeaderChanges, now_ms: int) -> UncleanElections:
    """Those that this cycle lists; without an answer of the leader they are told after a while."""
    is_due = changes.start_offset != UNKNOWN
    is_due |= now_ms - changes.changed_at_ms >= EPOCH_END_WITHIN_MS
    is_due &= changes.new_leader != NO_BROKER
    unclean = changes.pick(changes.is_unclean & ~changes.may_have_joined & is_due)
    return _elections(unclean, now_ms)


def _of_losses(losses: RecordsLost, now_ms: int) -> UncleanElections:
    """Those whose losses are known, whatever the listings say."""
    unclean = losses.pick(
        (losses.cause == LossCause.UNCLEAN)
        & (losses.old_epoch != UNKNOWN)
        & (now_ms - losses.at_ms <= LOSS_WINDOW_MS)
    )
    return _elections(unclean, now_ms)


def _elections(of: LeaderChanges | RecordsLost, now_ms: int) -> UncleanElections:
    """Elections as rows of ``UncleanElections``, from the columns that both tables share."""
    shared = [c.name for c in UncleanElections.columns if c.name != "at_ms"]
    columns = {name: getattr(of, name) for name in shared}
    return UncleanElections(at_ms=np.full(len(of), now_ms), **columns)


def _key(elections: UncleanElections) -> Int64:
    """[N] partition and leader epoch before: that is one election."""
    return keys.pack(elections.row, elections.old_epoch)


@risk(
    "unclean_election",
    rank=26,
    severity="warn",
    sentence="a leader was elected from outside the ISR and the ELR: records may be lost",
    source="KIP-966; PartitionChangeBuilder.electLeader, Kafka 4.3",
    alert=Alert(
        summary="had an unclean election",
        description="Leaders of {n} partitions of {cluster} were elected in the last hour from "
        "outside the ISR and the ELR. They may lack committed records; unclean_elections of the "
        "API has the bounds.",
        wait="0s",
        keep_firing_for="5m",
        unless="records_lost",
    ),
)
def had_unclean_election(elections: UncleanElections, partitions: Partitions) -> Bool:
    """An unclean election within the last hour, with records that are known to be lost or not."""
    return elections.row_mask(len(partitions.leader))


@event("unclean_election")
def leader_was_elected_uncleanly(
    was: Earlier[UncleanElections], now: UncleanElections
) -> Iterator[Occurrence]:
    """Each unclean election, with the bounds of what is lost."""
    place = keys.find(_key(was), _key(now))
    for i in range(len(now)):
        then = int(place[i])
        if then == UNKNOWN or (
            was.start_offset[then] == UNKNOWN and now.start_offset[i] != UNKNOWN
        ):
            yield _occurrence(now, i)


def _occurrence(elections: UncleanElections, i: int) -> Occurrence:
    old, new = int(elections.old_leader[i]), int(elections.new_leader[i])
    start, end = int(elections.start_offset[i]), int(elections.end_offset[i])
    text = f"{{p}}: broker {new} was elected from outside the ISR and the ELR, after leader {old}: "
    text += _bounds(elections, i)
    if start != UNKNOWN and not elections.start_is_exact[i]:
        text += "; the start is not exact, since the leader's epochs were not read"
    return Occurrence(text, int(elections.row[i]), broker=new, before=(end,), after=(start,))


def _bounds(elections: UncleanElections, i: int) -> str:
    """What is known of the records that are lost."""
    start, end = int(elections.start_offset[i]), int(elections.end_offset[i])
    if start == UNKNOWN:
        return f"what it lacks is unknown, since broker {elections.new_leader[i]} does not answer"
    begins = f"from offset {start} on"
    if end == UNKNOWN:
        return f"records {begins} may be lost; leader {elections.old_leader[i]} never answered"
    least, estimate = max(end - start, 0), int(elections.end_estimate_offset[i]) - start
    most = f"(estimated: {max(estimate, least)})"
    if not least:
        return f"records {begins} may be lost, none by the old leader's last answer {most}"
    bound = "at least" if elections.start_is_exact[i] else "about"
    return f"{bound} {plain.counted(least, 'record')} lost {begins} {most}"


@gauge(
    "unclean_elections_recent",
    "Leaders that were elected from outside the ISR and the ELR in the last hour.",
)
def unclean_elections_recent(elections: UncleanElections) -> int:
    """The elections of all partitions."""
    return len(elections)


@api_field(
    "unclean_elections",
    "elections in the last hour from outside the ISR and the ELR: `at_ms`, `old_leader`, "
    "`new_leader`; records from `start_offset` on may be lost (null while the new leader does not "
    "answer; `start_is_exact` if it was read from the leader's epochs), up to `end_offset` at "
    "least, the old leader's last answer (null if it never answered), and about to "
    "`end_estimate_offset`",
)
def unclean_elections_field(
    elections: UncleanElections, partitions: Partitions
) -> list[list[dict[str, Any]]]:
    """A list of such elections for each partition."""
    objects = (
        {
            "at_ms": int(elections.at_ms[i]),
            "old_leader": int(elections.old_leader[i]),
            "new_leader": int(elections.new_leader[i]),
            **{name: plain.integer(getattr(elections, name)[i]) for name in _OFFSETS},
            "start_is_exact": bool(elections.start_is_exact[i]),
        }
        for i in range(len(elections))
    )
    return plain.by_partition(elections.row, objects, len(partitions.leader))


_OFFSETS: Final = ("start_offset", "end_offset", "end_estimate_offset")
