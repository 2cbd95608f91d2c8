"""Applies changes one by one. Each partition is read again just before it is changed.

The plan is based on a snapshot that is some seconds old. So a partition is only changed if it still
has the replicas, the order and the leader epoch of that snapshot.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from streaming.plans.admin import Admin, ChangeRefused, LivePartition
from streaming.plans.journal import Act, Journal
from streaming.plans.plan import Key, Plan, PlannedChange
from streaming.runtime.deadline import Deadline
from twin.declarations.table import NO_BROKER

DONE_WITHIN_S: Final = 10.0
"""For one partition. Kafka 4.3 applied a new order after 0.13 s (measured)."""

ANEW_WITHIN_S: Final = 60.0
"""Time for the twin to observe a change: several cycles."""

ANEW_EVERY_S: Final = 2.0


class ChangeOutcome(Enum):
    """The result of a change; the value follows the number of partitions in a sentence."""

    DONE = "changed"
    NOT_NEEDED = "as planned already"
    CHANGED_MEANWHILE = "left alone (another order or leader epoch than the twin has observed)"
    OTHER_REPLICAS = "left alone (other replicas than planned for)"
    REASSIGNING = "left alone (being reassigned)"
    GONE = "deleted, or created anew"
    REFUSED = "refused by Kafka"
    INTERRUPTED = "not reached before the end"


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """A change and its outcome."""

    change: PlannedChange
    outcome: ChangeOutcome
    detail: str = ""


class RateLimit:
    """A limit of ``per_minute`` changes in any 60 seconds."""

    def __init__(self, per_minute: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._now_s = per_minute, now_s
        self._at_s: deque[float] = deque(maxlen=per_minute)

    @property
    def left_s(self) -> float:
        """Seconds until the next change is allowed."""
        if len(self._at_s) < self._per_minute:
            return 0.0
        return max(0.0, self._at_s[0] + 60.0 - self._now_s())

    def count(self) -> None:
        """Count a change that is made now."""
        self._at_s.append(self._now_s())


class Applier:
    """Applies changes within a rate, and keeps the journal."""

    def __init__(
        self, admin: Admin, journal: Journal, limit: RateLimit, stop: threading.Event
    ) -> None:
        self._admin, self._journal, self._limit, self._stop = admin, journal, limit, stop

    def apply(self, changes: Iterable[PlannedChange], act: Act = "order") -> list[ChangeResult]:
        """Apply the changes in order, as far as the rate allows now, until the stop.

        Raises:
            PlanError: the cluster does not answer, or a right is missing.
        """
        results = []
        for change in changes:
            if self._stop.is_set() or self._limit.left_s > 0:
                break
            results.append(self._one(change, act))
        return results

    def apply_all(self, plan: Plan, again: Callable[[], Plan]) -> list[ChangeResult]:
        """Apply a plan, waiting when the rate requires it; ``again`` makes a new plan after a wait.

        A partition that has changed since it was observed is planned again, until the twin has
        observed the change or ``ANEW_WITHIN_S`` have passed.

        Raises:
            PlanError: the cluster does not answer, a right is missing, or the twin is stale.
        """
        settled: dict[Key, ChangeResult] = {}
        left = list(plan.changes)
        deadline = Deadline.after_s(ANEW_WITHIN_S)
        while left:
            tried = {result.change.key: result for result in self.apply(left)}
            waits = len(tried) < len(left)  # wait for the rate
            settled |= tried
            anew = {k for k, r in settled.items() if r.outcome is ChangeOutcome.CHANGED_MEANWHILE}
            if self._stop.is_set() or (not waits and (not anew or deadline.is_over)):
                break
            if self._stop.wait(max(self._limit.left_s, ANEW_EVERY_S)):
                break
            if waits:
                deadline = Deadline.after_s(ANEW_WITHIN_S)
            planned = again().changes
            left = [c for c in planned if c.key in anew or c.key not in settled]
            for key in anew - {change.key for change in left}:
                settled[key] = ChangeResult(settled[key].change, ChangeOutcome.NOT_NEEDED)
        missed = [ChangeResult(c, ChangeOutcome.INTERRUPTED) for c in left if c.key not in settled]
        return [*settled.values(), *missed]

    def restore_all(self, originals: Iterable[PlannedChange]) -> list[ChangeResult]:
        """Restore the recorded orders of partitions, whatever their present order is.

        Raises:
            PlanError: the cluster does not answer, or a right is missing.
        """
        results: list[ChangeResult] = []
        for original in originals:
            if self._stop.wait(self._limit.left_s):
                results.append(ChangeResult(original, ChangeOutcome.INTERRUPTED))
                continue
            live = self._admin.read(*original.key)
            results += self.apply([reversal(original, live)], "restore")
        return results

    def _one(self, change: PlannedChange, act: Act) -> ChangeResult:
        live = self._admin.read(*change.key)
        if live is None or live.topic_id != change.topic_id:
            return ChangeResult(change, ChangeOutcome.GONE)
        if (reason := _reason_against(change, live)) is not None:
            if reason is ChangeOutcome.NOT_NEEDED and act == "restore":
                self._journal.done(act, change, _now_ms())
            return ChangeResult(change, reason)
        self._limit.count()
        self._journal.begin(act, change, _now_ms())
        try:
            if live.replicas != change.planned:
                self._admin.reorder(change, DONE_WITHIN_S)
            if change.elect not in (NO_BROKER, live.leader):
                self._admin.elect_preferred(change, DONE_WITHIN_S)
        except ChangeRefused as error:
            return ChangeResult(change, ChangeOutcome.REFUSED, str(error))
        self._journal.done(act, change, _now_ms())
        return ChangeResult(change, ChangeOutcome.DONE)


def reversal(original: PlannedChange, live: LivePartition | None) -> PlannedChange:
    """The change from Kafka's present order back to the original one.

    It also moves the leadership back, if the replica in slot 0 was the leader.
    """
    back = replace(
        original,
        replicas=original.planned,
        planned=original.replicas,
        elect=original.replicas[0]
        if original.elect != NO_BROKER and original.leader == original.replicas[0]
        else NO_BROKER,
    )
    if live is None:
        return back
    same = set(live.replicas) == set(original.replicas)
    return replace(
        back,
        replicas=live.replicas if same else back.replicas,
        leader=live.leader,
        leader_epoch=live.leader_epoch,
    )


def _reason_against(change: PlannedChange, live: LivePartition) -> ChangeOutcome | None:
    """Why the change must not or need not be made; None if it should be made."""
    if live.is_reassigning:
        return ChangeOutcome.REASSIGNING
    if set(live.replicas) != set(change.planned):
        return ChangeOutcome.OTHER_REPLICAS
    if live.replicas == change.planned and change.elect in (NO_BROKER, live.leader):
        return ChangeOutcome.NOT_NEEDED
    if live.replicas != change.replicas or live.leader_epoch != change.leader_epoch:
        return ChangeOutcome.CHANGED_MEANWHILE
    return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
