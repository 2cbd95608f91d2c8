"""The comparison of the bench is of like with like: both ways give the same answers."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.builders import NOW_MS
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine.risks import RiskConditions
from twin.engine.shard_state import ShardState
from twin.rules.election.next_leader import NextLeaders
from twin.rules.replication.caught_up import CaughtUp, InSync
from twin.rules.tiering.coverage import ReplicaCoverage
from twin.step import step

per_key = pytest.importorskip("tests.bench.per_key", reason="pyspark is not installed")

CYCLES = 25
SHAPE = Shape(topics=3, partitions=20, cold_share=0.3)
CALM, LOSES_BROKERS = 5, 2


def rows(seed: int) -> Iterator[tuple[SimpleNamespace, Any, Any]]:
    """For each cycle and partition: the sample, the plain answer, the vectorised one."""
    state = ShardState.empty(CATALOG, "sim", 0, 1)
    kept: dict[bytes, list[int]] = {}
    for frames in SimulatedShard(SHAPE, seed).run(CYCLES, NOW_MS):
        state, _ = step(state, frames, frames[0].header.observed_at_ms)
        for row, (key, message) in enumerate(per_key.as_rows(frames)):
            sampled = SimpleNamespace(**json.loads(message))
            answer, kept[key] = per_key.judge(sampled, kept.get(key), per_key.Settings())
            yield sampled, answer, vectorised(state, row)


def vectorised(state: ShardState, row: int) -> Any:
    """The findings of the twin for the partition of that row."""
    kafka, kip1303 = state[NextLeaders], state[NextLeaders.under("kip1303")]
    return per_key.Answer(
        caught_up=state[CaughtUp].caught_up_at_ms[row].tolist(),
        in_sync=state[InSync].in_sync[row].tolist(),
        coverage=state[ReplicaCoverage].coverage[row].tolist(),
        kafka=(kafka.leader[row], kafka.outcome[row], kafka.coverage[row]),
        kip1303=(kip1303.leader[row], kip1303.outcome[row], kip1303.coverage[row]),
        risks=state[RiskConditions].bits[row] & per_key.RISKS,
    )


@pytest.mark.parametrize("seed", [CALM, LOSES_BROKERS])
def test_one_partition_at_a_time_in_plain_python_finds_what_the_vectorised_rules_find(seed):
    compared = 0
    for _, plain, vector in rows(seed):
        assert plain == vector
        compared += 1
    assert compared == 1_500


def test_the_compared_rows_reach_every_risk_and_replicas_that_do_not_answer():
    reached, silent = 0, 0
    for sampled, plain, _ in rows(LOSES_BROKERS):
        reached |= plain.risks
        silent += UNKNOWN in sampled.log_end
    assert reached == per_key.RISKS
    assert 0 < silent < 1_500
