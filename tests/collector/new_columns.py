"""A program that gives frames one more column each, and prints where its fill arrives.

Nobody reads the new columns. ``test_new_columns.py`` runs it, since tables are declared once for
each interpreter.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from twin.declarations.table import Int64, column
from twin.tables import broker_columns, columns

FILL = -7


def with_one_more(base: Any) -> Any:
    """The columns of that class, and one that no source reads."""

    class OneMore(base):  # type: ignore[misc]
        added: Int64 = column("a column that was declared a moment ago", fill=FILL)

    return OneMore


for module, name in (
    (broker_columns, "BrokerColumns"),
    (columns, "ConfigColumns"),
    (columns, "LogSample"),
):
    setattr(module, name, with_one_more(getattr(module, name)))

# Everything else is imported when the columns are there.
from streaming.collector.cycle.collector import Collector  # noqa: E402
from streaming.collector.cycle.observation import ObservationEncoder  # noqa: E402
from streaming.collector.wire.connections import BrokerConnections  # noqa: E402
from streaming.runtime.config import BusConfig, Config  # noqa: E402
from tests.builders import NOW_MS, Partition, a_state  # noqa: E402
from tests.collector.fake_broker import Partition as Served  # noqa: E402
from tests.collector.fake_broker import Topic, World, fake_cluster  # noqa: E402
from tests.simulator.shard import SimulatedShard  # noqa: E402
from tests.waiting import patient_ms  # noqa: E402
from twin.builtin import CATALOG  # noqa: E402
from twin.engine import codec, frames  # noqa: E402
from twin.engine.shard_state import ShardState  # noqa: E402
from twin.step import step  # noqa: E402
from twin.tables.state import Brokers, Configs, Replicas  # noqa: E402


def observed() -> ShardState:
    """The state after a cycle of a real collector with fake brokers."""
    world = World(topics={"orders": Topic({0: Served([1, 2])})})
    config = Config(bus=BusConfig(shards=1))
    with (
        fake_cluster(world) as cluster,
        BrokerConnections(cluster.bootstrap, {}, patient_ms(2_000)) as brokers,
    ):
        result = Collector(config, brokers).observe()
        assert result is not None
        [(_, message)] = ObservationEncoder().encode(result)
    decoded = frames.decode(message, CATALOG.observations)
    assert not decoded.invalid
    empty = ShardState.empty(CATALOG, config.cluster.name, 0, 1)
    return step(empty, decoded.frames, result.observed_at_ms)[0]


def simulated() -> ShardState:
    """The state after a cycle of the simulator."""
    empty = ShardState.empty(CATALOG, "sim", 0, 1)
    return step(empty, SimulatedShard().observe(NOW_MS), NOW_MS)[0]


def fills(state: ShardState) -> dict[str, list[int]]:
    """The distinct values of the new columns."""
    tables = (Brokers, Configs, Replicas)
    return {each.kind: np.unique(state[each].added).tolist() for each in tables}  # type: ignore[attr-defined]


if __name__ == "__main__":
    built = a_state(Partition())
    states = {
        "builders": built,
        "codec": codec.decode(codec.encode(built), CATALOG).state,
        "simulator": simulated(),
        "collector": observed(),
    }
    print(json.dumps({name: fills(state) for name, state in states.items()}))
