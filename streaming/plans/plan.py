"""A plan: partitions with the present and the planned order of their replicas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from streaming.bus.view import ClusterView
from streaming.questions.answer import some
from streaming.questions.room.data import RoomOnBroker
from streaming.runtime.errors import UserError
from twin.arrays.plain import counted
from twin.declarations.table import NO_BROKER, Rows
from twin.engine.shard_state import ShardState
from twin.plans.reordering import Obstacle, Reordering
from twin.tables.state import PartitionIndex, Partitions, Topics

Key = tuple[str, int]  # topic and number of a partition


class PlanError(UserError):
    """A plan cannot be made or applied; one line says why."""


class NotAllowed(PlanError):  # noqa: N818 - said to a person
    """A right is missing: trying again does not help."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The cluster that a written plan is of: nothing else is ever changed by it.

    Names of topics, ids of brokers, and even Kafka's id of the cluster, are equal in a restored
    copy. The name in the configuration is not, and what it stands for may change meanwhile.
    """

    cluster: str  # its name in the configuration
    cluster_id: str = ""  # Kafka's; empty in files of versions that did not write it

    def require_name(self, path: Path, cluster: str) -> None:
        """Refuse the file for a cluster of another name.

        Raises:
            PlanError: it is of another cluster.
        """
        if self.cluster != cluster:
            raise PlanError(f"{path} is of cluster {self.cluster}, not of {cluster}")

    def require(self, path: Path, here: Origin, *, of_several: bool) -> None:
        """Refuse to use the file on another cluster than its own.

        Args:
            path: the file, which is of this cluster.
            here: the cluster that it is used on.
            of_several: the configuration has several clusters: then its file must say Kafka's id.

        Raises:
            PlanError: it is of another cluster, or does not say so.
        """
        self.require_name(path, here.cluster)
        if not self.cluster_id and of_several:
            raise PlanError(
                f"{path} does not say which Kafka cluster it is of: the configuration has several "
                "clusters; use it with one that has this cluster alone"
            )
        if self.cluster_id and self.cluster_id != here.cluster_id:
            raise PlanError(
                f"{path} is of the Kafka cluster {self.cluster_id}, and {here.cluster} is "
                f"{here.cluster_id or 'one that does not say its id'} now"
            )


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One partition: the order of its replicas now and as planned, and whom to elect then.

    Both orders have the same replicas, but for ``plan place``. ``elect`` is -1 where nobody is
    elected.
    """

    topic: str
    topic_id: str
    partition: int
    replicas: tuple[int, ...]  # the present order, slot 0 first
    planned: tuple[int, ...]
    leader: int
    leader_epoch: int
    elect: int  # the leader to elect afterwards, if not the present one

    @property
    def key(self) -> Key:
        """Topic and number."""
        return self.topic, self.partition

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All changes, the sentences that explain them, and what the plan does not change."""

    name: str
    cluster: str
    observed_at_ms: int
    changes: tuple[PlannedChange, ...]
    lines: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    undone: dict[str, list[str]] = field(default_factory=dict)  # partitions by reason
    room: tuple[RoomOnBroker, ...] = ()  # of brokers that receive data

    @property
    def moves_data(self) -> bool:
        """Some replica goes to another broker."""
        return any(set(each.replicas) != set(each.planned) for each in self.changes)


def fresh_states(view: ClusterView, now_ms: int) -> list[ShardState]:
    """The state of every shard.

    Raises:
        PlanError: the twin is stale, or does not have every shard: nothing is planned then.
    """
    if old := view.why_not_up(now_ms):
        raise PlanError(f"nothing is planned: {old}")
    return [shard.state for shard in view.shards]


def changes_of(
    state: ShardState, those: Reordering, elect: Sequence[int] = ()
) -> Iterator[PlannedChange]:
    """The changes of one shard, with the leader to elect by row of the reordering."""
    partitions, ids = state[Partitions], state[Topics].topic_id[state[PartitionIndex].topic_index]
    names = partition_keys(state, those.row)
    for i, row in enumerate(those.row.tolist()):
        topic, number = names[i]
        yield PlannedChange(
            topic=topic,
            topic_id=str(UUID(bytes=ids[row])),
            partition=number,
            replicas=_ids(those.before[i].tolist()),
            planned=_ids(those.after[i].tolist()),
            leader=int(partitions.leader[row]),
            leader_epoch=int(partitions.leader_epoch[row]),
            elect=elect[i] if len(elect) else NO_BROKER,
        )


def undone_names(
    parts: Iterable[tuple[ShardState, Mapping[Obstacle, Rows]]],
) -> dict[str, list[str]]:
    """The partitions that a plan does not change, by the sentence that says why."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for state, undone in parts:
        for why, row in undone.items():
            keys = partition_keys(state, row)
            names[why.value] += [f"{topic}-{number}" for topic, number in keys]
    return dict(names)


def undone_lines(undone: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """One sentence for each reason."""
    for why, names in undone.items():
        yield f"Unchanged: {counted(len(names), 'partition')} {why}: {some(names)}."


def partition_keys(state: ShardState, row: Rows) -> list[Key]:
    """[N] topic and number of those rows."""
    numbers = state[PartitionIndex].partition[row].tolist()
    return list(zip(state.topic_names()[row].tolist(), numbers, strict=True))


def _ids(brokers: Sequence[int]) -> tuple[int, ...]:
    return tuple(broker for broker in brokers if broker != NO_BROKER)
