"""Finds out why no batch ends: its tasks do not run, they fail, or they take long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import structlog
from pyspark import SparkContext

from streaming.query.state.checkpoint import is_local
from streaming.runtime.deadline import Deadline

log = structlog.get_logger("query")


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of a stage that has begun."""

    number: int
    active: int
    failed: int
    completed: int


class StallKind(Enum):
    """Reasons why a batch does not end."""

    NO_EXECUTOR = auto()
    TASKS_FAIL = auto()
    NO_FREE_CORE = auto()
    TASKS_RUN = auto()
    NO_TASK = auto()
    FAILED = auto()  # it ended by itself, and is tried again while others run


@dataclass(frozen=True, slots=True)
class StallCause:
    """Why no batch ends."""

    kind: StallKind
    text: str

    @property
    def is_problem(self) -> bool:
        """Whether somebody has to act."""
        return self.kind not in (StallKind.TASKS_RUN, StallKind.NO_TASK)


def cause(executors: int, stages: Sequence[Tasks]) -> StallCause:
    """The most likely cause.

    Args:
        executors: how many have registered; the driver is one where the master is local.
        stages: those that are active.
    """
    failed = sum(stage.failed for stage in stages)
    active = sum(stage.active for stage in stages)
    left = sum(stage.number - stage.completed for stage in stages)
    if not executors:
        return StallCause(
            StallKind.NO_EXECUTOR,
            "no executor has registered; Spark's master has none to give, or they cannot reach "
            "the driver (spark.driver.host)",
        )
    if failed:
        text = f"failed tasks: {failed}; they are tried again, and logs of the executors say why"
        return StallCause(StallKind.TASKS_FAIL, text)
    if left and not active:
        return StallCause(StallKind.NO_FREE_CORE, f"tasks that wait for a free core: {left}")
    if left:
        text = f"running tasks: {active}, waiting tasks: {left - active}"
        return StallCause(StallKind.TASKS_RUN, text)
    return StallCause(StallKind.NO_TASK, "the driver works, or waits for the brokers of the bus")


def observed_cause(context: SparkContext) -> StallCause:
    """The present cause in a session."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    # PySpark's status tracker lacks the data about executors, unlike Spark's.
    infos = context._jsc.sc().statusTracker().getExecutorInfos()
    executors = len(infos) - (0 if is_local(context.master or "") else 1)
    return cause(
        executors,
        [
            Tasks(s.numTasks, s.numActiveTasks, s.numFailedTasks, s.numCompletedTasks)
            for s in stages
            if s is not None
        ],
    )


class Stall:
    """Logs why no batch ends, once it takes as long as three cycles of the collector.

    ``why`` is the cause; None while batches end.
    """

    def __init__(self, context: SparkContext, patience_s: float) -> None:
        self._context, self._patience_s = context, patience_s
        self.end()

    def end(self) -> None:
        """Note that a batch has ended, or that none runs."""
        self._due = Deadline.after_s(self._patience_s)
        self.why: StallCause | None = None

    def check(self) -> None:
        """While a batch runs: log why it takes long, and log again when the cause changes."""
        if not self._due.is_over:
            return
        before, self.why = self.why, observed_cause(self._context)
        if before is None or self.why.kind is not before.kind:
            say = log.warning if self.why.is_problem else log.info
            say("no batch has ended", for_s=round(self._patience_s), why=self.why.text)
