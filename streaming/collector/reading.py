"""Readings: the results of sources in a cycle, and the way one source gets another's.

A source returns a ``Reading``. Its columns are joined with those of other sources in the frames of
partitions, replicas and brokers. For other kinds of frames it has whole tables. The sources that
need a reading name its class in their signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, get_type_hints

import numpy as np
import pyarrow as pa

from streaming.bus.arrow import dictionary, fixed, numbers, texts
from streaming.collector.listing import Array, ListedPlacement
from twin.declarations.table import Observation

Answers = Mapping[int, Sequence[bytes | None]]
"""Responses by broker, in the order of a source's requests; None for a missing response. Brokers
without any response are left out."""

Rows = tuple[type[Observation], pa.Table]
"""The rows of a frame, and which frame it is."""

_GIVEN = frozenset({"self", "broker", "versions", "answers", "return"})
"""Parameters of a source's methods that are not readings."""

T = TypeVar("T")


def partition_keys(placement: ListedPlacement, row: Array) -> dict[str, pa.Array]:
    """The columns that identify a partition, for those rows of the placement, by name."""
    topics, index = np.unique(placement.topic_of[row], return_inverse=True)
    return {
        "topic": dictionary(index, texts([placement.topic[t] for t in topics])),
        "topic_id": dictionary(index, fixed([placement.topic_id[t] for t in topics], 16)),
        "partition": numbers(placement.partition[row], pa.int32()),
    }


class Reading:
    """The result of a source in one cycle. Columns that it lacks are unknown.

    Shapes: [N] replicas and [P] partitions of the placement.
    """

    __slots__ = ()

    @property
    def replica_columns(self) -> Mapping[str, Array]:
        """[N] columns of ``ReplicasFrame``."""
        return {}

    @property
    def answered_replicas(self) -> Array | None:
        """[N] the replicas that have a row. Only one source decides that; the others return
        None."""
        return None

    @property
    def partition_columns(self) -> Mapping[str, Array]:
        """Columns of ``PartitionsFrame``: [P], or [N] for a column of lists of replicas."""
        return {}

    @property
    def broker_columns(self) -> Mapping[str, Mapping[int, Any]]:
        """Columns of ``BrokersFrame``, by broker; values of unlisted brokers are not sent."""
        return {}

    @property
    def incomplete(self) -> Collection[str]:
        """Kinds of frames that lack some existing rows."""
        return ()

    def tables(self, shard: int) -> Iterable[Rows]:
        """Whole tables for a shard."""
        del shard
        return ()


class Readings:
    """The values of a cycle so far, by class: readings, and the context that sources read with."""

    def __init__(self, *values: object) -> None:
        self._by_class: dict[type, Any] = {}
        for value in values:
            self.add(value)

    def add(self, value: object) -> None:
        """Add a value for the sources that follow."""
        self._by_class[type(value)] = value

    def __getitem__(self, kind: type[T]) -> T:
        return self._by_class[kind]

    def get(self, kind: type[T]) -> T | None:
        """The value of a class, None if there is none in this cycle."""
        return self._by_class.get(kind)

    def __iter__(self) -> Iterator[Reading]:
        """The readings, in the order in which they were read."""
        return (value for value in self._by_class.values() if isinstance(value, Reading))

    def arguments(self, method: Callable[..., Any]) -> dict[str, Any]:
        """The arguments for a method of a source, by the names of its parameters.

        Raises:
            LookupError: no source before it has made such a reading.
        """
        needed = _parameters(getattr(method, "__func__", method))
        try:
            return {name: self._by_class[kind] for name, kind in needed.items()}
        except KeyError as missing:
            kind = missing.args[0].__name__
            name = method.__qualname__
            raise LookupError(f"{name} reads {kind}, which no source before it makes") from None


@cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, type]:
    """The classes of the readings that a function names."""
    hints = get_type_hints(function)
    return {
        name: hints[name] for name in inspect.signature(function).parameters if name not in _GIVEN
    }
