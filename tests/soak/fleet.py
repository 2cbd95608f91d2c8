"""The other clusters of a soak of a fleet: one set of programs watches them beside the faulty one.

They have topics of the same names, and brokers of the same ids. Faults of the one must not show in
the others, and what happens to the others on purpose must show in them alone: a cluster comes, one
loses its login, one goes, and one is wiped and made anew under the same addresses.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient

from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.lab.traffic import Traffic
from tests.soak.background import Background
from tests.web import get

FAULTY: Final = "soak"
TRIPLE, SINGLE, LATE = "triple", "single", "late"
FOLDER: Final = "clusters"

LOOK_EVERY_S: Final = 2.0
CHANGED_WITHIN_S: Final = 90.0
UP_WITHIN_S: Final = 180.0

NO_LOGIN: Final = """\
[client]
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "PLAIN"
sasl_plain_username = "nobody"
sasl_plain_password = "refused-here"
"""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Others:
    """The clusters beside the faulty one, and the folder that configures all."""

    triple: LocalCluster
    single: LocalCluster
    folder: Path
    topics: Mapping[str, Mapping[str, Any]]

    def configure(self, name: str, more: str = "") -> None:
        """Write the file of a cluster, or write it anew, as editors do."""
        cluster = self.single if name == SINGLE else self.triple
        new = self.folder / f"{name}.new"
        new.write_text(f'bootstrap = "{cluster.bootstrap}"\n{more}')
        new.rename(self.folder / f"{name}.toml")

    def make_single_anew(self) -> None:
        """Wipe the cluster of one broker, and start another one at its addresses."""
        self.single.wipe()
        self.single.start()
        create_topics(self.single, self.topics, replicas=1)


@contextmanager
def others(home: Path, topics: Mapping[str, Mapping[str, Any]]) -> Iterator[Others]:
    """Start them, with topics of these names and traffic to those of the three brokers."""
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*"):
        file.unlink()
    triple, single = (
        LocalCluster(home / name, nodes=nodes, base_port=free_base_port(), metrics=False)
        for name, nodes in ((TRIPLE, 3), (SINGLE, 1))
    )
    with ExitStack() as stack:
        for each, replicas in ((triple, 3), (single, 1)):
            each.wipe()
            stack.enter_context(each)
            create_topics(each, topics, replicas)
        traffic = Traffic(triple.bootstrap, [*topics])
        traffic.start()
        stack.callback(traffic.stop)
        found = Others(triple, single, folder, topics)
        for name in (TRIPLE, SINGLE):
            found.configure(name)
        yield found


def create_topics(
    cluster: LocalCluster, topics: Mapping[str, Mapping[str, Any]], replicas: int
) -> None:
    """Topics with these names and partitions, and no more replicas than there are brokers."""
    specs = {
        name: {
            "num_partitions": each.get("num_partitions", 2),
            "replication_factor": min(replicas, each.get("replication_factor", 2)),
        }
        for name, each in topics.items()
    }
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics(specs, timeout_ms=20_000, wait_for_metadata=True)


@dataclass(kw_only=True)
class Beside(Background):
    """Looks at the fleet while faults are played, and changes other clusters at set times.

    ``misses`` are what is wrong, a line each; ``late_s`` are end-to-end latencies by cluster.
    """

    url: str
    clusters: Others
    minutes: float
    say: Callable[[str], None]
    misses: list[str] = field(default_factory=list)
    late_s: dict[str, list[float]] = field(default_factory=dict)
    _changing: set[str] = field(default_factory=set)
    _down: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Play each change in its turn, and look at all rows meanwhile."""
        began_s, pause_s = time.monotonic(), self.minutes * 60 / 6
        changes = iter((self._comes, self._login_lost, self._goes, self._is_anew))
        due_s = began_s + pause_s
        while not self.over.wait(LOOK_EVERY_S):
            self._look()
            if time.monotonic() >= due_s and (change := next(changes, None)):
                self.say(f"fleet: {(change.__doc__ or '').strip()}")
                change()
                due_s += pause_s

    def summary(self) -> str:
        """Latencies of each cluster: median and 99th percentile, in seconds."""
        parts = []
        for name, values in sorted(self.late_s.items()):
            ranked = sorted(values)
            middle, most = ranked[len(ranked) // 2], ranked[int(len(ranked) * 0.99)]
            parts.append(f"{name} {middle:.2f} and {most:.2f}")
        return "observation to snapshot, median and p99 in s: " + "; ".join(parts)

    def rows(self) -> dict[str, Row]:
        """The rows of the fleet by cluster; empty while the exporter does not answer."""
        status, body = get(f"{self.url}/api/v1/fleet")
        return {r["cluster"]: r for r in json.loads(body)["clusters"]} if status == 200 else {}

    def _look(self) -> None:
        for name, row in self.rows().items():
            if name == FAULTY or name in self._changing:
                continue
            if row["up"]:
                self._down.discard(name)
            elif name not in self._down:
                self._down.add(name)
                self._miss(f"{name} is not up beside faults of another: {row['why_not_up']}")
        for name, value in self._latencies():
            self.late_s.setdefault(name, []).append(value)

    def _latencies(self) -> Iterator[tuple[str, float]]:
        for name in (TRIPLE, SINGLE):
            status, text = get(f"{self.url}/metrics?cluster={name}")
            for line in text.splitlines() if status == 200 else ():
                if line.startswith("kafka_twin_end_to_end_latency_seconds"):
                    yield name, float(line.rpartition(" ")[2])

    def _comes(self) -> None:
        """A cluster comes: the brokers of another under a name of their own."""
        self.clusters.configure(LATE)
        with self._change(LATE):
            self._until(lambda r: r.get(LATE, {}).get("up"), UP_WITHIN_S, f"{LATE} is not up")

    def _login_lost(self) -> None:
        """A cluster loses its login, and gets it again."""
        with self._change(LATE):
            self.clusters.configure(LATE, NO_LOGIN)
            self._until(
                lambda r: LATE in r and not r[LATE]["up"], CHANGED_WITHIN_S,
                f"{LATE} is up without a login",
            )  # fmt: skip
            self.clusters.configure(LATE)
            self._until(lambda r: r.get(LATE, {}).get("up"), UP_WITHIN_S, f"{LATE} is not back")

    def _goes(self) -> None:
        """A cluster goes."""
        with self._change(LATE):
            (self.clusters.folder / f"{LATE}.toml").unlink()
            self._until(lambda r: r and LATE not in r, CHANGED_WITHIN_S, f"{LATE} is still there")

    def _is_anew(self) -> None:
        """A cluster is wiped, and made anew at the same addresses."""
        with self._change(SINGLE):
            self.clusters.make_single_anew()
            self._until(lambda r: r.get(SINGLE, {}).get("up"), UP_WITHIN_S, f"{SINGLE} is not back")

    @contextmanager
    def _change(self, name: str) -> Iterator[None]:
        self._changing.add(name)
        yield
        self._changing.discard(name)

    def _until(
        self, condition: Callable[[dict[str, Row]], Any], within_s: float, otherwise: str
    ) -> None:
        end_s = time.monotonic() + within_s
        while not condition(self.rows()):
            if self.over.wait(LOOK_EVERY_S):
                return
            self._look()
            if time.monotonic() > end_s:
                self._miss(f"{otherwise} after {within_s:.0f} s")
                return

    def _miss(self, text: str) -> None:
        self.say(f"NO: {text}")
        self.misses.append(text)
