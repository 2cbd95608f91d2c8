"""The batches that one cluster's tables have not taken, while the query went on for the others.

They are in the checkpoint, so that a program that is started again still owes them. Each is written
later under its own number: a table that had taken it takes it once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

import msgspec
import structlog

from streaming.archive.bus_records import Offsets
from streaming.query.state.folder import Folder

MOST_OWED: Final = 1_440
"""A day, with a batch a minute. What is older is a gap: the bus keeps no snapshot that long."""

log = structlog.get_logger("archive")


class OwedBatch(msgspec.Struct, frozen=True):
    """A batch, and where its records are in the topics of the cluster."""

    batch: int
    begins: Offsets
    ends: Offsets


class Owed:
    """Batches in order. Threads may use it at the same time."""

    def __init__(self, folder: Folder, cluster: str) -> None:
        """Read the batches that are owed since before this start.

        Raises:
            CheckpointError: the checkpoint cannot be read.
        """
        self._folder, self._file = folder, f"{cluster}.json"
        self._lock = threading.Lock()
        self._batches: list[OwedBatch] = []
        if self._file in folder.names():
            try:
                self._batches = msgspec.json.decode(folder.read(self._file), type=list[OwedBatch])
            except msgspec.MsgspecError as error:  # it was killed in the middle of writing it
                log.warning("unreadable", cluster=cluster, what=self._file, why=str(error))

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __iter__(self) -> Iterator[OwedBatch]:
        with self._lock:
            return iter([*self._batches])

    def add(self, owed: OwedBatch) -> None:
        """Owe one more.

        Raises:
            CheckpointError: the checkpoint cannot be written.
        """
        with self._lock:
            if owed.batch not in {each.batch for each in self._batches}:
                self._batches = [*self._batches, owed][-MOST_OWED:]
                self._write()

    def settle(self, owed: OwedBatch) -> None:
        """That one is written.

        Raises:
            CheckpointError: the checkpoint cannot be written.
        """
        with self._lock:
            self._batches = [each for each in self._batches if each.batch != owed.batch]
            self._write()

    def _write(self) -> None:
        if self._batches:
            self._folder.write(self._file, msgspec.json.encode(self._batches))
        else:
            self._folder.remove(self._file)
