"""A simulated fleet: its configuration, when each cluster is observed, and its observations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from streaming.bus import bus_topics
from streaming.bus.record import key
from streaming.bus.sender import Sender
from streaming.bus.shards import shards_for
from streaming.runtime.config import Config
from streaming.runtime.configuration.following import Followed
from tests.bench.deployment import START_MS, Simulated, next_cycle_s
from tests.bench.scale.observations import Unnamed, unnamed

WRITTEN_SHARE: Final = 0.6
"""Of the partitions, as in ``end_to_end``."""

SIMULATED: Final = "sim"

COMMON: Final = """\
[bus]
bootstrap = "{bootstrap}"
prefix = "bench-{begun}"
shards = {shards}
partitions = 2
replication_factor = 1

[collector]
interval_ms = {interval_ms}

[query]
checkpoint = "{checkpoint}"
driver_memory = "2g"
{query}
"""

ONE: Final = """
[clusters.{name}]
bootstrap = "{bootstrap}"
"""

Cycle = Sequence[Unnamed]


class Size(NamedTuple):
    """Of a fleet."""

    clusters: int
    replicas: int  # of each cluster
    interval_s: float

    @property
    def shards(self) -> int:
        """Of each cluster."""
        return shards_for(self.replicas)


def configured(file: Path, size: Size, bootstrap: str, checkpoint: str, query: str) -> Followed:
    """The configuration of a fleet on a bus, written to the file.

    Args:
        file: to be written.
        size: of the fleet.
        bootstrap: of the bus.
        checkpoint: of the query.
        query: more lines of its section.
    """
    common = COMMON.format(
        bootstrap=bootstrap, begun=time.time_ns(), shards=size.shards, query=query,
        interval_ms=round(size.interval_s * 1_000), checkpoint=checkpoint,
    )  # fmt: skip
    names = (f"c{number:02d}" for number in range(size.clusters))
    file.write_text(common + "".join(ONE.format(name=n, bootstrap=bootstrap) for n in names))
    return Followed(file, {})


def simulated(size: Size, cycles: int) -> tuple[int, list[list[tuple[int, bytes]]]]:
    """Replicas of one cluster, and shard and message of all that each of its cycles observes."""
    cluster = Simulated(size.replicas, size.shards, WRITTEN_SHARE)
    each_ms = round(size.interval_s * 1_000)
    return cluster.replicas, [
        cluster.encoded(START_MS + cycle * each_ms, each_ms) for cycle in range(cycles)
    ]


class Sending:
    """Sends each cycle of each cluster when its collector would, whatever has become of others."""

    def __init__(
        self, configs: Mapping[str, Config], cycles: Sequence[Sequence[tuple[int, bytes]]],
        sender: Sender,
    ) -> None:  # fmt: skip
        """The first cycle of each cluster is due within an interval.

        Args:
            configs: of the clusters, by name.
            cycles: of the simulated cluster.
            sender: of the bus.
        """
        self._cycles: list[Cycle] = [[unnamed(*each) for each in cycle] for cycle in cycles]
        self._configs, self._sender = configs, sender
        self._topics = {n: bus_topics.topics(c).observations for n, c in configs.items()}
        now_s = time.time()
        self._due_s = {name: next_cycle_s(config, now_s) for name, config in configs.items()}
        self._sent = dict.fromkeys(configs, 0)  # cycles
        self.sent_s: dict[tuple[str, int], float] = {}
        """By name and number of the cycle, from 1, by the clock of ``time.monotonic``."""
        self.bytes = 0
        self.cycles = len(cycles)
        """So many are sent of each cluster."""

    @property
    def names(self) -> Iterable[str]:
        """Of the clusters."""
        return self._configs

    def finish(self) -> None:
        """Send no more cycles of a cluster than those that another one has had."""
        self.cycles = max(self._sent.values())

    def turn(self) -> None:
        """Send what is due."""
        now_s = time.time()
        for name, due_s in self._due_s.items():
            if due_s <= now_s and self._sent[name] < self.cycles:
                self._sent[name] += 1
                self._send(name, self._sent[name])
                self._due_s[name] = next_cycle_s(self._configs[name], max(now_s, due_s))

    def _send(self, name: str, cycle: int) -> None:
        self.sent_s[name, cycle] = time.monotonic()
        for each in self._cycles[cycle - 1]:
            message = each.of(name)
            self.bytes += len(message)
            self._sender.send(self._topics[name], key(name, each.shard), message)
