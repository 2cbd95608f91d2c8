"""What functions of metrics and risks return beside numbers and arrays of all partitions."""

from __future__ import annotations

from dataclasses import dataclass

from twin.declarations.table import Array


@dataclass(frozen=True, slots=True)
class KnownValues:
    """Values with a mask of the known ones, for values that may be negative."""

    values: Array
    is_known: Array


@dataclass(frozen=True, slots=True)
class OfRows:
    """[N] values of a few partitions, by row."""

    row: Array
    values: Array


@dataclass(frozen=True, slots=True)
class OfReplicas:
    """[N] values of a few replicas, by row and slot."""

    row: Array
    slot: Array
    values: Array


@dataclass(frozen=True, slots=True)
class ByBroker:
    """[N] brokers with a number each, added up by broker. Without numbers, each counts as 1.

    A broker that is not listed has the value 0, or no value if ``named_only`` is set.
    """

    broker: Array
    values: Array | None = None
    named_only: bool = False


@dataclass(frozen=True, slots=True)
class ByLogDir:
    """[N] log directories, by broker and path, with a number each."""

    broker: Array
    log_dir: Array
    values: Array


@dataclass(frozen=True, slots=True)
class ByRack:
    """[N] racks, as places in ``rack_names``, with a number each. UNKNOWN racks are left out."""

    rack: Array
    values: Array | None = None
