"""Frames about log directories, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.builders import NOW_MS, Partition, replicas_frame
from tests.simulator.shard import rows
from twin.declarations.table import UNKNOWN
from twin.engine.frames import Frame, FrameHeader
from twin.rules.brokers.log_dirs import LogDirsFrame, ReplicaDirsFrame


@dataclass(frozen=True)
class Directory:
    """A log directory; it holds nothing, and has a volume of its own, unless stated otherwise."""

    broker: int = 1
    number: int = 0
    total: int = 1_000_000
    usable: int = 400_000
    error: int = 0
    replicas: int = 0
    future: int = 0
    unassigned: int = 0
    unlisted: int = 0
    volume: int | None = None
    is_cordoned: int = 0
    warn_before_ms: int = 86_400_000
    page_before_ms: int = 14_400_000

    @property
    def path(self) -> str:
        return f"/disks/{self.number}"


def failed(broker: int = 1, number: int = 0) -> Directory:
    """A directory that has failed: its broker knows nothing of it."""
    return Directory(broker, number, UNKNOWN, UNKNOWN, error=56)


def log_dirs_frame(given: Sequence[Directory], at_ms: int = NOW_MS, **stamp: Any) -> Frame:
    table = rows(
        LogDirsFrame,
        broker=[d.broker for d in given],
        log_dir=[d.path for d in given],
        number=[d.number for d in given],
        volume=[d.number if d.volume is None else d.volume for d in given],
        total_bytes=[d.total for d in given],
        usable_bytes=[d.usable for d in given],
        size_is_configured=[False for _ in given],
        warn_before_ms=[d.warn_before_ms for d in given],
        page_before_ms=[d.page_before_ms for d in given],
        error_code=[d.error for d in given],
        is_cordoned=[d.is_cordoned for d in given],
        replica_bytes=[d.replicas for d in given],
        future_bytes=[d.future for d in given],
        unassigned_bytes=[d.unassigned for d in given],
        unlisted_bytes=[d.unlisted for d in given],
    )
    header = {"cluster": "c", "shard": 0, "shards": 1, "cycle": at_ms % 1_000_000, **stamp}
    return Frame(FrameHeader(LogDirsFrame.kind, observed_at_ms=at_ms, **header), table)


def replica_dirs_frame(
    given: Sequence[tuple[Partition, int, int]], at_ms: int = NOW_MS, **stamp: Any
) -> Frame:
    """(partition, broker, number of the directory) of each replica."""
    listed = [
        replicas_frame([Partition(p.topic, p.number, (broker,), topic_id=p.topic_id)], at_ms).rows
        for p, broker, _ in given
    ]
    keys = [name for name in ReplicaDirsFrame.schema().names if name != "number"]
    joined = pa.concat_tables([each.select(keys) for each in listed]) if listed else None
    table = (
        ReplicaDirsFrame.schema().empty_table()
        if joined is None
        else joined.unify_dictionaries()
        .combine_chunks()
        .append_column("number", pa.array([n for *_, n in given], pa.int8()))
        .cast(ReplicaDirsFrame.schema())
    )
    header = {"cluster": "c", "shard": 0, "shards": 1, "cycle": at_ms % 1_000_000, **stamp}
    return Frame(FrameHeader(ReplicaDirsFrame.kind, observed_at_ms=at_ms, **header), table)
