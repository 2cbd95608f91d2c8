"""Five brokers with Kafka's own settings, their topics, and a twin that knows next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import UnknownBrokerIdError

from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.lab.scripts.stage import ScriptFailed
from streaming.runtime import jars
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from streaming.runtime.deadline import Deadline
from streaming.runtime.supervise import Child, children, supervised
from tests.cluster.broker_client import BrokerClient, Key
from tests.strangers.kinds import Kind, assignment
from tests.waiting import until
from tests.web import get

UP_WITHIN_S: Final = 300.0
RECORD: Final = bytes(range(250)) * 4

SETTINGS: Final = {
    # The local cluster's settings for demonstrations; empty leaves Kafka's own default.
    "replica.selector.class": "",
    "follower.fetch.last.tiered.offset.enable": "",
    "offsets.topic.num.partitions": "",
    "group.initial.rebalance.delay.ms": "",
    "transaction.state.log.min.isr": "",
    # Kafka's default is 1, and every installer's 3: the twin's own topics take it.
    "default.replication.factor": "3",
}

CONFIG: Final = """\
[cluster]
name = "strangers"
bootstrap = "{bootstrap}"

[eligibility]
local_log_ms = 600000

# What several twins on one machine need.
[bus]
shards = 4

[query]
checkpoint = "{checkpoint}"

[exporter]
port = {port}
"""

Say = Callable[[str], None]


@dataclass
class Stranger:
    """A cluster of somebody else, and the twin of it."""

    cluster: LocalCluster
    config_path: Path
    config: Config
    programs: Sequence[Child]
    say: Say
    topics: dict[str, int] = field(default_factory=dict)  # number of partitions
    lost: set[tuple[bytes, int]] = field(default_factory=set)  # topic id and partition
    stop: threading.Event = field(default_factory=threading.Event)

    def admin(self) -> KafkaAdminClient:
        """A client of all brokers; to be used as a context manager."""
        return KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap)

    def create(
        self, topic: str, placed: Sequence[Sequence[int]], configs: Mapping[str, str]
    ) -> None:
        """Make a topic whose partition i is on the brokers ``placed[i]``."""
        BrokerClient(self.cluster).create(topic, placed, configs)
        self.topics[topic] = len(placed)

    def create_all(self, kind: Kind) -> None:
        """Make the topics of a kind, and write their first records."""
        specs = {
            topic: {
                "assignments": dict(enumerate(assignment(kind, number))),
                "configs": dict(kind.configs),
            }
            for number, topic in enumerate(kind.names())
        }
        until(lambda: self._created(specs), 60, "a broker does not know the controller")
        for topic, spec in specs.items():
            self.topics[topic] = len(spec["assignments"])
            fill(self.cluster.bootstrap, kind, topic, len(spec["assignments"]))

    def _created(self, specs: Mapping[str, Any]) -> bool:
        """Make topics; false where brokers that have just started do not know each other yet."""
        try:
            with self.admin() as admin:
                admin.create_topics(specs, timeout_ms=60_000, wait_for_metadata=True)
        except UnknownBrokerIdError:
            return False
        return True

    def get(self, path: str) -> Any:
        """An answer of the exporter's API; None while it gives none."""
        status, body = get(f"http://127.0.0.1:{self.config.exporter.port}/api/v1/{path}")
        return json.loads(body) if status == 200 else None

    def partitions(self, query: str = "") -> dict[Key, dict[str, Any]]:
        """The partitions of the API; empty while it does not answer."""
        found: dict[Key, dict[str, Any]] = {}
        while True:
            answer = self.get(f"partitions?limit=1000&offset={len(found)}{query}")
            if answer is None:
                return {}
            found |= {(p["topic"], p["partition"]): p for p in answer["partitions"]}
            if not answer["partitions"] or len(found) >= answer["total"]:
                return found

    def until(self, condition: Callable[[], Any], within_s: float, otherwise: str) -> Any:
        """The first true value of a condition.

        Raises:
            ScriptFailed: there was none in time, or the run is being ended.
        """
        deadline = Deadline.after_s(within_s)
        while not (value := condition()):
            if self.stop.wait(0.5):
                raise ScriptFailed("ended by a signal")
            if deadline.is_over:
                raise ScriptFailed(f"{otherwise} after {within_s:.0f} s")
        return value

    def pause(self, seconds: float) -> None:
        """Wait, unless the run is being ended.

        Raises:
            ScriptFailed: it is.
        """
        if self.stop.wait(seconds):
            raise ScriptFailed("ended by a signal")

    def call(self, *arguments: str, within_s: float = 400) -> subprocess.CompletedProcess[str]:
        """A command of the twin, as a user types it."""
        return subprocess.run(
            [sys.executable, "-m", "streaming", "--config", str(self.config_path), *arguments],
            capture_output=True, text=True, timeout=within_s, check=False,
        )  # fmt: skip

    def in_sync(self) -> bool:
        """Every replica is in sync, as the brokers have it."""
        states = BrokerClient(self.cluster).partitions(self.a_running_broker())
        return all(state.is_in_sync for state in states.values())

    def a_running_broker(self) -> int:
        """The id of a broker that runs."""
        return next(node.id for node in self.cluster.status() if node.state == "running")


def fill(bootstrap: str, kind: Kind, topic: str, partitions: int) -> None:
    """Write the first records of a topic, with timestamps of the age that its kind has."""
    if not kind.records:
        return
    now_ms = time.time_ns() // 1_000_000
    with KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=20) as producer:
        # A batch has the largest timestamp of its records: records of a segment are sent together.
        for first in range(0, kind.records, 16):
            for record in range(first, min(first + 16, kind.records)):
                age_ms = int(kind.oldest_ms * (1 - record / kind.records))
                for partition in range(partitions):
                    producer.send(
                        topic, RECORD, key=str(record % 7).encode(), partition=partition,
                        timestamp_ms=now_ms - age_ms if kind.oldest_ms else None,
                    )  # fmt: skip
            producer.flush(60)


@contextmanager
def strangers(home: Path, say: Say, *, log_dirs: int = 1, more: str = "") -> Iterator[Stranger]:
    """A running cluster of five brokers without topics; the twin is started by ``twin_of``.

    Args:
        home: everything is written there.
        say: prints a line.
        log_dirs: of each broker.
        more: further lines of the twin's configuration.
    """
    rules = Path(__file__).with_name("jmx.yml")
    [agent] = jars.ensure("jmx")
    cluster = LocalCluster(
        home / "cluster", brokers=2, base_port=free_base_port(), settings=SETTINGS, heap="384m",
        metrics=False, java_opts=(f"-javaagent:{agent}=127.0.0.1:{{port}}:{rules}",),
        log_dirs=log_dirs,
    )  # fmt: skip
    cluster.wipe()
    (home / "logs").mkdir(parents=True, exist_ok=True)
    say("starting five brokers")
    with cluster:
        path = home / "twin.toml"
        filled = CONFIG.format(
            bootstrap=cluster.bootstrap, checkpoint=home / "checkpoint", port=free_base_port(span=1)
        )
        path.write_text(filled + more)
        config = load(path, {})
        programs = children(["--config", str(path)], home / "logs")
        yield Stranger(cluster, path, config, programs, say)


@contextmanager
def twin_of(stranger: Stranger) -> Iterator[None]:
    """Collector, query and exporter, ready to answer; they end with the block."""
    stranger.say("starting collector, query and exporter")
    with supervised(stranger.programs):
        stranger.until(
            lambda: (stranger.get("summary") or {}).get("up"), UP_WITHIN_S, "no snapshot"
        )
        yield
