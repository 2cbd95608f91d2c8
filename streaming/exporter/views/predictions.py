"""The track record of predictions as plain data for the JSON API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.views.partitions import paged
from streaming.questions.parameters import DEFAULT_ROWS, limit, number, offset, one_of, text
from twin.arrays import plain
from twin.declarations.table import UNKNOWN, Rows
from twin.engine.shard_state import ShardState
from twin.rules.election.predictions import Cause, Predictions, Result
from twin.tables.state import PartitionIndex


@dataclass(frozen=True, slots=True)
class PredictionFilter:
    """A selection of leader changes."""

    topic: Annotated[str, text("leader changes of this topic")] = ""
    partition: Annotated[int, number("leader changes of partitions of this number")] = UNKNOWN
    cause: Annotated[
        int,
        one_of(
            "leader changes of this [cause](#how-a-prediction-turned-out)",
            {each.name.lower(): int(each) for each in Cause},
        ),
    ] = UNKNOWN
    result: Annotated[
        int,
        one_of(
            "leader changes with this [result](#how-a-prediction-turned-out)",
            {each.name.lower(): int(each) for each in Result},
        ),
    ] = UNKNOWN
    limit: Annotated[int, limit("leader changes")] = DEFAULT_ROWS
    offset: Annotated[int, offset("leader changes")] = 0

    def matching(self, state: ShardState) -> Rows:
        """[N] the matching rows of a shard's predictions."""
        table = state[Predictions]
        matches = np.ones(len(table), bool)
        if self.topic:
            matches &= state.topic_names()[table.row] == self.topic
        if self.partition != UNKNOWN:
            matches &= state[PartitionIndex].partition[table.row] == self.partition
        if self.cause != UNKNOWN:
            matches &= table.cause == self.cause
        if self.result != UNKNOWN:
            matches &= table.result == self.result
        return np.flatnonzero(matches)


def predictions(view: ClusterView, selection: PredictionFilter) -> dict[str, Any]:
    """A page of matching leader changes, newest first, and the number of all matching ones."""
    states = view.states
    matching = [selection.matching(state) for state in states]
    at_ms = [-state[Predictions].at_ms[rows] for state, rows in zip(states, matching, strict=True)]
    page = slice(selection.offset, selection.offset + selection.limit)
    return paged("predictions", states, matching, at_ms, page, _objects)


def _objects(state: ShardState, rows: Rows) -> list[dict[str, Any]]:
    table = state[Predictions].pick(rows)
    columns = {
        "topic": state.topic_names()[table.row].tolist(),
        "partition": state[PartitionIndex].partition[table.row].tolist(),
        **{
            c.name: plain.column_values(c, getattr(table, c.name))
            for c in Predictions.columns
            if c.name != "row"
        },
    }
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
