"""A plan: partitions, with the order their replicas have and the one they are to get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from streaming.bus.view import ClusterView
from streaming.runtime.errors import UserError
from twin.plans.reordering import Reordering
from twin.state import ShardState
from twin.table import NO_BROKER, Rows
from twin.tables.state import PartitionIndex, Partitions, Topics


class PlanError(UserError):
    """A plan cannot be made or applied; one line says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """One partition of a plan. Both orders are of the same replicas."""

    topic: str
    topic_id: str
    partition: int
    replicas: tuple[int, ...]  # as they are, slot 0 first
    planned: tuple[int, ...]
    leader: int
    leader_epoch: int
    elect: int = NO_BROKER  # who is to lead afterwards; nobody is elected by default
    why: str = ""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All changes, the sentences that explain them, and what the plan does not change."""

    name: str
    cluster: str
    observed_at_ms: int
    changes: tuple[Change, ...]
    lines: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    undone: dict[str, list[str]] = field(default_factory=dict)  # partitions by reason


def fresh_states(view: ClusterView, now_ms: int) -> list[ShardState]:
    """The state of every shard.

    Raises:
        PlanError: the twin is stale, or does not have every shard: nothing is planned then.
    """
    if old := view.why_not_up(now_ms):
        raise PlanError(f"nothing is planned: {old}")
    return [shard.state for shard in view.shards]


def changes_of(
    state: ShardState, those: Reordering, elect: Sequence[int] = (), why: Sequence[str] = ()
) -> Iterator[Change]:
    """The changes of one shard, with whom to elect and why, each by row of the reordering."""
    partitions, ids = state[Partitions], state[Topics].topic_id[state[PartitionIndex].topic_index]
    names = partition_keys(state, those.row)
    for i, row in enumerate(those.row.tolist()):
        topic, number = names[i]
        yield Change(
            topic=topic,
            topic_id=str(UUID(bytes=ids[row])),
            partition=number,
            replicas=_ids(those.before[i].tolist()),
            planned=_ids(those.after[i].tolist()),
            leader=int(partitions.leader[row]),
            leader_epoch=int(partitions.leader_epoch[row]),
            elect=elect[i] if len(elect) else NO_BROKER,
            why=why[i] if len(why) else "",
        )


def partition_keys(state: ShardState, row: Rows) -> list[tuple[str, int]]:
    """[N] topic and number of those rows."""
    numbers = state[PartitionIndex].partition[row].tolist()
    return list(zip(state.topic_names()[row].tolist(), numbers, strict=True))


def _ids(brokers: Sequence[int]) -> tuple[int, ...]:
    return tuple(broker for broker in brokers if broker != NO_BROKER)
