"""A small cluster, as most people have: five brokers, 431 partitions, and a twin that nobody asks.

CPU and memory of each program while nothing is written (idle), and while every partition is (busy);
then the CPU of a scrape. The brokers are real. With --against another build takes turns with this
one on the same brokers, so that their figures can be compared:

    git worktree add ../before COMMIT
    python -m tests.bench.small --against ../before --pairs 3
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka import KafkaAdminClient, KafkaProducer

from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.deadline import Deadline
from tests.bench import figure
from tests.bench.deployment import Process, processes
from tests.strangers.kinds import PARTITIONS
from tests.strangers.setup import RECORD, SETTINGS
from tests.web import get

BROKERS: Final = 5
TOPICS: Final = 126
TOPIC_PARTITIONS: Final = 419
"""With the twelve of the bus it is the cluster of ``tests.strangers``."""

WARM_UP_S: Final = 60
SECONDS: Final = 60
SCRAPES: Final = 20
UP_WITHIN_S: Final = 180
WRITE_EVERY_S: Final = 1.0

HERE: Final = Path(__file__).parents[2]

CONFIG: Final = """\
[cluster]
name = "small"
bootstrap = "{bootstrap}"

[bus]
prefix = "{prefix}"
{shards}
"""

OWN: Final = """
[query]
checkpoint = "{home}/checkpoint"

[exporter]
port = {port}
"""
"""What each twin of the bench has, whatever it watches."""


class Used(NamedTuple):
    """What a process has used since it began."""

    cpu_s: float
    resident_bytes: int
    proportional_bytes: int  # a page that several processes share counts once in their sum


ByProcess = dict[int, Used]


def main(arguments: list[str] | None = None) -> None:
    """Start brokers, then measure a twin on them, or two builds in turn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="the folder of another build")
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--shards", type=int, help="bus.shards; as the build chooses without")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S)
    chosen = parser.parse_args([] if arguments is None else arguments)
    builds = {"this": HERE} | ({"before": chosen.against} if chosen.against else {})
    with tempfile.TemporaryDirectory(prefix="kafka-twin-bench-") as folder:
        home = Path(folder)
        with LocalCluster(
            home / "cluster", brokers=BROKERS - 3, base_port=free_base_port(), settings=SETTINGS,
            metrics=False,
        ) as cluster:  # fmt: skip
            topics = make_topics(cluster.bootstrap)
            for pair in range(chosen.pairs):
                for name, build in builds.items():
                    about = {"build": name, "pair": pair}
                    one = home / f"{name}-{pair}"
                    lines = "" if chosen.shards is None else f"shards = {chosen.shards}"
                    text = CONFIG.format(
                        bootstrap=cluster.bootstrap, prefix=f"bench-{one.name}", shards=lines
                    )
                    with twin(cluster.bootstrap, one, build, text) as (pids, port):
                        time.sleep(chosen.warm_up)
                        _measure(pids, port, cluster.bootstrap, topics, chosen.seconds, about)


def make_topics(bootstrap: str) -> dict[str, int]:
    """Topics with a record in each partition; the number of partitions of each."""
    counts = [PARTITIONS[number % len(PARTITIONS)] for number in range(TOPICS - 1)]
    counts.append(TOPIC_PARTITIONS - sum(counts))
    topics = {f"topic-{number:03d}": count for number, count in enumerate(counts)}
    specs = {
        topic: {"num_partitions": count, "replication_factor": 3} for topic, count in topics.items()
    }
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(specs, timeout_ms=60_000, wait_for_metadata=True)
    with KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        _write(producer, topics)
    return topics


def _write(producer: KafkaProducer, topics: Mapping[str, int]) -> None:
    for topic, count in topics.items():
        for partition in range(count):
            producer.send(topic, RECORD, partition=partition)
    producer.flush(60)


