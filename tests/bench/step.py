"""``twin.step`` alone: replica updates a second on one core, and the size of the state."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from tests.bench import figure
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.frames import decode, encode
from twin.engine.state import ShardState
from twin.step import step

SHAPE = Shape(topics=20, partitions=900, replication=3, brokers=60)
CYCLES = 12
START_MS = 1_800_000_000_000


@dataclass(frozen=True, slots=True)
class Spent:
    """Median seconds of the cycles after the first, which builds the state."""

    step: float
    step_with_codec: float
    state_bytes: int
    memory_bytes: int


def measured(shape: Shape) -> Spent:
    """Cycles of a shard, each decoded from bytes and encoded again as Spark keeps them."""
    shard = SimulatedShard(shape, seed=1)
    held = ShardState.empty(CATALOG, "sim", 0, 1)
    steps, with_codec = [], []
    for frames in shard.run(CYCLES, START_MS):
        sent = [encode(frame) for frame in frames]
        message = codec.encode(held)
        began = time.perf_counter()
        held = codec.decode(message, CATALOG).state
        observation = [frame for each in sent for frame in decode(each).frames]
        stepping = time.perf_counter()
        held, _ = step(held, observation, frames[0].header.observed_at_ms)
        stepped = time.perf_counter()
        message = codec.encode(held)
        steps.append(stepped - stepping)
        with_codec.append(time.perf_counter() - began)
    median = statistics.median
    return Spent(median(steps[1:]), median(with_codec[1:]), len(message), held.nbytes())


def main() -> None:
    """Time a step without groups of consumers: ``step_groups`` has what these add."""
    replicas = SHAPE.topics * SHAPE.partitions * SHAPE.replication
    spent = measured(SHAPE)
    for name in ("step", "step_with_codec"):
        rate = replicas / getattr(spent, name)
        figure(f"{name}_replica_updates_per_second", rate, "1/s", replicas=replicas, cores=1)
    figure("state_bytes_per_replica", spent.state_bytes / replicas, "B", replicas=replicas)
    memory = spent.memory_bytes / replicas
    figure("state_memory_bytes_per_replica", memory, "B", replicas=replicas)


if __name__ == "__main__":
    main()
