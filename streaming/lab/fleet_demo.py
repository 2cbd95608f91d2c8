"""``kafka-twin demo --clusters N``: small clusters, one set of programs for all, and their page.

The first cluster is that of the demo, and has the bus; the others have one broker, and topics of
the same names. As with one cluster, every process ends with the demo.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming.lab.cluster_config import MAX_NODES
from streaming.lab.demo import (
    ARCHIVE,
    DemoFailed,
    Ports,
    alerting,
    answer_of,
    begun,
    reads_archives,
    redraw,
    tap_of,
    typed,
)
from streaming.lab.local_cluster import LocalCluster
from streaming.lab.traffic import ENOUGH_BYTES, Traffic
from streaming.runtime.deadline import Deadline
from streaming.runtime.supervise import children, supervised
from streaming.runtime.terminal import table, width_of

LABELS: Final = {"orders": "prod", "payments": "prod", "stock": "test", "search": "test",
                 "ads": "test"}  # fmt: skip
"""The names of the clusters, and the label ``env`` of each."""

MOST_CLUSTERS: Final = len(LABELS)
_ALL_UP_WITHIN_S: Final = 360
"""Twice as long as for one cluster: brokers of several, and an archive beside them, start."""

_PORTS_A_CLUSTER: Final = 3 * MAX_NODES

_SAME_NAMES: Final[Mapping[str, Mapping[str, Any]]] = {
    name: {"num_partitions": partitions, "replication_factor": 1, "configs": {}}
    for name, partitions in (("orders", 6), ("payments", 3))
}
"""Topics of clusters of one broker; the first cluster has topics of these names as well."""

_CONFIG: Final = """\
# Made by the demo; docs/config.toml explains every key.
[bus] # on the first cluster, for all
bootstrap = "{bus}"
partitions = 2
replication_factor = 3

[collector]
interval_ms = 2000
deadline_ms = 1500
config_interval_ms = 10000
metrics_interval_ms = 2000
groups_interval_ms = 2000

[eligibility] # a threshold of KIP-1303 for logs that are some minutes old
local_log_bytes = {enough_bytes}

[query]
checkpoint = "{checkpoint}"
trigger_ms = 500

[exporter]
port = {ports.metrics}

[metrics]
tap_port = {ports.tap}
collector_port = {ports.collector}
query_port = {ports.query}
{archive}
{clusters}
"""

_CLUSTER: Final = """
[clusters.{name}]
bootstrap = "{bootstrap}"
labels = {{env = "{env}"}}

[clusters.{name}.collector.metrics_urls]
{metrics_urls}
"""


class SameNames(Traffic):
    """Topics of equal names, with one replica and without a history, and their traffic."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, tuple(_SAME_NAMES))

    def prepare(self) -> None:
        """Create the topics that are missing.

        Raises:
            KafkaError: the cluster refused, or did not finish in time.
        """
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            existing = set(admin.list_topics())
            missing = {n: dict(topic) for n, topic in _SAME_NAMES.items() if n not in existing}
            if missing:
                admin.create_topics(missing, timeout_ms=20_000, wait_for_metadata=True)
        finally:
            admin.close()


def fleet_demo(home: Path, ports: Ports, number: int, *, seconds: float | None) -> None:
    """Run the demo of so many clusters until Ctrl-C, or for ``seconds``.

    Raises:
        DemoFailed, ClusterError, JarError: one line each.
    """
    began = time.monotonic()
    home = home.resolve()
    with begun(home, began) as (stack, stop, say):
        clusters = _clusters(home, ports, number)
        for name, cluster in clusters.items():
            cluster.wipe()
            stack.callback(cluster.stop)
            say(f"starting cluster {name}: {_brokers(cluster)}")
            cluster.start()
        config = _write_config(home, clusters, ports)
        say("starting collector, tap of the first cluster's logs, Spark query and exporter")
        logs = home / "twin" / "logs"
        first, *_ = clusters
        programs = children(["--config", str(config)], logs, archive=reads_archives())
        programs += [tap_of(clusters[first].layout, config, logs, "--cluster", first),
                     *alerting(home, ports, say)]  # fmt: skip
        stack.enter_context(supervised(programs))
        say("making topics and traffic")
        for name, cluster in clusters.items():
            traffic = (Traffic if name == first else SameNames)(cluster.bootstrap)
            stack.callback(traffic.stop)
            try:
                traffic.prepare()
            except KafkaError as error:
                raise DemoFailed(f"topics or traffic: {error}; see {cluster.home}") from None
            traffic.start()
        say("waiting for the first snapshot of each cluster")
        url = f"http://127.0.0.1:{ports.metrics}"
        _await_up(url, home, [*clusters], stop)
        say("the twin of all is live")
        end = None if seconds is None else Deadline(began + seconds)
        redraw(lambda: _screen(url, home), stop, end)


