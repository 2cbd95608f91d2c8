"""The archive's program beside the query's, on real brokers: CPU time of each.

Observations of 300 000 replicas are simulated and sent every 10 s. The query runs in this process,
of which the JVM and the Python workers count; all of the archive's processes count. Both read the
same bus, and their first cycles, in which whole states are sent and a fresh JVM compiles, do not
count.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.sender import Sender
from streaming.history.archive.delta import ArchiveTables
from streaming.query import twin_query as twin_query
from streaming.query.session import spark_session
from streaming.runtime.configuration.loading import load
from tests.bench import figure
from tests.bench.deployment import (
    BUS_PARTITIONS,
    Simulated,
    brokers,
    processes,
    send,
    stopped_at_end,
    until_written,
)
from tests.waiting import until

REPLICAS: Final = 300_000
SHARDS: Final = 16
INTERVAL_S: Final = 10.0
CYCLES: Final = 36
UNCOUNTED: Final = 12
"""Two minutes of six minutes, in which the archive begins with whole states."""

_CONFIG: Final = """\
[cluster]
name = "sim"
bootstrap = "{bootstrap}"
[bus]
prefix = "bench-archive"
shards = {shards}
partitions = {partitions}
replication_factor = 1
[collector]
interval_ms = 10000
[query]
checkpoint = "{home}/checkpoint"
driver_memory = "2g"
max_offsets_per_trigger = 100000
[archive]
path = "{home}/archive"
"""


def main() -> None:
    """Run both, and print a figure a line."""
    with (
        tempfile.TemporaryDirectory(prefix="kafka-twin-bench-") as folder,
        brokers(None, Path(folder)) as bootstrap,
    ):
        path = Path(folder) / "twin.toml"
        path.write_text(
            _CONFIG.format(
                bootstrap=bootstrap, home=folder, shards=SHARDS, partitions=BUS_PARTITIONS
            )
        )
        _measure(path)


def _measure(path: Path) -> None:
    config = load(path, {})
    bus_topics.ensure_topics(config)
    simulated = Simulated(REPLICAS, SHARDS)
    with (
        spark_session(config) as spark,
        stopped_at_end(twin_query.start(spark, [config])) as query,
        Sender(config, buffer_bytes=1 << 30) as sender,
        Reader(config, [bus_topics.topics(config).snapshots], "end") as reader,
        _archive(path) as pid,
    ):
        for cycle in range(CYCLES):
            began = time.monotonic()
            at_ms = time.time_ns() // 1_000_000
            send(config, sender, simulated.encoded(at_ms))
            until_written(reader, query, SHARDS, at_ms)
            if cycle == UNCOUNTED:
                before = _spent_s(os.getpid(), pid), _spent_s(pid) + _own_s(pid)
            time.sleep(max(0.0, began + INTERVAL_S - time.monotonic()))
        of_query = _spent_s(os.getpid(), pid) - before[0]
        of_archive = _spent_s(pid) + _own_s(pid) - before[1]
        until(lambda: len(ArchiveTables(config.archive.path).newest_cycles()) >= SHARDS, 120)
    about = {"replicas": simulated.replicas, "interval_s": INTERVAL_S}
    cycles = CYCLES - 1 - UNCOUNTED
    figure("archive_query_cpu_seconds_a_cycle", of_query / cycles, "s", **about)
    figure("archive_cpu_seconds_a_cycle", of_archive / cycles, "s", **about)
    figure("archive_cpu_share_of_query", of_archive / of_query, "1", **about)


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[int]:
    """The process id of the archive's program, for as long as the block."""
    command = [sys.executable, "-m", "streaming", "--config", str(path), "archive"]
    with path.with_name("archive.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def _own_s(pid: int) -> float:
    return processes()[pid].cpu_s


def _spent_s(pid: int, without: int = -1) -> float:
    """CPU time of the processes below one, in its session; without another and those below it."""
    found = processes()
    session, below = os.getsid(0), {pid}
    for _ in range(8):
        below |= {
            each.pid
            for each in found.values()
            if each.parent in below and each.session == session and each.pid != without
        }
    return sum(found[each].cpu_s for each in below - {pid})


if __name__ == "__main__":
    main()
