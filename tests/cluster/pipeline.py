"""The three programs as processes of their own, watching a real cluster; and what they serve."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from streaming.runtime.deadline import Deadline
from streaming.runtime.supervise import Child, children
from tests.cluster.broker_client import Key
from tests.web import get

INTERVAL_MS: Final = 1_000
DEADLINE_MS: Final = 1_000
LIVE_S: Final = 10
"""An observation no older than this is live, also on a machine that is busy."""

STARTS_WITHIN_S: Final = 180
STOPS_WITHIN_S: Final = {"collector": 10, "query": 60, "exporter": 10, "tap": 10}
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Labels = frozenset[tuple[str, str]]


class Pipeline:
    """Collector, query and exporter of one configuration, each started and ended alone."""

    def __init__(
        self, cluster: LocalCluster, folder: Path, prefix: str = "pipeline-bus",
        bootstrap: str = "", client: Mapping[str, Any] | None = None,
        deadline_ms: int = DEADLINE_MS,
    ) -> None:  # fmt: skip
        """Write the configuration; nothing is started yet.

        Args:
            cluster: what they watch.
            folder: for their files.
            prefix: of the bus topics.
            bootstrap: in place of the cluster's.
            client: settings of their Kafka clients.
            deadline_ms: of the collector's requests; a cycle takes no less time.
        """
        self.cluster = cluster
        self.folder = folder
        self.port = free_base_port(span=4)  # of the exporter; the others have the next three
        urls = cluster.layout.metrics_urls.items()
        metrics_urls = "\n".join(f'{broker} = "{url}"' for broker, url in urls)
        login = "\n".join(f"{name} = {json.dumps(value)}" for name, value in (client or {}).items())
        path = folder / "twin.toml"
        path.write_text(
            f"""
            [cluster]
            name = "real"
            bootstrap = "{bootstrap or cluster.bootstrap}"
            [cluster.client]
            {login}
            [bus]
            prefix = "{prefix}"
            shards = 4
            [collector]
            interval_ms = {max(INTERVAL_MS, deadline_ms)}
            deadline_ms = {deadline_ms}
            config_interval_ms = 5000
            metrics_interval_ms = 2000
            [collector.metrics_urls]
            {metrics_urls}
            [query]
            checkpoint = "{folder / "state" / "checkpoint"}"
            trigger_ms = 300
            [exporter]
            port = {self.port}
            [metrics]
            tap_port = {self.port + 1}
            collector_port = {self.port + 2}
            query_port = {self.port + 3}
            """
        )
        self.config: Config = load(path, {})
        programs = children(["--config", str(path)], folder)
        self.programs: dict[str, Child] = {program.name: program for program in programs}
        self.groups: list[int] = []

    def create_bus(self) -> None:
        """The bus topics on brokers 1 and 2: while 3 is away it is as a bus of its own."""
        admin = KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap)
        topics = {
            name: {"assignments": {n: [1 + n % 2, 2 - n % 2] for n in range(4)}, "configs": configs}
            for name, configs in bus_topics.topic_configs(self.config).items()
        }
        admin.create_topics(topics, timeout_ms=20_000, wait_for_metadata=True)
        admin.close()

    # Programs

    def start(self, *names: str) -> None:
        """Start programs; whoever needs them asks what they serve until it is there."""
        for name in names:
            self.programs[name].start()
            self.groups.append(self.process(name).pid)

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """The process of a program that has been started."""
        process = self.programs[name].process
        assert process is not None
        return process

    def alive(self, name: str) -> bool:
        """The program runs."""
        process = self.programs[name].process
        return process is not None and process.poll() is None

    def is_live(self) -> bool:
        """Newest observations are served. Programs that have ended are started, as ``run`` does.

        A query that starts on a busy machine ends if brokers do not answer it in time.
        """
        for name in self.programs:
            if not self.alive(name):
                self.start(name)
        return self.metrics().is_live

    def kill(self, name: str) -> None:
        """End a program as a crash would; what it had started has to notice by itself."""
        self.process(name).kill()
        self.process(name).wait(100)

    def term(self, name: str) -> int:
        """Ask a program to end; its exit code."""
        self.process(name).send_signal(signal.SIGTERM)
        return self.process(name).wait(STOPS_WITHIN_S[name])

    def log(self, name: str) -> str:
        """The log of a program, over all its starts."""
        path = self.programs[name].log_file
        assert path is not None
        return path.read_text()

    def lose_checkpoint(self) -> None:
        """Remove what the query keeps on disk."""
        shutil.rmtree(self.config.query.checkpoint)

    def end(self) -> None:
        """Leave no process: what is alive is asked to end, then everything is killed."""
        for name in self.programs:
            if self.alive(name):
                with suppress(subprocess.TimeoutExpired):
                    self.term(name)
        for group in self.groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        for name in self.programs:
            if self.programs[name].process is not None:
                self.process(name).wait(100)

    def observed_since(self, at_s: float) -> bool:
        """Every shard that is served was observed since that time."""
        return self.metrics().observed_since(at_s)

    # Served by the programs

    def get(self, path: str) -> tuple[int, str]:
        """Status and body; status 0 while nothing answers."""
        return get(f"http://127.0.0.1:{self.port}{path}")

    def metrics(self) -> Metrics:
        """Everything on /metrics; empty while nothing answers."""
        return Metrics(self.get("/metrics")[1])

    def partition(self, topic: str, number: int) -> Mapping[str, Any]:
        """One partition as the API serves it; empty where it is not known."""
        status, body = self.get(f"/api/v1/partitions/{topic}/{number}")
        return json.loads(body) if status == 200 else {}

    def events(self) -> list[dict[str, Any]]:
        """Every event on the bus, in order within each partition, repeats included."""
        every_event = []
        with Reader(self.config, [bus_topics.topics(self.config).events], "beginning") as reader:
            deadline = Deadline.after_s(30)
            while True:
                every_event += [json.loads(record.value or b"") for record in reader.poll(200)]
                if reader.caught_up():
                    return every_event
                assert not deadline.is_over


class Metrics:
    """One exposition: values by name and labels; the label ``cluster`` is left out."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _series(self, name: str) -> dict[Labels, float]:
        """The series of one family. A wait asks for two of a hundred, ten times a second."""
        lines = re.findall(rf"^kafka_twin_{name}(?:\{{(.*)\}})? (\S+)$", self._text, re.MULTILINE)
        return {
            frozenset(p for p in _LABEL.findall(labels) if p[0] != "cluster"): float(value)
            for labels, value in lines
        }

    def value(self, name: str, **labels: Any) -> float | None:
        """The only series of that name that has these labels, None if there is none."""
        wanted = {(key, str(value)) for key, value in labels.items()}
        matches = [v for has, v in self._series(name).items() if wanted <= has]
        assert len(matches) <= 1, (name, labels)
        return matches[0] if matches else None

    def by_partition(self, name: str) -> dict[Key, int]:
        """Values of a family with one series a partition."""
        values = {}
        for labels, value in self._series(f"partition_{name}").items():
            label = dict(labels)
            values[label["topic"], int(label["partition"])] = int(value)
        return values

    def total(self, name: str) -> float:
        """The sum over all series of a family."""
        return sum(self._series(name).values())

    @property
    def is_live(self) -> bool:
        """Complete, and observed within the last few cycles."""
        return self.value("up") == 1 and self.age_s < LIVE_S

    def observed_since(self, at_s: float) -> bool:
        """Every shard that is served was observed since that time."""
        return self.value("up") == 1 and time.time() - self.age_s > at_s

    @property
    def age_s(self) -> float:
        """The age of the stalest shard, endless while there is none."""
        age = self.value("observation_age_seconds")
        return float("inf") if age is None else age
