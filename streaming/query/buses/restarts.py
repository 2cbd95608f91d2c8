"""Starting a query again if it ended by a cause that passes, in the JVM that runs.

Before the first batch of ``transformWithState`` Spark starts a Python worker on the driver, and
ends the query if that has not connected within 10 s; no setting changes this. On a busy machine
10 s are too short, and ending the whole program made it worse: each start of a JVM kept the machine
busy (seen: four starts in five minutes, and no batch). In the JVM that runs, the next worker is
sooner.

Spark also ends a query whose source asks for offsets in vain for a minute or two: the broker that
leads a partition is frozen, and no other replica can lead it.

Source: PythonWorkerFactory.createSimpleWorker and KafkaOffsetReaderAdmin.withRetries, Spark 4.2.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog

from streaming.runtime.errors import UserError

STARTS: Final = 5
"""A query that can never start fails with the same messages, so it is started so often at most."""

_RAN_S: Final = 600.0
"""A query that ran for so long had started, and the next start is a first one."""

_PASSING: Final = {
    "Python worker failed to connect back": "Spark waits 10 s",
    ": TimeoutException: ": "a broker does not answer, or a partition has no leader",
    "UnknownTopicOrPartitionException": "a topic of the bus was deleted, and is made anew",
}
"""Parts of the line that says why a query has ended, and what to say beside it."""

log = structlog.get_logger("query")


def run_despite_passing_causes(
    run: Callable[[], None], clock: Callable[[], float] = time.monotonic
) -> None:
    """Start a query and watch it, again when it ends by a cause that passes.

    Args:
        run: starts the query, and returns once it was stopped.
        clock: counts seconds.

    Raises:
        UserError: of ``run``, whose query has ended for another reason, or too often for these.
    """
    start = 1
    while True:
        began_s = clock()
        try:
            return run()
        except UserError as error:
            known = [said for part, said in _PASSING.items() if part in str(error)]
            if clock() - began_s > _RAN_S:
                start = 1
            if not known or start == STARTS:
                raise
            start += 1
            why = f"{str(error).rstrip('.')}: {known[0]}"
            log.warning("starting again", start=start, of=STARTS, why=why)
