"""The batches that one cluster's tables have not taken, while the query went on for the others.

They are in the checkpoint, so that a program that is started again still owes them. After a
failure or a start the first may be in some tables already: it is written under its own number,
which a table takes once. The others were not begun, and are joined to a few: one by one they took
as long as new ones came.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from streaming.archive.bus_records import Offsets
from streaming.query.state.folder import Folder
from twin.declarations.table import UNKNOWN

MOST_OWED: Final = 1_440
"""A day, with a batch a minute. What is older is a gap: the bus keeps no snapshot that long."""

MOST_JOINED: Final = 5
"""Their records are in memory together: those of a large cluster in a batch are 100 MB."""

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
        self._written = UNKNOWN  # the newest batch that all tables have, since this start
        self._lock = threading.Lock()
        self._batches: list[OwedBatch] = []
        if self._file in folder.names():
            try:
                self._batches = msgspec.json.decode(folder.read(self._file), type=list[OwedBatch])
            except msgspec.MsgspecError as error:  # it was killed in the middle of writing it
                log.warning("unreadable", cluster=cluster, what=self._file, why=str(error))

    def __bool__(self) -> bool:
        return bool(self._batches)

    def first(self, before: int, *, is_begun: bool) -> OwedBatch | None:
        """The first one, if its number is below ``before``; several joined if it is not begun.

        Raises:
            CheckpointError: the checkpoint cannot be written.
        """
        with self._lock:
            if not is_begun:
                self._become(with_first_joined(self._batches, before))
            first = self._batches[0] if self._batches else None
        return first if first is not None and first.batch < before else None

    def add(self, owed: OwedBatch) -> None:
        """Owe one more, unless it was written meanwhile.

        Raises:
            CheckpointError: the checkpoint cannot be written.
        """
        with self._lock:
            known = {each.batch for each in self._batches}
            if owed.batch > self._written and owed.batch not in known:
                self._become([*self._batches, owed][-MOST_OWED:])

    def settle(self, batch: int) -> None:
        """All tables have that batch, owed or not, and all before it.

        Raises:
            CheckpointError: the checkpoint cannot be written.
        """
        with self._lock:
            self._written = batch
            self._become([each for each in self._batches if each.batch > batch])

    def _become(self, batches: list[OwedBatch]) -> None:
        if batches != self._batches:
            self._batches = batches
            self._write()

    def _write(self) -> None:
        if self._batches:
            self._folder.write(self._file, msgspec.json.encode(self._batches))
        else:
            self._folder.remove(self._file)


def with_first_joined(batches: Sequence[OwedBatch], before: int) -> list[OwedBatch]:
    """The batches, of which the first ones below ``before`` are one.

    Its number is that of its last: no table has taken any of them.
    """
    several = [each for each in batches if each.batch < before][:MOST_JOINED]
    if not several:
        return [*batches]
    last = several[-1]
    return [OwedBatch(last.batch, several[0].begins, last.ends), *batches[len(several) :]]
