"""Leaders on hot disks: an observation, what is kept of it, and a rule, all from elsewhere."""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.declare import Alert, api_field, gauge, ingest, risk, rule
from twin.declarations.table import (
    UNKNOWN,
    Bool,
    Int32,
    Int64,
    KeyedTable,
    Observation,
    PartitionTable,
    column,
)
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.tables.state import Partitions

HOT_CELSIUS: Final = 60


class DiskTemperaturesFrame(Observation, kind="disk_temperatures"):
    """[N] one row a broker whose sensor was read."""

    broker: Int32 = column("broker id")
    celsius: Int64 = column("temperature of its hottest disk")


class DiskTemperatures(KeyedTable, kind="held_disk_temperatures"):
    """[K] the newest temperature of each broker."""

    broker: Int32 = column("broker id")
    celsius: Int64 = column("temperature of its hottest disk")


class LeaderDisks(PartitionTable, kind="leader_disks"):
    """[P] the temperature of the disk that each partition is led from."""

    celsius: Int64 = column("temperature of the leader's hottest disk")


@ingest(DiskTemperaturesFrame)
def take_temperatures(state: ShardState, frame: Frame) -> ShardState:
    """The newest of each broker."""
    read = DiskTemperatures.from_values(
        to_numpy(frame.rows.column(c.name)) for c in frame.rows.schema
    )
    return state.with_tables(state[DiskTemperatures].with_rows(read, "broker"))


@rule
def leader_disks(partitions: Partitions, temperatures: DiskTemperatures) -> LeaderDisks:
    """The disk of each leader, unknown without a leader or without a sensor."""
    celsius = np.full(len(partitions.leader), UNKNOWN, np.int64)
    for broker, degrees in zip(temperatures.broker, temperatures.celsius, strict=True):
        celsius[partitions.leader == broker] = degrees
    return LeaderDisks(celsius)


@risk(
    "leader_disk_hot",
    rank=500,
    severity="warn",
    sentence="its leader reads and writes a hot disk",
    source="a sensor",
    alert=Alert(
        summary="are led from a hot disk",
        description="{n} partitions of {cluster} are led from a disk of 60 degrees or more.",
        wait="1m",
        keep_firing_for="1m",
    ),
)
def is_hot(disks: LeaderDisks) -> Bool:
    """The leader's disk is at HOT_CELSIUS or above."""
    hot: Bool = disks.celsius >= HOT_CELSIUS
    return hot


@gauge("leader_disk_celsius", "Temperature of the disk of the leader.", level="partition")
def leader_disk_celsius(disks: LeaderDisks) -> Int64:
    """The temperatures; unknown ones have no series."""
    return disks.celsius


@api_field("leader_disk_celsius", "temperature of the leader's disk, null if unknown")
def leader_disk_field(disks: LeaderDisks) -> list[int | None]:
    """One number a partition."""
    return [None if degrees == UNKNOWN else degrees for degrees in disks.celsius.tolist()]
