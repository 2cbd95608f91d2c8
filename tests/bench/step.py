"""``twin.step`` alone: replica updates a second on one core, and the size of the state."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace

from tests.bench import figure
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.engine import codec, updates
from twin.engine.codec import DecodedState
from twin.engine.frames import decode, encode
from twin.engine.shard_state import ShardState
from twin.step import step

SHAPE = Shape(topics=20, partitions=900, replication=3, brokers=60)
CYCLES = 4 + 2 * updates.WHOLE_EVERY_CYCLES
WRITTEN_SHARES = (1.0, 0.6, 0.0)
START_MS = 1_800_000_000_000


@dataclass(frozen=True, slots=True)
class Spent:
    """Median CPU seconds of the cycles after the first, which builds the state."""

    step: float
    step_with_codec: float  # the whole state, decoded and encoded
    step_with_update: float  # as a worker does that has the state of the cycle before
    state_bytes: int
    cycle_bytes: float  # of whole states and updates, on average
    memory_bytes: int


def measured(shape: Shape) -> Spent:
    """Cycles of a shard, each as whole states and as updates."""
    shard = SimulatedShard(shape, seed=1)
    known = DecodedState(ShardState.empty(CATALOG, "sim", 0, 1))
    steps, with_codec, with_update, sizes = [], [], [], []
    for cycle, frames in enumerate(shard.run(CYCLES, START_MS)):
        sent = [encode(frame) for frame in frames]
        message = codec.encode(known.state)
        began = time.process_time()
        observation = [frame for each in sent for frame in decode(each).frames]
        stepping = time.process_time()
        after, _ = step(known.state, observation, frames[0].header.observed_at_ms)
        stepped = time.process_time()
        update = updates.encode(known.state, after, b"", 1) if cycle else None
        encoded = time.process_time()
        codec.decode(message, CATALOG)
        whole = codec.encode(after)
        coded = time.process_time()
        is_whole = update is None or updates.is_whole_due(cycle - 1, cycle, 0)
        sizes.append(len(whole) if is_whole or update is None else len(update))
        steps.append(stepped - stepping)
        with_update.append(encoded - began)
        with_codec.append(stepped - began + coded - encoded)
        known = DecodedState(replace(after, judged_at_ms=after.observed_at_ms))
    median, chain = statistics.median, updates.WHOLE_EVERY_CYCLES
    return Spent(
        step=median(steps[1:]),
        step_with_codec=median(with_codec[1:]),
        step_with_update=median(with_update[1:]),
        state_bytes=len(whole),
        cycle_bytes=statistics.mean(sizes[-2 * chain :]),
        memory_bytes=known.state.nbytes(),
    )


def main() -> None:
    """Time a step without groups of consumers: ``step_groups`` has what these add."""
    replicas = SHAPE.topics * SHAPE.partitions * SHAPE.replication
    for share in WRITTEN_SHARES:
        spent = measured(replace(SHAPE, written_share=share))
        about = {"replicas": replicas, "written_share": share}
        for name in ("step", "step_with_codec", "step_with_update"):
            rate = replicas / getattr(spent, name)
            figure(f"{name}_replica_updates_per_second", rate, "1/s", cores=1, **about)
        for name in ("state", "cycle", "memory"):
            size = getattr(spent, f"{name}_bytes") / replicas
            label = "state_memory" if name == "memory" else name
            figure(f"{label}_bytes_per_replica", size, "B", **about)


if __name__ == "__main__":
    main()
