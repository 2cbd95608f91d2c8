"""``twin.step`` alone: replica updates a second on one core, and the size of the state."""

from __future__ import annotations

import statistics
import time

from tests.bench import figure
from tests.simulator.shard import Shape, SimulatedShard
from twin import codec
from twin.builtin import CATALOG
from twin.frames import decode, encode
from twin.state import ShardState
from twin.step import step

SHAPE = Shape(topics=20, partitions=900, replication=3, brokers=60)
CYCLES = 12
START_MS = 1_800_000_000_000


def main() -> None:
    """Median of the cycles after the first, which builds the state."""
    shard = SimulatedShard(SHAPE, seed=1)
    held = ShardState.empty(CATALOG, "sim", 0, 1)
    replicas = SHAPE.topics * SHAPE.partitions * SHAPE.replication
    spent: dict[str, list[float]] = {"step": [], "step_with_codec": []}
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
        spent["step"].append(stepped - stepping)
        spent["step_with_codec"].append(time.perf_counter() - began)
    for name, seconds in spent.items():
        rate = replicas / statistics.median(seconds[1:])
        figure(f"{name}_replica_updates_per_second", rate, "1/s", replicas=replicas, cores=1)
    figure("state_bytes_per_replica", len(message) / replicas, "B", replicas=replicas)
    figure("state_memory_bytes_per_replica", held.nbytes() / replicas, "B", replicas=replicas)


if __name__ == "__main__":
    main()
