"""The share of ``twin.step`` that groups of consumers cost, in a cluster of 100 000 partitions.

Each partition has a group that reads it; few groups are behind. The same cycles are stepped without
groups, with a round of groups in each cycle, and with rounds at their default pace.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Final

from streaming.runtime.config import CollectorConfig
from tests.bench import figure
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.step import step
from twin.tables.observations import GroupOffsetsFrame, GroupsFrame

SHARDS: Final = 16
SHAPE: Final = Shape(
    topics=10, partitions=625, brokers=200, groups=63, readers=1, behind_every=100
)  # 100 partitions a group
START_MS: Final = 1_800_000_000_000

PACE: Final = CollectorConfig().groups_interval_ms // CollectorConfig().interval_ms
"""Cycles from one round of groups to the next."""

CYCLES: Final = 2 * PACE
_OF_GROUPS: Final = (GroupsFrame.kind, GroupOffsetsFrame.kind)


class _Shard:
    """A simulated shard, and its states by how many cycles there are from round to round."""

    def __init__(self, number: int, paces: Sequence[int]) -> None:
        self._number = number
        simulated = SimulatedShard(SHAPE, 1, "sim", number, SHARDS)
        empty = ShardState.empty(CATALOG, "sim", number, SHARDS)
        self._states = dict.fromkeys(paces, empty)
        self._cycles = simulated.run(1 + CYCLES, START_MS)

    def step(self, cycle: int) -> dict[int, float]:
        """One cycle of all states: the processor seconds of each."""
        observed = next(self._cycles)
        paces = [*self._states]
        first = (cycle + self._number) % len(paces)  # who comes first finds nothing in the caches
        order = paces[first:] + paces[:first]
        return {pace: self._step(pace, cycle, observed) for pace in order}

    def encoded_bytes(self, pace: int) -> int:
        """The size of the state as Spark keeps it."""
        return len(codec.encode(self._states[pace]))

    def _step(self, pace: int, cycle: int, observed: Sequence[Frame]) -> float:
        has_groups = pace > 0 and cycle % pace == 0
        frames = [f for f in observed if has_groups or f.header.kind not in _OF_GROUPS]
        began = time.process_time()
        self._states[pace], _ = step(self._states[pace], frames, frames[0].header.observed_at_ms)
        return time.process_time() - began


def main() -> None:
    """The first cycle builds the states and is left out.

    Each step is compared with the one beside it without groups: the machine is not always as fast.
    """
    shards = [_Shard(number, (0, 1, PACE)) for number in range(SHARDS)]
    without, with_round, between = [], [], []
    for cycle in range(1 + CYCLES):
        for seconds in [shard.step(cycle) for shard in shards]:
            without.append(seconds[0])
            with_round.append(seconds[1] / seconds[0] - 1)
            if cycle % PACE:
                between.append(seconds[PACE] / seconds[0] - 1)
    a_round = statistics.median(with_round[SHARDS:])
    at_pace = (a_round + (PACE - 1) * statistics.median(between)) / PACE
    pairs = SHARDS * SHAPE.topics * SHAPE.partitions
    about = {"pairs": pairs, "partitions": pairs, "shards": SHARDS}
    cpu_s = SHARDS * statistics.median(without[SHARDS:])
    figure("step_without_groups_cpu_seconds", cpu_s, "s", **about)
    figure("step_share_of_groups", a_round, "", cycles_a_round=1, **about)
    figure("step_share_of_groups", at_pace, "", cycles_a_round=PACE, **about)
    more = sum(shard.encoded_bytes(1) - shard.encoded_bytes(0) for shard in shards)
    figure("state_bytes_per_group_offset", more / pairs, "B", **about)


if __name__ == "__main__":
    main()
