"""A simulated fleet of large clusters: how soon it is judged, and what one query program takes.

Observations are simulated before anything is measured (``scale.observations``); the brokers, the
program, Spark and every byte between them are real. Each cluster sends when its collector would,
whether or not the query keeps up. Then the driver is killed, and on a standalone master an
executor; at the end each state on the bus is compared with that of one process without a break.

    python -m tests.bench.fleet_scale --clusters 20 --replicas 500000 --interval 30
    python -m tests.bench.fleet_scale --clusters 20 --replicas 500000 --interval 30 --standalone

Brokers, HDFS, the standalone master, its workers and the driver run on this machine, the last
three in namespaces of their own.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.sender import Sender
from tests.bench import figure
from tests.bench.deployment import brokers
from tests.bench.scale import fleet, truth
from tests.bench.scale.fleet import Sending, Size
from tests.bench.scale.programs import Program, on_standalone_master, on_this_machine
from tests.bench.scale.run import Run
from twin.engine.updates import WHOLE_EVERY_CYCLES

USUAL: Final = Size(clusters=4, replicas=100_000, interval_s=5)
FULL: Final = Size(clusters=20, replicas=500_000, interval_s=30)

WARM_UP: Final = 3
"""Cycles that do not count, while the JVM compiles and workers start."""

CYCLES: Final = WHOLE_EVERY_CYCLES
"""Cycles that count, with one whole state of every shard."""

_FOR_A_KILL_S: Final = 240
"""At most until all clusters are fresh again and no cycle waits."""


def main(arguments: list[str] | None = None) -> None:
    """Play one fleet, and print a figure a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="20 clusters of 500 000 replicas, 30 s")
    parser.add_argument("--clusters", type=int)
    parser.add_argument("--replicas", type=int, help="of each cluster")
    parser.add_argument("--interval", type=float, help="seconds between cycles of a cluster")
    parser.add_argument("--cycles", type=int, default=CYCLES, help="that count")
    parser.add_argument("--warm-up", type=int, default=WARM_UP, help="cycles before these")
    parser.add_argument("--standalone", action="store_true", help="a master with two executors")
    chosen = parser.parse_args([] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # with all programs
    usual = FULL if chosen.full else USUAL
    size = Size(
        chosen.clusters or usual.clusters,
        chosen.replicas or usual.replicas,
        chosen.interval or usual.interval_s,
    )
    with (
        tempfile.TemporaryDirectory(prefix="kafka-twin-bench-") as folder,
        brokers(None, Path(folder)) as bootstrap,
        (on_standalone_master if chosen.standalone else on_this_machine)(Path(folder)) as program,
    ):
        _play(Path(folder), size, bootstrap, program, chosen.warm_up, chosen.cycles)


def _play(
    home: Path, size: Size, bootstrap: str, program: Program, warm_up: int, cycles: int
) -> None:
    kills = program.kills
    most = warm_up + cycles + len(kills) * round(_FOR_A_KILL_S / size.interval_s)
    replicas, simulated = fleet.simulated(size, most)
    file = home / "twin.toml"
    followed = fleet.configured(file, size, bootstrap, program.checkpoint, program.settings)
    configs = followed.configs
    for config in configs.values():
        bus_topics.ensure_topics(config)
    snapshots = [bus_topics.topics(config).snapshots for config in configs.values()]
    about = {"clusters": size.clusters, "replicas_each": replicas, "interval_s": size.interval_s,
             "master": program.master}  # fmt: skip
    with (
        Sender(followed.common, buffer_bytes=1 << 30) as sender,
        Reader(followed.common, snapshots, "end") as reader,
    ):
        sending = Sending(configs, simulated, sender)
        run = Run(size, sending, reader, program, about)
        program.start(file)
        run.until_read(warm_up)
        run.measure(cycles)
        for victim, kill in kills.items():
            run.kill(victim, kill, (lambda: program.start(file)) if victim == "driver" else None)
        sending.finish()
        run.until_read(sending.cycles)
    expected = truth.replayed(followed.common, simulated[: sending.cycles])
    wrong = [
        f"{name}: {each}"
        for name, config in configs.items()
        for each in truth.differences(truth.served(config), expected)
    ]
    if wrong:
        raise SystemExit("other states than those of a replay:\n" + "\n".join(wrong))
    figure("fleet_scale_states_equal_to_a_replay", len(configs) * len(expected), "shards",
           killed=[*kills], cycles=sending.cycles, **about)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
