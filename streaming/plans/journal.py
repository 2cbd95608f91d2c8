"""A file of the changes that were made, which outlives the process that makes them.

One line is written before the request to Kafka, and another one when the change is done. With only
the first line it is unknown which order the partition has, so restoring reads it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from streaming.plans.files import as_json, change_from
from streaming.plans.plan import Key, Origin, PlanError, PlannedChange

FILE: Final = "journal.jsonl"

Act = Literal["order", "restore"]


class Journal:
    """Appends to the journal in a folder. Each line is on disk before the method returns."""

    def __init__(self, folder: Path, origin: Origin, *, of_several: bool = False) -> None:
        """Open the journal; create it if it does not exist.

        Args:
            folder: where it is.
            origin: the cluster that is changed.
            of_several: the configuration has several clusters.

        Raises:
            PlanError: it cannot be written, or belongs to another cluster.
        """
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8")
            self._lock()
            _cut_torn_line(self.path)
        except OSError as error:
            raise PlanError(f"{self.path}: {error.strerror}") from None
        if self.path.stat().st_size == 0:
            self._append({"journal": 1, "cluster": origin.cluster, "cluster_id": origin.cluster_id})
            return
        try:
            _origin(_header(self.path)).require(self.path, origin, of_several=of_several)
        except PlanError:
            self._file.close()
            raise

    def _lock(self) -> None:
        """Lock the file for this process; the system unlocks it when the process ends."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise PlanError(f"{self.path} is in use by another plan") from None

    def begin(self, act: Act, change: PlannedChange, at_ms: int) -> None:
        """Note that the request for the change is sent next."""
        self._append({"state": "begun", "act": act, "at_ms": at_ms, **as_json(change)})

    def done(self, act: Act, change: PlannedChange, at_ms: int) -> None:
        """Note that Kafka has the new order, and the new leader if one was to be elected."""
        self._append({"state": "done", "act": act, "at_ms": at_ms, **as_json(change)})

    def _append(self, value: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(value) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _cut_torn_line(path: Path) -> None:
    """Remove an incomplete last line: its writer was killed."""
    content = path.read_bytes()
    os.truncate(path, content.rfind(b"\n") + 1)


def read(path: Path) -> tuple[Origin, dict[Key, PlannedChange]]:
    """The cluster, and the changes to restore by partition, from a journal or a restore file.

    Several changes of a partition are merged, from its first order to the last planned one.

    Raises:
        PlanError: the file cannot be read, or is neither of them.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}") from None
    try:
        if text.startswith('{"journal"'):
            return _origin(_header(path)), _changed(_lines(text)[1:])
        value = json.loads(text)
        them = [change_from(each) for each in value["partitions"]]
        return _origin(value), {change.key: change for change in them}
    except (KeyError, TypeError, ValueError):
        raise PlanError(f"{path} is neither a journal of a plan nor a restore file") from None


def _origin(value: Mapping[str, Any]) -> Origin:
    return Origin(str(value["cluster"]), str(value.get("cluster_id", "")))


def _changed(lines: Sequence[Mapping[str, Any]]) -> dict[Key, PlannedChange]:
    changed: dict[Key, PlannedChange] = {}
    for line in lines:
        change = change_from(line)
        if line["act"] == "restore":
            if line["state"] == "done":
                changed.pop(change.key, None)
            continue
        first = changed.get(change.key)
        if first is not None and first.topic_id == change.topic_id:
            change = PlannedChange(
                first.topic, first.topic_id, first.partition, first.replicas, change.planned,
                first.leader, first.leader_epoch, change.elect,
            )  # fmt: skip
        changed[change.key] = change
    return changed


def _lines(text: str) -> list[dict[str, Any]]:
    """All complete lines, without an incomplete last one."""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def _header(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as file:
        value: dict[str, Any] = json.loads(file.readline())
        return value
