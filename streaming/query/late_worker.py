"""Starting a query again if Spark gave up on its Python worker.

Before the first batch of ``transformWithState`` Spark starts a Python worker on the driver, and
ends the query if that has not connected within 10 s; no setting changes this. On a busy machine
10 s are too short, and ending the whole program made it worse: each start of a JVM kept the machine
busy (seen: four starts in five minutes, and no batch). In the JVM that runs, the next worker is
sooner.

Source: PythonWorkerFactory.createSimpleWorker, Spark 4.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from streaming.runtime.errors import UserError

STARTS: Final = 5
"""A worker that cannot start at all looks the same, so this is not tried for ever."""

_LATE: Final = "Python worker failed to connect back"

log = structlog.get_logger("query")


def run_despite_late_worker(run: Callable[[], None]) -> None:
    """Start a query and watch it, again for as long as its Python worker is late.

    Args:
        run: starts the query, and returns once it was stopped.

    Raises:
        UserError: of ``run``, whose query has ended for another reason, or too often for this one.
    """
    for start in range(1, STARTS + 1):
        try:
            return run()
        except UserError as error:
            if _LATE not in str(error) or start == STARTS:
                raise
            log.warning(
                "starting again", start=start + 1, of=STARTS, why=f"{error} Spark waits 10 s"
            )
