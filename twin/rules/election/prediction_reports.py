"""Counts, events and the alert of the track record of predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

import numpy as np

from twin.arrays.alignment import appeared
from twin.declarations.declare import Alert, Occurrence, counter, event, risk, rule
from twin.declarations.signature import Before, Cycle, Earlier, NowMs
from twin.declarations.table import NO_BROKER, Bool, Int8, Int64, KeyedTable, column
from twin.rules.election.predictions import Cause, OvertakenBy, Predictions, Result
from twin.tables.state import Partitions

WRONG_SHOWN_MS: Final = 3_600_000
"""How long a wrong prediction is shown: until somebody had time to look at it."""


class PredictionCounts(KeyedTable, kind="prediction_counts"):
    """[K] leader changes since the state began: one row a cause and result."""

    cause: Int8 = column("why the leader changed", enum=Cause)
    result: Int8 = column("how the prediction turned out", enum=Result)
    changes: Int64 = column("leader changes", fill=0)
    cold_elections: Int64 = column(
        "of these, elections of a cold replica while a warm one was in sync", fill=0
    )


@rule
def prediction_counts(
    before: Before[PredictionCounts], predictions: Predictions, cycle: Cycle
) -> PredictionCounts:
    """The counts of earlier cycles plus the changes of this cycle."""
    news = predictions.pick(predictions.at_ms == cycle.observed_at_ms)
    place = news.cause.astype(np.intp) * len(Result) + news.result
    rows = len(Cause) * len(Result)
    changes = np.bincount(place, minlength=rows)
    cold = np.bincount(place[news.warm_was_passed_over == 1], minlength=rows)
    if len(before.changes):
        changes, cold = changes + before.changes, cold + before.cold_elections
    return PredictionCounts(
        cause=np.repeat(np.array(Cause, np.int8), len(Result)),
        result=np.tile(np.array(Result, np.int8), len(Cause)),
        changes=changes,
        cold_elections=cold,
    )


@counter(
    "predictions",
    "Leader changes, by what caused them and how the prediction turned out.",
    labels=("cause", "result"),
)
def prediction_count(counts: PredictionCounts) -> Mapping[tuple[str, str], int]:
    """The counts by cause and result; combinations that never occurred are 0."""
    zeros = dict.fromkeys(product(Cause, Result), 0)
    keys = zip(counts.cause.tolist(), counts.result.tolist(), strict=True)
    counted = zeros | dict(zip(keys, counts.changes.tolist(), strict=True))
    return {
        (Cause(cause).name.lower(), Result(result).name.lower()): changes
        for (cause, result), changes in counted.items()
    }


@counter(
    "cold_elections",
    "Lost leaders replaced by a cold replica while a warm one was in sync (KIP-1303).",
)
def cold_elections(counts: PredictionCounts) -> int:
    """Elections that KIP-1303 would have avoided."""
    return int(counts.cold_elections.sum())


@event("prediction_judged")
def predictions_judged(was: Earlier[Predictions], now: Predictions) -> Iterator[Occurrence]:
    """Each change of leader is reported once."""
    for i in appeared(was, now):
        new, predicted = int(now.new_leader[i]), int(now.predicted_leader[i])
        result = Result(int(now.result[i]))
        yield Occurrence(
            f"{{p}}: {_SENTENCE[Cause(int(now.cause[i]))].format(old=now.old_leader[i])}; "
            f"{_named(new)} leads, {_named(predicted)} was predicted"
            + _VERDICT[result].format(why=_WHY[OvertakenBy(int(now.overtaken_by[i]))]),
            int(now.row[i]),
            broker=new,
            detail=result.name.lower(),
            before=(predicted,),
            after=(new,),
        )


_SENTENCE: Final = {
    Cause.LOSS: "leader {old} was lost",
    Cause.RETURN: "a replica came back to the partition without a leader",
    Cause.BALANCE: "the preferred replica was elected in place of {old}",
    Cause.REASSIGNMENT: "the replica of leader {old} was moved",
    Cause.OPERATOR: "somebody held an unclean election",
}
_VERDICT: Final = {
    Result.RIGHT: "",
    Result.WRONG: ": the prediction was wrong",
    Result.OVERTAKEN: ": {why} after the last observation",
    Result.UNFORESEEN: ": the twin did not know this replica yet",
}
_WHY: Final = {
    OvertakenBy.NOTHING: "",
    OvertakenBy.ASSIGNMENT: "the replicas were reassigned",
    OvertakenBy.BROKER: "another broker was lost or came back",
    OvertakenBy.ISR: "another replica left or joined the ISR",
    OvertakenBy.ELECTIONS: "several elections were held",
}


def _named(broker: int) -> str:
    return "nobody" if broker == NO_BROKER else f"broker {broker}"


@risk(
    "prediction_wrong",
    rank=200,
    severity="warn",
    sentence="the twin predicted another leader than Kafka elected",
    source="comparison of each leader change with the prediction before it",
    alert=Alert(
        summary="got another leader than the twin predicted",
        description="Leaders of {n} partitions of {cluster} are others than the twin predicted, "
        "and nothing that it observed explains why. Do not rely on its predictions until the "
        "cause is known.",
        wait="0s",
        keep_firing_for="5m",
    ),
)
def was_predicted_wrong(predictions: Predictions, partitions: Partitions, now_ms: NowMs) -> Bool:
    """A leader change within the last hour was predicted wrong."""
    recent = now_ms - predictions.at_ms <= WRONG_SHOWN_MS
    wrong = predictions.pick(recent & (predictions.result == Result.WRONG))
    return wrong.row_mask(len(partitions.leader))
