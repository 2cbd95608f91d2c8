"""Digests of all that a reader of the bus has, cycle by cycle, to compare two builds.

The same lines mean that both write the same states and events, in however many bytes.

    git worktree add ../before COMMIT
    PYTHONPATH=../before python tests/bench/digests.py 50 100 > before.txt
    python -m tests.bench.digests 50 100 | diff before.txt -

A line a seeded cluster: its seed, a digest of all states and events, how many events there were;
on standard error how many bytes the snapshots had.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from typing import Any

import numpy as np
from pyspark.sql import Row
from pyspark.sql.streaming import TwsTester

from streaming.query.processor import Destination, TwinProcessor
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.table import NO_BROKER, ReplicaTable
from twin.engine import codec, frames
from twin.engine.shard_state import ShardState
from twin.proposals import PROPOSALS
from twin.tables.state import Assignment

START_MS = 1_800_000_000_000


class Reader:
    """The state after each message; of builds without updates each message is a whole state."""

    def __init__(self) -> None:
        self._chain: Any = None
        try:
            from streaming.bus.chains import Chain
        except ModuleNotFoundError:
            return
        self._chain = Chain()

    def state(self, message: bytes) -> ShardState:
        """The state that the message brings."""
        if self._chain is None:
            return codec.decode(message, CATALOG).state
        from twin.engine import updates

        link = updates.link_of(message)
        if link is None:
            self._chain.take_part(0, 1, codec.decode(message, CATALOG), message)
        else:
            self._chain.take_update(link, message)
        assert not self._chain.is_behind
        state: ShardState = self._chain.state
        return state


def add(state: ShardState, digest: Any) -> None:
    """Add every column of a state to the digest."""
    used = state[Assignment].broker != NO_BROKER
    times = (state.observed_at_ms, state.prev_observed_at_ms, state.judged_at_ms)
    digest.update(repr((times, state.cycle, state.listing)).encode())
    tables = [state[table] for table in (*CATALOG.stored, *CATALOG.on_demand)]
    tables += [state.of_before(table) for table in CATALOG.remembered]
    # Their order is that of modules, which says nothing of what is in them.
    for table in sorted(tables, key=lambda each: each.kind):
        for column, values in zip(table.columns, table.values(), strict=True):
            shown = values[used] if isinstance(table, ReplicaTable) else values
            digest.update(f"{table.kind}.{column.name}".encode())
            if shown.dtype == object:
                digest.update(repr(shown.tolist()).encode())
            else:
                digest.update(np.ascontiguousarray(shown, column.dtype).tobytes())


def of_cluster(seed: int, cycles: int) -> tuple[str, int, int]:
    """The digest of a seeded cluster, the number of its events and the bytes of its snapshots."""
    shape = Shape(
        topics=2 + seed % 3, partitions=4, replication=1 + seed % 4, groups=seed % 3,
        fetches=bool(seed % 2), tier=seed % 5 == 0,
    )  # fmt: skip
    shard, reader, digest = SimulatedShard(shape, seed), Reader(), hashlib.sha256()
    tester = TwsTester(TwinProcessor({"": Destination(1, "snapshots", "events")}, tuple(PROPOSALS)))
    offset = events = size = 0
    for cycle, observed in enumerate(shard.run(cycles, START_MS)):
        if cycle % 17 == 11:
            shard.create_topic(f"new-{cycle}")
        if cycle % 29 == 23:
            shard.delete_topic(shard.topics[0][0])
        rows = []
        for frame in observed:
            rows.append(
                Row(key="sim/0", value=frames.encode(frame), topic="o", partition=0, offset=offset,
                    timestamp_ms=0)
            )  # fmt: skip
            offset += 1
        for row in tester.test("sim/0", rows):
            message = bytes(row.value)
            if row.topic == "events":
                digest.update(message)
                events += 1
            elif row.topic == "snapshots":
                size += len(message)
                add(reader.state(message), digest)
    return digest.hexdigest(), events, size


def main() -> None:
    """Print a line a cluster."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clusters", type=int)
    parser.add_argument("cycles", type=int)
    chosen = parser.parse_args()
    for seed in range(chosen.clusters):
        digest, events, size = of_cluster(seed, chosen.cycles)
        print(seed, digest, events, flush=True)
        print(seed, size, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
