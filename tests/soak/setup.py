"""The setup of a soak: brokers with topics of several kinds, traffic, the three programs.

The bus is a cluster of its own, so that the twin goes on while every watched broker is away.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient

from streaming.history.archive.delta import ArchiveTables
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.lab.scripts.stage import ScriptFailed, Stage
from streaming.lab.traffic import TIERED, Traffic
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from streaming.runtime.supervise import Child, children, supervised
from tests.soak.fleet import FAULTY, FOLDER, Others, others
from tests.soak.judge import Note, Span

UP_WITHIN_S: Final = 240.0
REST_WITHIN_S: Final = 240.0
ARCHIVED_WITHIN_S: Final = 120.0
ARCHIVED_UNTIL_MS: Final = 10_000
"""The newest cycle is archived with the next one."""

RACKS: Final = 3
"""Of five brokers 1 and 4 share a rack, and 2 and 5."""

_SETTINGS: Final = {
    "leader.imbalance.check.interval.seconds": "90",  # 300: too rare for half an hour
}
_UNCLEAN: Final = {"unclean.leader.election.enable": "true"}

TOPICS: Final[dict[str, dict[str, Any]]] = {
    "soak-safe": {
        "num_partitions": 8,
        "replication_factor": 3,
        "configs": {"min.insync.replicas": "2"},
    },
    "soak-tiered": {"num_partitions": 6, "replication_factor": 3, "configs": TIERED},
    "soak-two": {"num_partitions": 6, "replication_factor": 2, "configs": {}},
    "soak-single": {"num_partitions": 5, "replication_factor": 1, "configs": {}},
    "soak-unclean": {"num_partitions": 4, "replication_factor": 2, "configs": _UNCLEAN},
}
"""Soak-safe and soak-tiered have a min ISR of 2, so they have eligible leader replicas too."""

PAIR_TOPICS: Final[dict[str, dict[str, Any]]] = {"soak-pair": {}, "soak-pair-unclean": _UNCLEAN}
"""Topics that lose all their brokers when the last two go, with their settings."""


_CLUSTER: Final = """\
bootstrap = "{bootstrap}"

[collector.metrics_urls]
{metrics_urls}

[[eligibility.topics]]
name = "soak-tiered"
local_log_bytes = 262144
"""
"""What the cluster with the faults has of its own."""

_CONFIG: Final = """\
[bus]
bootstrap = "{bus}"
shards = 4
observations_retention_ms = {retention_ms}

[collector]
interval_ms = 2000
deadline_ms = 1500
config_interval_ms = 10000
metrics_interval_ms = 5000

[query]
checkpoint = "{checkpoint}"
trigger_ms = 500

[archive]
path = "{archive}"
trigger_ms = 10000

[exporter]
port = {port}
"""


@dataclass(frozen=True)
class Soak:
    """A running soak: what faults act on, and what they note."""

    cluster: LocalCluster
    stage: Stage
    config: Config
    programs: list[Child]
    rng: random.Random
    notes: list[Note] = field(default_factory=list)
    spans_of_several: list[Span] = field(default_factory=list)  # several brokers were away
    misses: list[str] = field(default_factory=list)  # what the twin should have said
    others: Others | None = None  # clusters of the same fleet

    @property
    def pair(self) -> tuple[int, int]:
        """The last two brokers, which have all replicas of ``PAIR_TOPICS``."""
        ids = self.cluster.layout.ids
        return ids[-2], ids[-1]

    def admin(self) -> KafkaAdminClient:
        """A client of all brokers; to be used as a context manager."""
        return KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap)

    def pids(self) -> Mapping[str, int]:
        """The process of each program that runs."""
        return {p.name: p.process.pid for p in self.programs if p.process is not None}

    def partitions(self) -> list[dict[str, Any]]:
        """All partitions in the exporter's API; empty while it does not answer."""
        answer = self.stage.api("partitions?limit=1000") or {"partitions": []}
        partitions: list[dict[str, Any]] = answer["partitions"]
        return partitions

    def expect(self, condition: Callable[[], Any], within_s: float, otherwise: str) -> None:
        """Wait for what the twin must say; that it does not is an objection, and the soak goes on.

        Raises:
            ScriptFailed: the soak was ended.
        """
        try:
            self.stage.until(condition, within_s, otherwise)
        except ScriptFailed as failure:
            if self.stage.stop.is_set():
                raise
            self.stage.say(f"NO: {failure}")
            self.misses.append(str(failure))

    def await_rest(self) -> list[dict[str, Any]]:
        """Wait until every replica is in sync, for Kafka and for the twin; the twin's partitions.

        Raises:
            ScriptFailed: it takes too long, or the soak was ended.
        """
        return self.stage.until(self._at_rest, REST_WITHIN_S, "not every replica is in sync")

    def await_archived(self, at_ms: int) -> None:
        """Wait until the archive reaches the last cycles before a moment.

        Raises:
            ScriptFailed: it takes too long, or the soak was ended.
        """
        tables = ArchiveTables(self.config.archive.path)
        self.stage.until(
            lambda: min(tables.newest_cycles().values(), default=0) >= at_ms - ARCHIVED_UNTIL_MS,
            ARCHIVED_WITHIN_S,
            "the archive stands still",
        )

    def _at_rest(self) -> list[dict[str, Any]]:
        summary = self.stage.api("summary") or {"up": False}
        partitions = self.partitions() if summary["up"] else []
        is_whole = len(partitions) == len(self.stage.leaders())
        is_at_rest = is_whole and self.stage.is_at_rest(partitions)
        return partitions if is_at_rest and not any(_is_moving(p) for p in partitions) else []


