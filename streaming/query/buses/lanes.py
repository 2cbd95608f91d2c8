"""Which clusters share a query, and where each query has its checkpoint.

A batch has a fixed cost, so small clusters of a bus share a query. Large ones share another: in a
batch with them the small ones would wait. They have none of their own each: every query looks for
cycles all the time, and starts a Python worker of its own, all of them at the same moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from streaming.bus.connection import Bus
from streaming.bus.shards import SHARDS_FOR_CORES
from streaming.query.state.checkpoint import location
from streaming.query.state.folder import Folder
from streaming.runtime.config import Config

LARGE_FROM_SHARDS: Final = SHARDS_FOR_CORES
"""One of more than 37 500 replicas: its cycle takes as long as those of many small clusters."""

_OWNER: Final = "bus"
"""A file in the checkpoint: the bus whose shared query has the checkpoint itself."""

_BUSES: Final = "buses"
_LARGE: Final = "large"


class Lane(NamedTuple):
    """A query: of the small clusters of a bus, or of its large ones."""

    bus: Bus
    is_large: bool = False

    def __str__(self) -> str:
        return f"{self.bus.bootstrap}{', large clusters' if self.is_large else ''}"


def by_bus(configs: Iterable[Config]) -> dict[Bus, list[Config]]:
    """The clusters of each bus, in the order in which they are configured."""
    found: dict[Bus, list[Config]] = {}
    for config in configs:
        found.setdefault(Bus.of(config), []).append(config)
    return found


def by_lane(known: Iterable[Config], *, is_fleet: bool) -> dict[Lane, list[Config]]:
    """The clusters of each query.

    Args:
        known: the clusters, with their numbers of shards.
        is_fleet: there may be several clusters.
    """
    found: dict[Lane, list[Config]] = {}
    for config in known:
        is_large = is_fleet and config.bus.shards >= LARGE_FROM_SHARDS
        found.setdefault(Lane(Bus.of(config), is_large), []).append(config)
    return found


def checkpoints_in(spark: SparkSession, checkpoint: str) -> list[str]:
    """The checkpoints of all queries that have been started there, as Spark takes them.

    Raises:
        CheckpointError: the checkpoint cannot be used.
    """
    base = location(checkpoint)
    others = sorted(Folder(spark, f"{base}/{_BUSES}").names())
    of_buses = [base, *(f"{base}/{_BUSES}/{name}" for name in others)]
    found = [each for bus in of_buses for each in (bus, f"{bus}/{_LARGE}")]
    return [each for each in found if Folder(spark, f"{each}/offsets").names()]


class Checkpoints:
    """The folders of the queries in one checkpoint.

    The query that small clusters share has the checkpoint itself, as that of a single cluster.
    Queries of other buses have folders in it, and that of large clusters has one beside the others.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str, buses: Sequence[Bus], *, is_fleet: bool
    ) -> None:
        """Find or decide which of the buses has the checkpoint itself.

        Raises:
            CheckpointError: the checkpoint cannot be used.
        """
        self._base = location(checkpoint)
        self._owner = buses[0].folder
        if not is_fleet:
            return
        folder = Folder(spark, self._base)
        if folder.written_at_ms(_OWNER) is not None:
            written = folder.read(_OWNER).decode()
            own = Folder(spark, f"{self._base}/{_BUSES}/{self._owner}")
            if len(buses) > 1 or own.names():  # else the only bus has got other addresses
                self._owner = written
        folder.write(_OWNER, self._owner.encode())

    def of(self, lane: Lane) -> str:
        """The checkpoint of a query, as Spark takes it."""
        is_owner = lane.bus.folder == self._owner
        shared = self._base if is_owner else f"{self._base}/{_BUSES}/{lane.bus.folder}"
        return f"{shared}/{_LARGE}" if lane.is_large else shared
