"""``twin.step`` alone: replica updates a second on one core, and the size of the state."""

from __future__ import annotations

import statistics
import time

from tests.bench import figure
from tests.simulator.shard import Shape, SimulatedShard
from twin import fleet as fleets
from twin.frames import decode, encode
from twin.step import step

SHAPE = Shape(topics=20, partitions=900, replication=3, brokers=60)
CYCLES = 12
START_MS = 1_800_000_000_000


def main() -> None:
    """Median of the cycles after the first, which builds the fleet."""
    shard = SimulatedShard(SHAPE, seed=1)
    fleet = fleets.empty("sim", 0, 1)
    replicas = SHAPE.topics * SHAPE.partitions * SHAPE.replication
    spent: dict[str, list[float]] = {"step": [], "step_with_codec": []}
    for frames in shard.run(CYCLES, START_MS):
        sent = [encode(frame) for frame in frames]
        state = fleets.encode(fleet)
        began = time.perf_counter()
        held = fleets.decode(state)
        observation = [frame for message in sent for frame in decode(message)]
        stepping = time.perf_counter()
        fleet, _ = step(held, observation, frames[0].stamp.observed_at_ms)
        stepped = time.perf_counter()
        state = fleets.encode(fleet)
        spent["step"].append(stepped - stepping)
        spent["step_with_codec"].append(time.perf_counter() - began)
    for name, seconds in spent.items():
        rate = replicas / statistics.median(seconds[1:])
        figure(f"{name}_replica_updates_per_second", rate, "1/s", replicas=replicas, cores=1)
    figure("state_bytes_per_replica", len(state) / replicas, "B", replicas=replicas)
    arrays = [*fleets.PARTITION_COLUMNS, *fleets.REPLICA_COLUMNS]
    memory = sum(getattr(fleet, name).nbytes for name in arrays)
    figure("fleet_memory_bytes_per_replica", memory / replicas, "B", replicas=replicas)


if __name__ == "__main__":
    main()
