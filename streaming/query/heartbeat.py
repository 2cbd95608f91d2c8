"""The heartbeat of a running query: a file in its checkpoint that it writes again and again.

A command that rewrites the checkpoint first checks whether that file changes. A query that ends
removes the file; a killed one leaves it, unchanging. Clocks are not compared, since those of two
machines differ. Files are not locked, since s3a has no locks.

A query that was frozen for ``SILENT_AFTER_S``, as on a paused machine, counts as killed. That loses
nothing: the checkpoint then has a batch that the query did not write, and Spark ends a query that
tries to write an existing batch.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from streaming.query.state.checkpoint import CheckpointError
from streaming.query.state.folder import Folder
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError

BEAT_EVERY_S: Final = 2.0
"""Some file systems keep times of files in whole seconds."""

SILENT_AFTER_S: Final = 12.0
"""A query whose heartbeat has not changed for this long was killed."""

_LOOK_EVERY_S: Final = 0.5
_FILE: Final = "heartbeat"

log = structlog.get_logger("query")

Say = Callable[[str], None]


class QueryRunsError(UserError):
    """A query uses the checkpoint."""


@contextmanager
def beating(spark: SparkSession, checkpoint: str) -> Iterator[None]:
    """Write the heartbeat while the block runs.

    Raises:
        CheckpointError: the checkpoint cannot be written.
    """
    folder, ended = Folder(spark, checkpoint), threading.Event()
    _write(folder)
    thread = threading.Thread(target=_beat, args=(folder, ended), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(SILENT_AFTER_S)
        # Under spark-submit a signal ends the JVM before this program; then the file stays.
        with suppress(CheckpointError, Py4JError, OSError):
            folder.remove(_FILE)


def _beat(folder: Folder, ended: threading.Event) -> None:
    is_failing = False
    while not ended.wait(BEAT_EVERY_S):
        try:
            _write(folder)
            is_failing = False
        except CheckpointError as error:
            if not is_failing:
                log.warning("unavailable", what="heartbeat", why=str(error))
            is_failing = True
        except (Py4JError, OSError):  # the JVM has ended
            return


def _write(folder: Folder) -> None:
    who = {"host": socket.gethostname(), "process": os.getpid()}
    folder.write(_FILE, json.dumps(who).encode())


def require_none(spark: SparkSession, checkpoint: str, say: Say) -> None:
    """Return once it is certain that no query uses the checkpoint.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        QueryRunsError: a query does.
    """
    folder = Folder(spark, checkpoint)
    first = now = folder.written_at_ms(_FILE)
    if first is None:
        return
    wait_s = f"{SILENT_AFTER_S:.0f} s"
    say(f"the query of {checkpoint} may still run: waiting {wait_s} for its next heartbeat")
    deadline = Deadline.after_s(SILENT_AFTER_S)
    while now == first and not deadline.is_over:
        time.sleep(_LOOK_EVERY_S)
        now = folder.written_at_ms(_FILE)
    if now not in (first, None):
        raise QueryRunsError(f"{checkpoint}: a query{_place(folder)} uses it; stop it first")


def _place(folder: Folder) -> str:
    """The place where the query runs, empty if the file is just being written."""
    with suppress(CheckpointError, ValueError, KeyError):
        who = json.loads(folder.read(_FILE))
        return f" (process {who['process']} on {who['host']})"
    return ""
