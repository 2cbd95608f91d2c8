"""Only groups that may be at risk are looked at one by one; the others really are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, empty
from tests.examples import examples
from tests.simulator.shard import Shape, SimulatedShard
from twin.declarations.table import UNKNOWN, Array, Bool
from twin.engine.shard_state import ShardState
from twin.rules.groups.group_forecasts import GroupForecasts
from twin.rules.groups.group_risks import (
    GroupsNearRisk,
    falls_off_local_log,
    loses_records,
    may_lose_records,
    reads_remote,
)
from twin.rules.groups.moves import GroupLags, GroupMoves
from twin.rules.groups.reach import FALLS_OFF_SOON_S, LOSES_SOON_S
from twin.rules.groups.reads import GroupReads, ReadsFrom
from twin.rules.partitions.growth import Growth
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.step import step
from twin.tables.state import Partitions

LIMITS_MS = (-2, -1, 0, 100_000, 900_000, 905_000, 1_800_000, 3_600_000, 4_500_000, 86_400_000)
LIMITS_BYTES = (-2, -1, -1, -1, 10**6, 9 * 10**7, 10**8, 2 * 10**8, 10**9)
RATES = (-1.0, 0.0, 1e-5, 30.0, 90.0, 99.0, 100.0, 101.0, 300.0)  # 100 are appended


def simulated(seed: int, cycles: int, groups: int) -> ShardState:
    """Groups near the log end and far behind, under retention and rates of any kind."""
    shape = Shape(topics=2, partitions=4, cold_share=0.3, groups=groups)
    state = empty("sim")
    for frames in SimulatedShard(shape, seed).run(cycles, NOW_MS):
        state, _ = step(state, frames, frames[0].header.observed_at_ms)
    random = np.random.default_rng(seed)

    def drawn(values: Sequence[float], like: Array) -> Array:
        return random.choice(values, len(like)).astype(like.dtype)

    configs, growth, moves = state[TopicConfigs], state[Growth], state[GroupMoves]
    appended = growth.appended_records_per_s
    limits = {
        "local_retention_ms": drawn(LIMITS_MS, configs.local_retention_ms),
        "local_retention_bytes": drawn(LIMITS_BYTES, configs.local_retention_bytes),
        "retention_ms": drawn(LIMITS_MS, configs.retention_ms),
        "retention_bytes": drawn(LIMITS_BYTES, configs.retention_bytes),
        "remote_storage": drawn((UNKNOWN, 0, 1, 1, 1), configs.remote_storage),
    }
    return state.with_tables(
        replace(configs, **limits),
        replace(growth, appended_records_per_s=drawn((-1, 0, 1e-3, 100, 100), appended)),
        replace(moves, records_per_s=drawn(RATES, moves.records_per_s)),
    )


def of_all(state: ShardState) -> tuple[Bool, Bool, Bool]:
    """[P] the three risks by the tables of all groups."""
    reads, lags, until = state[GroupReads], state[GroupLags], state[GroupForecasts]
    rows = state.partitions
    remote = reads.reads_from == ReadsFrom.REMOTE
    falls_off = (until.until_remote_s <= FALLS_OFF_SOON_S) & (reads.reads_from == ReadsFrom.DISK)
    loses = until.until_loss_s <= LOSES_SOON_S
    masks = [reads.pick(risk & lags.in_use).row_mask(rows) for risk in (remote, falls_off, loses)]
    return masks[0], masks[1], masks[2]


@examples(200)
@given(st.integers(0, 10**9), st.integers(2, 4), st.integers(1, 4))
def test_the_risks_are_those_of_all_groups(seed: int, cycles: int, groups: int) -> None:
    state = simulated(seed, cycles, groups)
    near, partitions = state[GroupsNearRisk], state[Partitions]
    held = [risk(near, partitions) for risk in (reads_remote, falls_off_local_log)]
    held.append(loses_records(near, partitions) | may_lose_records(near, partitions))
    for near, expected in zip(held, of_all(state), strict=True):
        assert near.tolist() == expected.tolist()


def test_groups_that_keep_up_are_not_looked_at() -> None:
    """Of 128 rows nine are behind."""
    state = empty("sim")
    for frames in SimulatedShard(Shape(groups=4, behind_every=10**6, cold_share=0)).run(3, NOW_MS):
        state, _ = step(state, frames, frames[0].header.observed_at_ms)
    assert len(state[GroupMoves]) == 128
    assert 0 < len(state[GroupsNearRisk]) <= 9
