"""``plan order --watch``: keeps warm replicas first, and restores orders no longer needed.

Each round reads the newest snapshots, makes a plan, and applies as many changes as the rate allows.
The journal has every change, so the next start continues where this one ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from streaming.bus.connection import BusError
from streaming.bus.sender import Sender
from streaming.bus.view import ClusterView
from streaming.plans import events, journal
from streaming.plans.admin import Admin
from streaming.plans.apply import Applier, ChangeOutcome, ChangeResult, RateLimit
from streaming.plans.journal import Act, Journal
from streaming.plans.lock import LockTaken, WatchLock
from streaming.plans.order import plan_order
from streaming.plans.plan import Key, NotAllowed, Plan, PlanError, PlannedChange, partition_keys
from streaming.runtime.config import Config
from twin.arrays.plain import counted
from twin.plans.restore import is_all_warm
from twin.tables.state import Partitions

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The options of a watch."""

    preferred: bool
    per_minute: int
    every_s: float
    of_several: bool = False  # the configuration has several clusters


def watch(
    config: Config, folder: Path, terms: WatchOptions, read: Callable[[], ClusterView],
    stop: threading.Event, say: Say,
) -> None:  # fmt: skip
    """Run until stopped.

    Raises:
        Taken: another watch runs.
        NotAllowed: a right is missing.
        PlanError: the cluster cannot be reached at the start, or the folder cannot be written to.
        BusError: the bus cannot be reached at the start.
    """
    with (
        WatchLock(config) as lock,
        Admin(config) as admin,
        Journal(folder, origin := admin.origin(), of_several=terms.of_several) as written,
        Sender(config) as sender,
    ):
        applier = Applier(admin, written, RateLimit(terms.per_minute), stop)
        rounds = _Rounds(config, applier, written.path, terms, sender, say)
        while not stop.is_set():
            try:
                lock.check()
                if (here := admin.origin()) != origin:
                    raise PlanError(
                        f"{config.cluster.bootstrap} is the Kafka cluster {here.cluster_id} now, "
                        f"and was {origin.cluster_id}: nothing is changed"
                    )
                rounds.once(read())
            except (NotAllowed, LockTaken):
                raise
            except (BusError, PlanError) as error:  # brokers come back
                rounds.say_once(f"waiting: {error}")
            stop.wait(terms.every_s)


class _Rounds:
    """Runs the rounds; does not print a line that repeats the last one."""

    def __init__(
        self,
        config: Config,
        applier: Applier,
        path: Path,
        terms: WatchOptions,
        sender: Sender,
        say: Say,
    ) -> None:
        self._config, self._applier, self._path = config, applier, path
        self._terms, self._sender, self._say = terms, sender, say
        self._last_line = ""

    def once(self, view: ClusterView) -> None:
        now_ms = time.time_ns() // 1_000_000
        if old := view.why_not_up(now_ms):
            self.say_once(f"waiting: {old}")
            return
        plan = plan_order(view, now_ms, preferred=self._terms.preferred)
        self._report("order", self._applier.apply(plan.changes))
        _, changed = journal.read(self._path)
        self._report("restore", self._applier.apply(_restorable(view, changed), "restore"))
        self.say_once(_summary(plan, changed))

    def say_once(self, line: str) -> None:
        if line != self._last_line:
            self._last_line = line
            self._say(line)

    def _report(self, act: Act, results: Sequence[ChangeResult]) -> None:
        for result in results:
            if result.outcome is ChangeOutcome.DONE:
                change, now_ms = result.change, time.time_ns() // 1_000_000
                self._say(events.text(act, change))
                try:
                    events.send(self._config, self._sender, act, change, now_ms)
                except BusError as error:
                    self.say_once(f"event not written: {error}")
            elif result.outcome is ChangeOutcome.REFUSED:
                self.say_once(f"refused: {result.detail}")


def _restorable(view: ClusterView, changed: Mapping[Key, PlannedChange]) -> Iterator[PlannedChange]:
    """Original orders of partitions whose replicas are all warm.

    A partition that got another order since, from somebody else, is not restored.
    """
    for state in (shard.state for shard in view.shards):
        row = np.flatnonzero(is_all_warm(state))
        for place, key in zip(row.tolist(), partition_keys(state, row), strict=True):
            if (original := changed.get(key)) is not None:
                yield replace(
                    original,
                    replicas=original.planned,
                    planned=original.replicas,
                    leader=int(state[Partitions].leader[place]),
                    leader_epoch=int(state[Partitions].leader_epoch[place]),
                )


def _summary(plan: Plan, changed: Mapping[Key, PlannedChange]) -> str:
    unhelped = sum(len(names) for names in plan.undone.values())
    return (
        f"{counted(len(changed), 'partition has', 'partitions have')} an order of this watch; "
        f"{counted(len(plan.changes), 'is', 'are')} to be changed; {unhelped} cannot be helped"
    )
