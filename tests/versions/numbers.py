"""Compares the numbers of a twin with those of Kafka's own tools, one by one."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from streaming.bus.view import ClusterView, ShardView
from streaming.exporter.views.cluster import brokers
from streaming.exporter.views.partitions import partition_objects
from streaming.runtime.deadline import Deadline
from tests.cluster.broker_client import Key
from tests.cluster.watching import Watch, by_partition, flagged, keys
from tests.versions.tools import Described, Tools
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Assignment, Partitions, Replicas
from twin.totals import cluster_totals, shard_totals

_LISTS: Final = ("brokers", "partitions", "replicas")
_QUIET_WITHIN_S: Final = 60.0
_PAUSE_S: Final = 0.3


@dataclass(frozen=True)
class Answers:
    """The output of Kafka's tools at one moment."""

    partitions: Mapping[Key, Described]
    offsets: Mapping[str, Mapping[Key, int]]
    """Numbers of leaders, by column and partition."""
    sizes: Mapping[tuple[str, int, int], int]

    @staticmethod
    def from_tools(tools: Tools, kinds: Mapping[str, int], brokers: Collection[int]) -> Answers:
        """The answers of these brokers; ``kinds`` are those that the release's tool can ask."""
        partitions = tools.partitions()
        # The older tools wait for the partition of a topic that has no leader.
        leaderless = {topic for (topic, _), each in partitions.items() if each.leader < 0}
        led = [key for key in partitions if key[0] not in leaderless]
        offsets = {column: tools.offsets(kind, led) for column, kind in kinds.items()}
        return Answers(partitions, offsets, tools.sizes(brokers))


@dataclass
class Comparison:
    """Counts of a twin's numbers that equal those of the tools, are unknown, or differ."""

    right: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def compared(self) -> int:
        return self.right + self.unknown + len(self.wrong)

    def add(self, what: str, twin: Any, tool: Any) -> None:
        """Count one number."""
        if twin == tool:
            self.right += 1
        elif twin in (None, UNKNOWN):
            self.unknown += 1
        else:
            self.wrong.append(f"{what}: the twin has {twin}, Kafka's tool {tool}")


def compare(
    watch: Watch, tools: Tools, kinds: Mapping[str, int], brokers: Collection[int]
) -> Comparison:
    """Compare once the answers of these brokers stand still while the twin looks.

    ``kinds`` are the kinds of offsets that GetOffsetShell of the release can ask, by column.
    """
    deadline = Deadline.after_s(_QUIET_WITHIN_S)
    before = Answers.from_tools(tools, kinds, brokers)
    while True:
        time.sleep(_PAUSE_S)
        state = watch.look()
        after = Answers.from_tools(tools, kinds, brokers)
        if after == before:
            return _compared(state, after)
        assert not deadline.is_over, "the numbers do not stand still"
        before = after


def _compared(state: ShardState, answers: Answers) -> Comparison:
    result = Comparison()
    listed = set(keys(state))
    for key in sorted(listed ^ set(answers.partitions)):
        result.wrong.append(f"{key}: only the {'twin' if key in listed else 'tool'} has it")
    for name, column in _of_partitions(state).items():
        for key in sorted(listed & set(answers.partitions)):
            tool = getattr(answers.partitions[key], name)
            result.add(f"{name} of {key}", column[key], tool)
    slot = _slots(state)
    replicas = state[Replicas]
    for name, offsets in answers.offsets.items():
        for key, tool in offsets.items():
            at = slot[(*key, answers.partitions[key].leader)]
            result.add(f"{name} of {key}", int(getattr(replicas, name)[at]), tool)
    for replica, tool in answers.sizes.items():
        if replica in slot:  # one that was moved away is not in the assignment
            bytes_on_disk = int(replicas.local_log_bytes[slot[replica]])
            result.add(f"local_log_bytes of {replica}", bytes_on_disk, tool)
    return result


def _of_partitions(state: ShardState) -> dict[str, Mapping[Key, Any]]:
    """Leader, replicas, ISR and ELR by partition, as ``Described`` has them."""
    assigned = state[Partitions].assigned.tolist()
    brokers = state[Assignment].broker.tolist()
    replicas = {
        key: tuple(row[:n]) for key, row, n in zip(keys(state), brokers, assigned, strict=True)
    }
    return {
        "leader": by_partition(state, state[Partitions].leader),
        "replicas": replicas,
        "isr": flagged(state, ReplicaFlags.IN_ISR),
        "elr": flagged(state, ReplicaFlags.IN_ELR),
    }


def _slots(state: ShardState) -> dict[tuple[str, int, int], tuple[int, int]]:
    """Row and slot of each replica by topic, partition and broker."""
    brokers, assigned = state[Assignment].broker.tolist(), state[Partitions].assigned.tolist()
    return {
        (*key, brokers[row][slot]): (row, slot)
        for row, key in enumerate(keys(state))
        for slot in range(assigned[row])
    }


# ---------------------------------------------------------------- what is known at all


def known_fields(state: ShardState) -> set[str]:
    """The fields of the JSON API that have a value for some partition, replica or broker."""
    now_ms = state.observed_at_ms
    totals = shard_totals(state)
    view = ClusterView(
        shards=(ShardView(state, totals),),
        shards_expected=1,
        totals=cluster_totals(state.catalog, [totals]),
    )
    of_brokers = set(_fields(brokers(view, now_ms)["brokers"], "brokers"))
    rows = np.arange(state.partitions)
    return of_brokers | set(_fields(partition_objects(state, rows, now_ms), "partitions"))


def _fields(value: Any, path: str) -> Iterator[str]:
    """The paths at which something is; those of maps by rack or risk have no key.

    Lists of what happens now and then, such as catching up, count as a whole: they are never null.
    """
    name = path.rpartition(".")[2]
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _fields(each, f"{path}.{key}" if key.isidentifier() else path)
    elif isinstance(value, list) and name in _LISTS:
        for each in value:
            yield from _fields(each, path)
    elif value is not None:
        yield path
