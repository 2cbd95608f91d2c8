"""The comparison of the bench is of like with like: both ways give the same answers."""

import json
from types import SimpleNamespace

import pytest

from tests.builders import NOW_MS
from tests.simulator.shard import Shape, SimulatedShard
from twin import fleet as fleets
from twin.step import step

per_key = pytest.importorskip("tests.bench.per_key", reason="pyspark is not installed")


def test_one_partition_at_a_time_in_plain_python_finds_what_the_vectorised_rules_find():
    shard = SimulatedShard(Shape(topics=3, partitions=20, thin_share=0.3), seed=5)
    fleet = fleets.empty("sim", 0, 1)
    states: dict[bytes, list[int]] = {}
    compared = 0
    for frames in shard.run(25, NOW_MS):
        # A silent replica keeps its last sample in the twin; the plain rules see each row alone.
        shard.answers[:] = True
        fleet, _ = step(fleet, frames, frames[0].stamp.observed_at_ms)
        if any(frame.rows.num_rows < 180 for frame in frames if frame.stamp.kind == "replicas"):
            states.clear()
            break
        for row, (key, message) in enumerate(per_key.as_rows(frames)):
            told = SimpleNamespace(**json.loads(message))
            answer, states[key] = per_key.judge(told, states.get(key), per_key.Settings())
            assert answer.coverage == fleet.coverage[row].tolist()
            assert answer.caught_up == fleet.caught_up_at_ms[row].tolist()
            assert answer.in_sync == fleet.in_sync[row].tolist()
            assert answer.kafka == (fleet.next_leader_kafka[row], fleet.next_outcome_kafka[row])
            assert answer.kip1303 == (
                fleet.next_leader_kip1303[row],
                fleet.next_outcome_kip1303[row],
            )
            assert answer.risks == fleet.risks_seen[row] & per_key.RISKS
            compared += 1
    assert compared >= 60