def _is_moving(partition: Mapping[str, Any]) -> bool:
    return any(r["adding"] or r["removing"] for r in partition["replicas"])


@contextmanager
def soaking(
    home: Path, seed: int, minutes: float, brokers: int, say: Callable[[str], None],
    stop: threading.Event, *, is_fleet: bool = False,
) -> Iterator[Soak]:  # fmt: skip
    """A soak that is ready for faults; all its processes end with the block.

    Args:
        brokers: 3 or more, of which the first three are controllers too.
        is_fleet: the same programs watch two other clusters as well.
    """
    cluster = LocalCluster(
        home / "cluster", brokers=brokers - 3, base_port=free_base_port(), settings=_SETTINGS,
        racks=RACKS,
    )  # fmt: skip
    bus_cluster = LocalCluster(home / "bus", nodes=1, base_port=free_base_port(), metrics=False)
    for each in (cluster, bus_cluster):
        each.wipe()
    say(f"starting {brokers} brokers, of which 1 to 3 are controllers too, and one for the bus")
    with ExitStack() as stack:
        stack.enter_context(bus_cluster)
        stack.enter_context(cluster)
        beside = stack.enter_context(others(home, TOPICS)) if is_fleet else None
        path = _configure(home, cluster, bus_cluster, minutes, is_fleet)
        config = load(path, {}, FAULTY)
        topics = _create_topics(cluster)
        traffic = Traffic(cluster.bootstrap, topics)
        traffic.start()
        programs = children(["--config", str(path)], home / "logs", archive=True)
        say("starting collector, Spark query, exporter and archive")
        url = f"http://127.0.0.1:{config.exporter.port}"
        stage = Stage(cluster, f"{url}/clusters/{FAULTY}", None, say, stop)
        try:
            with supervised(programs):
                stage.until(
                    lambda: (stage.api("summary") or {}).get("up"), UP_WITHIN_S, "no snapshot"
                )
                yield Soak(cluster, stage, config, programs, random.Random(seed), others=beside)
        finally:
            traffic.stop()


def _configure(
    home: Path, cluster: LocalCluster, bus_cluster: LocalCluster, minutes: float, is_fleet: bool
) -> Path:
    (home / "logs").mkdir(parents=True, exist_ok=True)
    path = home / "kafka-twin.toml"
    urls = cluster.layout.metrics_urls.items()
    own = _CLUSTER.format(
        bootstrap=cluster.bootstrap,
        metrics_urls="\n".join(f'{broker} = "{url}"' for broker, url in urls),
    )
    if is_fleet:
        (home / FOLDER / f"{FAULTY}.toml").write_text(own)
    path.write_text(
        (f'[fleet]\nfolder = "{FOLDER}"\n' if is_fleet else f'[cluster]\nname = "{FAULTY}"\n{own}')
        + _CONFIG.format(
            bus=bus_cluster.bootstrap,
            retention_ms=int((minutes + 30) * 60_000),  # the judges read all of them at the end
            checkpoint=home / "checkpoint",
            archive=home / "archive",
            port=free_base_port(span=1),
        )
    )
    return path


def _create_topics(cluster: LocalCluster) -> tuple[str, ...]:
    first, second = cluster.layout.ids[-2:]
    pairs: dict[str, dict[str, Any]] = {
        name: {"assignments": {0: [first, second], 1: [second, first]}, "configs": configs}
        for name, configs in PAIR_TOPICS.items()
    }
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics(TOPICS | pairs, timeout_ms=20_000, wait_for_metadata=True)
    return (*TOPICS, *pairs)
