"""What brokers receive, on seeded clusters: as a plain loop over partitions says it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pytest

from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.signature import parameters
from twin.declarations.table import NO_BROKER
from twin.engine.shard_state import ShardState
from twin.questions.incoming import (
    Incoming,
    added,
    grown_on,
    replacing,
    together,
    under_way,
)
from twin.questions.whatif import lose
from twin.rules.brokers.log_dirs import ReplicaDirs
from twin.rules.disks.curves import LogTables, sums_by_directory
from twin.rules.disks.points import POINTS_S
from twin.rules.partitions.growth import RecordSizes
from twin.rules.partitions.leaders import Roles
from twin.step import step
from twin.tables.state import Assignment, Partitions, Replicas

START_MS = 1_800_000_000_000


def simulated(
    seed: int, shard: int = 0, shards: int = 1, *, lags: bool = False, cold_share: float = 0.05
) -> ShardState:
    """A shard after some cycles; ``lags``: every fifth partition has a follower behind."""
    of = SimulatedShard(
        Shape(topics=4, partitions=8, cold_share=cold_share), seed, "sim", shard, shards
    )
    state = ShardState.empty(CATALOG, "sim", shard, shards)
    for cycle in range(16):
        if lags and cycle == 8:
            for row in range(0, 32, 5):
                of.shrink(row, 1 + row % 2)
        of.traffic(5_000)
        at_ms = START_MS + cycle * 5_000
        state, _ = step(state, of.observe(at_ms), at_ms)
    return state


def by_broker(incoming: Incoming) -> dict[int, tuple[int, float]]:
    """Replicas and bytes."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for broker, size in zip(incoming.broker.tolist(), incoming.bytes.tolist(), strict=True):
        found[broker].append(size)
    return {broker: (len(sizes), sum(sizes)) for broker, sizes in found.items()}


def summed(pairs: Iterable[tuple[int, float]]) -> dict[int, tuple[int, float]]:
    found: defaultdict[int, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for broker, size in pairs:
        count, total = found[broker]
        found[broker] = count + 1, total + size
    return dict(found)


def slot_of(state: ShardState, row: int, broker: int) -> int:
    slots: list[int] = state[Assignment].broker[row].tolist()
    return slots.index(broker)


def held(state: ShardState, row: int, broker: int) -> float:
    return float(state[Replicas].local_log_bytes[row, slot_of(state, row, broker)])


@pytest.mark.parametrize("seed", range(3))
def test_a_new_replica_takes_as_much_as_its_leader_has(seed: int):
    state = simulated(seed)
    row = np.arange(0, state.partitions, 3)
    others = [
        [b for b in range(1, 7) if b not in state[Assignment].broker[r].tolist()][:2]
        for r in row.tolist()
    ]
    found = by_broker(added(state, row, np.array(others, np.int32)))
    leader = state[Partitions].leader
    assert found == summed(
        (broker, held(state, r, int(leader[r])))
        for r, brokers in zip(row.tolist(), others, strict=True)
        for broker in brokers
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lost", [(2,), (1, 4)])
def test_a_replacing_broker_takes_as_much_as_who_leads_then_has(seed: int, lost: tuple[int, ...]):
    state = simulated(seed)
    loss = lose(state, lost)
    then = dict(zip(loss.row.tolist(), loss.kafka.leader.tolist(), strict=True))

    def each() -> Iterable[tuple[int, float]]:
        for row, brokers in enumerate(state[Assignment].broker.tolist()):
            leader = int(state[Partitions].leader[row])
            leader = then[row] if leader in lost else leader
            for broker in brokers:
                if broker in lost and leader != NO_BROKER:
                    yield broker, held(state, row, leader)

    assert by_broker(replacing(state, loss, lost)) == summed(each())


@pytest.mark.parametrize("seed", range(3))
def test_what_is_under_way_is_what_replicas_out_of_sync_lack(seed: int):
    state = simulated(seed, lags=True)
    replicas, roles, size = state[Replicas], state[Roles], state[RecordSizes].bytes_per_record

    def each() -> Iterable[tuple[int, float]]:
        for row, brokers in enumerate(state[Assignment].broker.tolist()):
            leader = int(state[Partitions].leader[row])
            for slot, broker in enumerate(brokers):
                if roles.in_isr[row, slot] or roles.is_offline[row, slot] or leader == NO_BROKER:
                    continue
                led = slot_of(state, row, leader)
                begin = max(
                    int(replicas.log_end_offset[row, slot]),
                    int(replicas.local_log_start_offset[row, led]),
                )
                lacks = max(int(replicas.log_end_offset[row, led]) - begin, 0)
                yield broker, lacks * float(size[row])

    found, expected = by_broker(under_way(state)), summed(each())
    assert {b: n for b, (n, _) in found.items()} == {b: n for b, (n, _) in expected.items()}
    for broker, (_, total) in expected.items():
        assert found[broker][1] == pytest.approx(total)
    assert sum(count for count, _ in found.values()) >= 4
    assert all(total > 0 for _, total in found.values())


def test_logs_that_broker_has_take_what_the_curves_of_its_volume_say():
    """Each replica is like its leader, so both ways to ask say the same."""
    state = simulated(5, cold_share=0.0)
    tables = LogTables(**state.arguments(parameters(LogTables)))
    curves = sums_by_directory(tables, state[ReplicaDirs], state.observed_at_ms)
    mine = curves.broker == 2
    growths = grown_on(state, [2], chosen=True)
    assert set(growths.broker.tolist()) == {2}
    for name in ("least_bytes", "most_bytes"):
        curve = getattr(curves, name)[mine]
        apart = getattr(growths, name).sum(axis=0)
        assert len(curve) == len(POINTS_S)
        assert apart == pytest.approx(curve - curve[0])


def test_the_sums_are_the_same_for_any_number_of_shards():
    states = [simulated(1, shard, 3, lags=True) for shard in range(3)]
    parts = [under_way(state) for state in states]
    whole = by_broker(together(parts))
    for broker, (count, size) in whole.items():
        each = [by_broker(part).get(broker, (0, 0.0)) for part in parts]
        assert count == sum(n for n, _ in each)
        assert size == pytest.approx(sum(total for _, total in each))