@contextlib.contextmanager
def _written(bootstrap: str, topics: Mapping[str, int]) -> Iterator[None]:
    """Every partition gets a record a second for as long as the block."""
    over = threading.Event()

    def write() -> None:
        with KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
            while not over.wait(WRITE_EVERY_S):
                _write(producer, topics)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def twin(
    bootstrap: str, home: Path, build: Path, text: str
) -> Iterator[tuple[dict[str, int], int]]:
    """The programs of a build by name, and the exporter's port, once it has snapshots.

    The bus topics, whose names begin with ``bench-``, are deleted at the end.
    """
    home.mkdir()
    config, port = home / "twin.toml", free_base_port(span=1)
    config.write_text(text + OWN.format(home=home, port=port))
    programs: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in ("collector", "query", "exporter"):
            with (home / f"{name}.log").open("wb") as log:
                programs[name] = subprocess.Popen(
                    [sys.executable, "-m", "streaming", "--config", str(config), name],
                    cwd=build,
                    stdout=log,
                    stderr=log,
                )
        deadline = Deadline.after_s(UP_WITHIN_S)
        while get(f"http://127.0.0.1:{port}/healthz")[0] != 200:
            ended = [name for name, program in programs.items() if program.poll() is not None]
            if ended or deadline.is_over:
                logs = [(home / f"{name}.log").read_text()[-1_000:] for name in ended]
                raise SystemExit(f"the twin is not up: {ended} {logs}")
            time.sleep(0.5)
        yield {name: program.pid for name, program in programs.items()}, port
    finally:
        for program in programs.values():
            program.terminate()
        for program in programs.values():
            program.wait(90)
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            own = [topic for topic in admin.list_topics() if topic.startswith("bench-")]
            admin.delete_topics(own, timeout_ms=20_000)


def _measure(
    pids: Mapping[str, int], port: int, bootstrap: str, topics: Mapping[str, int],
    seconds: float, about: dict[str, Any],
) -> None:  # fmt: skip
    window("small", "idle", pids, seconds, about)
    url = f"http://127.0.0.1:{port}/metrics"
    get(url)
    before = used_by(pids)["exporter"]
    for _ in range(SCRAPES):
        get(url)
    spent_s = cpu_s(before, used_by(pids)["exporter"])
    figure("small_scrape_cpu_milliseconds", spent_s / SCRAPES * 1e3, "ms", **about)
    with _written(bootstrap, topics):
        time.sleep(seconds / 4)
        window("small", "busy", pids, seconds, about)


def window(
    part: str, when: str, pids: Mapping[str, int], seconds: float, about: dict[str, Any]
) -> tuple[float, float]:
    """Print the share of a core that each program uses meanwhile, and its memory at the end.

    Gives the sums: percent of a core, and bytes.
    """
    before, began_s = used_by(pids), time.monotonic()
    time.sleep(seconds)
    after, spent_s = used_by(pids), time.monotonic() - began_s
    share = {name: cpu_s(before[name], after[name]) / spent_s * 100 for name in before}
    for name, percent in [*share.items(), ("all", sum(share.values()))]:
        figure(f"{part}_cpu_percent_of_a_core", percent, "%", program=name, when=when, **about)
    everything = _memory(used for by_pid in after.values() for used in by_pid.values())
    if when == "idle":
        sums = {name: _memory(used.values()) for name, used in after.items()}
        for name, (resident, proportional) in [*sums.items(), ("all", everything)]:
            figure(
                f"{part}_memory_bytes", proportional, "B", program=name, resident=resident, **about
            )
    return sum(share.values()), everything[1]


def cpu_s(before: ByProcess, after: ByProcess) -> float:
    """CPU time between two moments. What had ended by the second is not counted: Spark ends Python
    workers that are idle for a minute."""
    return sum(
        used.cpu_s - (before[pid].cpu_s if pid in before else 0) for pid, used in after.items()
    )


def _memory(used: Iterable[Used]) -> tuple[int, int]:
    listed = list(used)
    return sum(u.resident_bytes for u in listed), sum(u.proportional_bytes for u in listed)


def used_by(pids: Mapping[str, int]) -> dict[str, ByProcess]:
    """What the processes of each program have used; the query's driver, JVM and Python workers
    apart."""
    found = processes()
    used: defaultdict[str, ByProcess] = defaultdict(dict)
    for name, pid in pids.items():
        for process, part in _below(found[pid], "driver" if name == "query" else "", found):
            used[f"{name} {part}".strip()][process.pid] = Used(
                process.cpu_s, process.resident_bytes, proportional_bytes(process.pid)
            )
    return dict(used)


def _below(
    process: Process, part: str, found: Mapping[int, Process]
) -> Iterator[tuple[Process, str]]:
    """A process and those below it, with the part of the query that each is."""
    yield process, part
    for child in found.values():
        if child.parent == process.pid:
            yield from _below(child, _part(child) or part, found)


def _part(process: Process) -> str:
    """Empty for processes that were just forked, or have ended: those are of their parent's."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        if b"java" in command.split(b"\0")[0]:
            return "JVM"
        return "workers" if b"pyspark.daemon" in command else ""
    return ""


def proportional_bytes(pid: int) -> int:
    """Memory of a process, 0 if it has ended; of a page that N share it has one N-th."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1_024
    return 0


if __name__ == "__main__":
    main(sys.argv[1:])
