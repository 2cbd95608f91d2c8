"""A simulated shard to which what happens to real clusters can be done, and which knows its truth.

Its truth is counted cycle by cycle, by plain loops over its partitions, and by nothing of the twin.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tests.simulator.shard import Shape, SimulatedShard, rows
from twin.declarations.table import NO_BROKER, Table
from twin.engine.frames import Frame
from twin.tables.enums import ReplicaFlags
from twin.tables.observations import BrokerMetricsFrame


@dataclass
class Truth:
    """What really happened, cycle by cycle."""

    offline: list[int] = field(default_factory=list)
    under_min_isr: list[int] = field(default_factory=list)
    remote_bytes_per_s: list[float] = field(default_factory=list)


class IncidentShard(SimulatedShard):
    """More that can happen: disks, settings, assignments, unclean elections, truncated logs."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        self.unclean = False
        self.failed_disks: set[tuple[int, int]] = set()  # row and slot
        self.remote_rates: dict[int, float] = {}  # bytes a second by broker
        self.truth = Truth()
        super().__init__(shape, seed)

    # ------------------------------------------------------------ what happens to it

    def lose_all(self, *brokers: int) -> None:
        """Several brokers at once."""
        for broker in brokers:
            self.alive[broker] = self.answers[broker] = False
        self._lead()

    def fail_disk(self, broker: int) -> None:
        """A log directory of the broker fails with all its replicas; the broker lives on."""
        truth = self._truth
        for row, slot in np.argwhere(truth.broker == broker).tolist():
            self.failed_disks.add((row, slot))
            if truth.isr[row].sum() > 1:
                truth.isr[row, slot] = False
            if truth.leader[row] == broker:
                able = [s for s in range(truth.broker.shape[1])
                        if truth.isr[row, s] and (row, s) not in self.failed_disks]  # fmt: skip
                truth.leader[row] = truth.broker[row, able[0]] if able else NO_BROKER
                truth.epoch[row] += 1

    def reassign(self, row: int, slot: int, broker: int) -> None:
        """Another broker has that replica now, in sync, and with the whole local log."""
        self._truth.broker[row, slot] = broker

    def require(self, min_isr: int) -> None:
        """min.insync.replicas of every topic; the collector reads settings in the next cycle."""
        self.shape = replace(self.shape, min_isr=min_isr)
        self._read_settings()

    def allow_unclean(self) -> None:
        """unclean.leader.election.enable is set."""
        self.unclean = True
        self._read_settings()

    def elect_unclean(self, row: int) -> None:
        """The first live replica leads, in sync or not; its log is what there is."""
        truth = self._truth
        for slot, broker in enumerate(truth.broker[row].tolist()):
            if self.alive[broker]:
                truth.isr[row] = False
                truth.isr[row, slot] = True
                truth.leader[row] = broker
                truth.epoch[row] += 1
                return

    def cut_log(self, row: int, slot: int, records: int) -> None:
        """That replica has fewer records."""
        self._truth.end[row, slot] -= records

    def make_cold(self, broker: int) -> None:
        """Its local logs hold little, as after it replaced a disk."""
        here = self._truth.broker == broker
        self._truth.local = np.where(here, self._truth.end - 1_000, self._truth.local)

    def leaders_of(self, broker: int) -> list[int]:
        """The rows that a broker leads."""
        found: list[int] = np.flatnonzero(self._truth.leader == broker).tolist()
        return found

    def name(self, row: int) -> tuple[str, int]:
        """Topic and number."""
        topic, _ = self.topics[int(self._truth.topic[row])]
        return topic, int(self._truth.partition[row])

    def _read_settings(self) -> None:
        self.cycle -= self.cycle % 12  # the next observation has settings

    # ------------------------------------------------------------ what a collector would see

    def observe(self, at_ms: int) -> list[Frame]:
        """All frames of one cycle; the truth of it is counted."""
        self._count()
        frames = super().observe(at_ms)
        if self.remote_rates:
            frames.append(Frame(self._header(BrokerMetricsFrame.kind, at_ms), self._metrics(at_ms)))
        return frames

    def _count(self) -> None:
        truth, offline, under = self._truth, 0, 0
        for row, leader in enumerate(truth.leader.tolist()):
            offline += leader == NO_BROKER
            in_sync = int(truth.isr[row].sum())
            under += leader != NO_BROKER and in_sync < self.shape.min_isr
        self.truth.offline.append(offline)
        self.truth.under_min_isr.append(under)
        alive = (rate for broker, rate in self.remote_rates.items() if self.alive[broker])
        self.truth.remote_bytes_per_s.append(sum(alive))

    def _metrics(self, at_ms: int) -> pa.Table:
        brokers = list(self.remote_rates)
        columns: dict[str, Any] = {
            column.name: np.full(len(brokers), np.nan) for column in BrokerMetricsFrame.columns
        }
        columns |= {
            "broker": brokers,
            "measured_at_ms": np.full(len(brokers), at_ms),
            "remote_fetch_bytes_per_s": list(self.remote_rates.values()),
            "remote_fetch_requests_per_s": [rate / 1_000 for rate in self.remote_rates.values()],
        }
        return rows(BrokerMetricsFrame, **columns)

    def _partitions(self) -> tuple[type[Table], pa.Table]:
        kind, table = super()._partitions()
        if not self.failed_disks:
            return kind, table
        flags = table.column("replica_flags").to_pylist()
        for row, slot in self.failed_disks:
            flags[row][slot] |= int(ReplicaFlags.OFFLINE)
        at = table.column_names.index("replica_flags")
        column = pa.array(flags, table.schema.field(at).type)
        return kind, table.set_column(at, table.schema.field(at), column)

    def _configs(self) -> tuple[type[Table], pa.Table]:
        kind, table = super()._configs()
        if not self.unclean:
            return kind, table
        at = table.column_names.index("unclean_leader_election")
        values = pa.array(np.ones(len(table), np.int8), table.schema.field(at).type)
        return kind, table.set_column(at, table.schema.field(at), values)
