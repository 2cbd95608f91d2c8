"""Questions to states, without a bus."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaming.bus.view import ClusterView, ShardView
from streaming.exporter.views.partitions import partition_objects
from streaming.questions import QUESTIONS
from streaming.questions.answer import Answer
from twin.engine.shard_state import ShardState
from twin.totals import Totals


def a_view(*states: ShardState, cluster: ShardState | None = None) -> ClusterView:
    """The view of a cluster with these shards, without totals; ``cluster``: its own shard."""
    shards = tuple(ShardView(state, Totals()) for state in states)
    return ClusterView(shards=shards, shards_expected=len(shards), cluster=cluster)


def answered(name: str, *states: ShardState, **values: Any) -> Answer:
    """The answer of these shards to the question of that name."""
    question = QUESTIONS[name]
    return question.text(question.data(a_view(*states), values))


def partition_object(state: ShardState, at_ms: int | None = None) -> dict[str, Any]:
    """The first partition as the API shows it then; without a time, when it was observed."""
    [shown] = partition_objects(
        state, np.array([0]), state.observed_at_ms if at_ms is None else at_ms
    )
    return shown
