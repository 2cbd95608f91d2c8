"""The controllers' own record: every change of a partition, from the log of ``__cluster_metadata``.

Kafka's classes read the log (``java/MetadataLog.java``), so the twin's record is compared with
something that shares no code with it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streaming.lab.cluster_config import ClusterLayout
from streaming.runtime import jars
from streaming.runtime.errors import UserError

Key = tuple[str, int]  # topic and partition number

_READER: Final = Path(__file__).parent / "java" / "MetadataLog.java"
_DEADLINE_S: Final = 300.0
_FIRST_SEGMENT: Final = f"{0:020}.log"
_PLACES: Final = ("partitionId", "topicId", "directories")
"""Fields that say which partition it is, or on which disk: no election depends on them."""


class LogError(UserError, RuntimeError):
    """The controllers' log cannot be read; one line says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the controller about a partition that existed already."""

    key: Key
    at_ms: int
    offset: int
    old_leader: int
    new_leader: int
    fields: tuple[str, ...]  # that have another value than before

    @property
    def moves_leader(self) -> bool:
        """The partition has another leader than before."""
        return self.old_leader != self.new_leader


@dataclass(frozen=True, slots=True)
class ControllerLog:
    """First leader and later changes of each partition, in the order of the log."""

    first_leader: Mapping[Key, int]
    changes: Mapping[Key, Sequence[Change]]
    end_offset: int


def read(layout: ClusterLayout) -> ControllerLog:
    """The longest of the voters' logs, once the cluster is stopped.

    Raises:
        LogError: a log does not begin at offset 0, or Kafka's classes cannot read it.
    """
    logs = [parse(_lines(layout.folder(voter) / "data")) for voter in layout.voters]
    return max(logs, key=lambda log: log.end_offset)


def _lines(disk: Path) -> list[str]:
    segments = sorted((disk / "__cluster_metadata-0").glob("*.log"))
    if not segments or segments[0].name != _FIRST_SEGMENT:
        raise LogError(f"{disk}: the log of __cluster_metadata does not begin at offset 0")
    path = os.pathsep.join(map(str, jars.ensure("kafka")))
    # Java compiles a single source file as it starts it; that takes a JDK.
    command = [jars.java(), *jars.QUICK_START, "-cp", path, str(_READER), *map(str, segments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        raise LogError(f"{disk}: the log of __cluster_metadata cannot be read: {reason}")
    return done.stdout.splitlines()


def parse(lines: Iterable[str]) -> ControllerLog:
    """First leaders and changes from lines of ``MetadataLog``."""
    names: dict[str, str] = {}
    states: dict[Key, dict[str, Any]] = {}
    first_leader: dict[Key, int] = {}
    changes: dict[Key, list[Change]] = {}
    offset = -1
    for record in map(json.loads, lines):
        offset, kind, data = record["offset"], record["type"], record["data"]
        if kind == "TopicRecord":
            names[data["topicId"]] = data["name"]
        elif kind in ("PartitionRecord", "PartitionChangeRecord"):
            key = names[data["topicId"]], data["partitionId"]
            state = states.setdefault(key, {})
            changed = _changed(state, data)
            old_leader = state.get("leader")
            state |= {field: data[field] for field in changed}
            if old_leader is None:
                first_leader[key] = state["leader"]
                continue
            change = Change(key, record["at_ms"], offset, old_leader, state["leader"], changed)
            changes.setdefault(key, []).append(change)
    return ControllerLog(first_leader, changes, offset + 1)


def _changed(state: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[str, ...]:
    """Fields of a record whose value is another than that of the partition so far.

    A change leaves out what stays; a list that was never named is empty.
    """
    return tuple(
        sorted(
            field
            for field, value in data.items()
            if field not in _PLACES and value != state.get(field, [])
        )
    )
