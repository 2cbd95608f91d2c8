"""The states that the observations of a simulated cluster lead to, and those on the bus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from streaming.bus.snapshots import newest
from streaming.history.stepping import nothing_yet, stepped
from streaming.runtime.config import Config
from streaming.runtime.plugins import catalog_of
from tests.bench.scale.fleet import SIMULATED
from twin.engine import codec
from twin.engine.frames import headers
from twin.engine.shard_state import ShardState

_WITHIN_S = 120.0


def replayed(config: Config, cycles: Iterable[Sequence[tuple[int, bytes]]]) -> dict[int, bytes]:
    """Each shard's state after all these cycles, stepped by one process without a break."""
    catalog = catalog_of(config)
    states = nothing_yet(catalog, SIMULATED, config.bus.shards)
    for messages in cycles:
        states = stepped(catalog, SIMULATED, states, messages)
    return _encoded(past.state for past in states.shards.values())


def served(config: Config) -> dict[int, bytes]:
    """Each shard's newest state on the bus, under the name of the simulated cluster."""
    return _encoded(newest(config, _WITHIN_S).states)


def differences(served: Mapping[int, bytes], expected: Mapping[int, bytes]) -> list[str]:
    """A few words for each shard whose state is another one, or is missing; none if all agree."""
    said = []
    for shard in sorted(served.keys() | expected.keys()):
        if served.get(shard) == expected.get(shard):
            continue
        cycles = [
            headers(states[shard])[0][0].cycle if shard in states else "missing"
            for states in (served, expected)
        ]
        said.append(f"shard {shard} of cycle {cycles[0]}, of the replay {cycles[1]}")
    return said


def _encoded(states: Iterable[ShardState | None]) -> dict[int, bytes]:
    return {
        state.shard: codec.encode(replace(state, cluster=SIMULATED))
        for state in states
        if state is not None
    }
