"""Events of replicas that leave an ISR or join it, with what explains a shrink."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np

from twin.arrays.alignment import in_present_slots
from twin.arrays.slots import any_slot
from twin.declarations.declare import Occurrence, event
from twin.declarations.signature import Cycle, Earlier
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.isr.isr_verdicts import SENTENCE, Verdict
from twin.rules.partitions.leaders import Roles, assigned_brokers
from twin.tables.state import Assignment, Partitions


@event("isr_shrank", "isr_expanded")
def isr_changed(
    was_assignment: Earlier[Assignment],
    was_roles: Earlier[Roles],
    was_described: Earlier[Partitions],
    assignment: Assignment,
    roles: Roles,
    described: Partitions,
    shrinks: IsrShrinks,
    cycle: Cycle,
) -> Iterator[Occurrence]:
    """Replicas that left or joined an ISR between two polls."""
    both = (was_described.described_at_ms != UNKNOWN) & (described.described_at_ms != UNKNOWN)
    was = assigned_brokers(was_assignment, was_roles)
    now = assigned_brokers(assignment, roles)
    was_in_isr = in_present_slots(was, now, was_roles.in_isr, fill=False)
    here = now != NO_BROKER
    changed = both & any_slot(here & (was_in_isr != roles.in_isr))
    reasons = _reasons(shrinks, cycle.observed_at_ms)
    for row in np.flatnonzero(changed).tolist():
        isr = tuple(now[row][roles.in_isr[row] & here[row]].tolist())
        before = tuple(now[row][was_in_isr[row] & here[row]].tolist())
        left, joined = sorted(set(before) - set(isr)), sorted(set(isr) - set(before))
        if left:
            text = f"{{p}}: {_replicas(left)} left the ISR, {list(isr)} stay"
            text += reasons.get(row, "")
            yield Occurrence(text, row, "isr_shrank", before=before, after=isr)
        if joined:
            text = f"{{p}}: {_replicas(joined)} joined the ISR {list(isr)}"
            yield Occurrence(text, row, "isr_expanded", before=before, after=isr)


@event("elr_lost")
def elr_lost(
    was_assignment: Earlier[Assignment],
    was_roles: Earlier[Roles],
    was_described: Earlier[Partitions],
    assignment: Assignment,
    roles: Roles,
    described: Partitions,
) -> Iterator[Occurrence]:
    """Replicas that are no longer eligible, although no replica joined the ISR.

    The controller empties the ELR once enough replicas are in sync. Otherwise it takes out a broker
    that registers after a crash, and all if min.insync.replicas is changed, at any level.

    Source: ReplicationControlManager.handleUncleanBrokerShutdown, ClearElrRecord; KIP-966.
    """
    if not was_roles.in_elr.any():
        return
    both = (was_described.described_at_ms != UNKNOWN) & (described.described_at_ms != UNKNOWN)
    was = assigned_brokers(was_assignment, was_roles)
    now = assigned_brokers(assignment, roles)
    here = now != NO_BROKER
    was_in_isr = in_present_slots(was, now, was_roles.in_isr, fill=False)
    was_in_elr = in_present_slots(was, now, was_roles.in_elr, fill=False)
    grew = any_slot(here & roles.in_isr & ~was_in_isr)
    is_answer = both & described.elr_known & ~grew
    lost = here & was_in_elr & ~roles.in_elr & ~roles.in_isr & is_answer[:, None]
    for row in np.flatnonzero(any_slot(lost)).tolist():
        brokers = now[row][lost[row]].tolist()
        text = (
            f"{{p}}: {_replicas(brokers)} left the ELR without being in sync: the broker crashed, "
            "or min.insync.replicas was changed"
        )
        before = tuple(now[row][was_in_elr[row] & here[row]].tolist())
        after = tuple(now[row][roles.in_elr[row] & here[row]].tolist())
        yield Occurrence(text, row, before=before, after=after)


@event("isr_shrink_explained")
def isr_shrink_explained(was: Earlier[IsrShrinks], now: IsrShrinks) -> Iterator[Occurrence]:
    """Shrinks that a log reports, when more is known of them than a poll could observe.

    An ISR that shrinks and expands between two polls is reported only here.
    """
    explained_before = set(_explained(was))
    for facts in _explained(now):
        if facts in explained_before:
            continue
        row, leader, broker, at_ms, verdict, pending = facts
        text = f"{{p}}: replica {broker} left the ISR of {leader}: {SENTENCE[Verdict(verdict)]}"
        detail = f"{Verdict(verdict).name.lower()}/{pending}/{at_ms}"
        yield Occurrence(text + _KIP501_NOTE[pending], row, broker=broker, detail=detail)


_KIP501_NOTE: Final = {
    1: "; KIP-501 would have kept it",
    0: "; KIP-501 would not have kept it",
    UNKNOWN: "",
}


def _explained(shrinks: IsrShrinks) -> list[tuple[int, ...]]:
    is_explained = (shrinks.verdict != Verdict.UNEXPLAINED) | (shrinks.fetch_was_pending != UNKNOWN)
    rows = shrinks.pick((shrinks.logged_at_ms != UNKNOWN) & is_explained)
    columns = (
        rows.row, rows.leader, rows.broker, rows.logged_at_ms, rows.verdict,
        rows.fetch_was_pending,
    )  # fmt: skip
    return list(zip(*(values.tolist() for values in columns), strict=True))


def _reasons(shrinks: IsrShrinks, now_ms: int) -> dict[int, str]:
    """The explanation of this cycle's shrinks by row, in brackets; none for unexplained ones."""
    rows = shrinks.pick(shrinks.at_ms == now_ms)
    verdicts, kept = defaultdict[int, set[Verdict]](set), set[int]()
    for row, verdict, was_pending in zip(
        rows.row.tolist(), rows.verdict.tolist(), rows.fetch_was_pending.tolist(), strict=True
    ):
        if verdict != Verdict.UNEXPLAINED:
            verdicts[row].add(Verdict(verdict))
        if was_pending == 1:
            kept.add(row)
    texts = {}
    for row in verdicts.keys() | kept:
        reasons = [SENTENCE[verdict] for verdict in sorted(verdicts[row])]
        reasons += ["KIP-501 would have kept it"] if row in kept else []
        texts[row] = f" ({'; '.join(reasons)})"
    return texts


def _replicas(brokers: list[int]) -> str:
    return ("replica " if len(brokers) == 1 else "replicas ") + ", ".join(map(str, brokers))