def _clusters(home: Path, ports: Ports, number: int) -> dict[str, LocalCluster]:
    """The clusters by name, the first with three brokers."""
    return {
        name: LocalCluster(
            home / "cluster" if turn == 0 else home / "clusters" / name,
            nodes=3 if turn == 0 else 1,
            base_port=ports.brokers + turn * _PORTS_A_CLUSTER,
            request_logs=turn == 0,
        )
        for turn, name in enumerate([*LABELS][:number])
    }


def _brokers(cluster: LocalCluster) -> str:
    nodes = cluster.layout.nodes
    return "one broker" if nodes == 1 else f"{nodes} brokers with tiered storage, and the bus"


def _write_config(home: Path, clusters: Mapping[str, LocalCluster], ports: Ports) -> Path:
    path = home / "twin" / "kafka-twin.toml"
    (home / "twin" / "logs").mkdir(parents=True, exist_ok=True)
    each = {name: cluster.layout for name, cluster in clusters.items()}
    archive = ARCHIVE.format(path=home / "twin" / "archive") if reads_archives() else ""
    path.write_text(
        _CONFIG.format(
            bus=next(iter(each.values())).bootstrap,
            ports=ports,
            checkpoint=home / "twin" / "checkpoint",
            enough_bytes=ENOUGH_BYTES,
            archive=archive,
            clusters="".join(
                _CLUSTER.format(
                    name=name,
                    bootstrap=layout.bootstrap,
                    env=LABELS[name],
                    metrics_urls="\n".join(f'{b} = "{u}"' for b, u in layout.metrics_urls.items()),
                )
                for name, layout in each.items()
            ),
        )
    )
    return path


def _await_up(url: str, home: Path, names: Sequence[str], stop: threading.Event) -> None:
    deadline = Deadline.after_s(_ALL_UP_WITHIN_S)
    while not stop.is_set():
        fleet = answer_of(f"{url}/api/v1/fleet")
        up = {row["cluster"] for row in fleet["clusters"] if row["up"]} if fleet else set()
        if up.issuperset(names):
            return
        if deadline.is_over:
            missing = ", ".join(sorted(set(names) - up))
            raise DemoFailed(
                f"no snapshot of {missing} after {_ALL_UP_WITHIN_S} s; see {home}/twin/logs"
            )
        stop.wait(0.3)


def _screen(url: str, home: Path) -> str | None:
    """The fleet as it is now; None if the exporter does not answer."""
    fleet = answer_of(f"{url}/api/v1/fleet")
    return fleet and draw_fleet(fleet, url, typed(home), width_of(sys.stdout))


def draw_fleet(fleet: Mapping[str, Any], url: str, home: str, width: int | None = None) -> str:
    """One screen: a row a cluster, worst first, and where its page is."""
    rows = [
        (
            row["cluster"], row["severity"], row["sentence"], _number(row["brokers"]),
            _number(row["partitions"]),
            "unknown" if row["age_ms"] is None else f"{row['age_ms'] / 1_000:.1f} s",
        )
        for row in fleet["clusters"]
    ]  # fmt: skip
    header = ("cluster", "severity", "what is worst", "brokers", "partitions", "observed before")
    lines = [
        f"kafka-twin · {len(rows)} clusters, worst first",
        "",
        table(header, rows, right={3, 4, 5}, width=width).rstrip("\n"),
        "",
        f"  page    {url}/         metrics  {url}/metrics",
        *(f"  {row[0]:<10}{url}/clusters/{row[0]}/" for row in rows),
        f"  logs    {home}/twin/logs",
        "          Ctrl-C stops everything.",
    ]
    return "\n".join(lines) + "\n"


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)
