"""Messages of a simulated cluster under another name (``tests.bench.scale.observations``)."""

from __future__ import annotations

import pytest

from tests.bench.scale.observations import unnamed
from tests.simulator.shard import Shape, SimulatedShard
from twin.engine.frames import batch_messages, encode_parts

SHAPE = Shape(topics=3, partitions=400, tier=True, groups=4)


def messages(cluster: str, part_bytes: int) -> list[bytes]:
    """What a shard sends in its cycles, large tables in parts."""
    cycles = SimulatedShard(SHAPE, seed=1, cluster=cluster).run(3, 1_800_000_000_000)
    return [
        message
        for frames in cycles
        for message in batch_messages(
            [part for frame in frames for part in encode_parts(frame, part_bytes)]
        )
    ]


@pytest.mark.parametrize("part_bytes", [10_000, 900_000])
def test_they_are_those_of_a_cluster_of_that_name(part_bytes: int):
    named = [unnamed(0, message).of("orders-7") for message in messages("sim", part_bytes)]
    expected = messages("orders-7", part_bytes)
    assert len(named) == len(expected)
    assert all(one == other for one, other in zip(named, expected, strict=True))
