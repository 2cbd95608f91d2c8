"""docker-compose.yml with a project and ports of its own, so that it runs beside a user's.

Grafana's image is left out, and Prometheus and Alertmanager are Debian's: a registry of images need
not be there. Rules wait seconds, as in the demo.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import docker
from docker.models.containers import Container
from testcontainers.compose import DockerCompose

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.lab.local_cluster import NodeStatus
from streaming.lab.processes import free_base_port
from streaming.lab.prometheus import with_short_waits
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from streaming.runtime.deadline import Deadline
from tests.cluster.pipeline import Metrics
from tests.waiting import until
from tests.web import get

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = "kafka-twin-test"
WATCHERS: Final = "kafka-twin-test-prometheus"
NODES: Final = (1, 2, 3)
UP_WITHIN_S: Final = 180

_OVERRIDE: Final = """\
services:
  grafana: {{profiles: !override [public-images]}}
  prometheus:
    entrypoint: [prometheus, --config.file=/etc/prometheus/prometheus.yml,
                 --storage.tsdb.path=/prometheus]
    volumes: ["{rules}:/etc/prometheus/rules:ro"]
  alertmanager:
    entrypoint: [prometheus-alertmanager, --config.file=/etc/alertmanager/alertmanager.yml,
                 --storage.path=/alertmanager, --cluster.listen-address=]
"""


def compose_environment() -> dict[str, str]:
    """The environment of compose: builds trust the certificates of this machine."""
    trusted = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    given = {"CA_BUNDLE": trusted} if Path(trusted).is_file() else {}
    return {**os.environ, "COMPOSE_PROFILES": "default", "DOCKER_BUILDKIT": "1", **given}


class Stack:
    """The services of the compose file, and what they say on their published ports."""

    def __init__(self, folder: Path) -> None:
        base = free_base_port(8)
        self.ports = {
            name: base + offset
            for offset, name in enumerate(
                ("KAFKA_1", "KAFKA_2", "KAFKA_3", "EXPORTER", "PROMETHEUS", "ALERTMANAGER"), 1
            )
        }
        rules = folder / "rules"
        rules.mkdir()
        for path in (ROOT / "deploy" / "prometheus" / "rules").glob("*.rules.yml"):
            (rules / path.name).write_text(with_short_waits(path.read_text()))
        override, environment = folder / "override.yml", folder / "test.env"
        override.write_text(_OVERRIDE.format(rules=rules))
        lines = {f"{name}_PORT": port for name, port in self.ports.items()}
        lines |= {"COMPOSE_PROJECT_NAME": PROJECT}
        lines |= {f"{name}_IMAGE": WATCHERS for name in ("PROMETHEUS", "ALERTMANAGER")}
        environment.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        self._compose = DockerCompose(
            context=ROOT,
            compose_file_name=["docker-compose.yml", str(override)],
            env_file=[".env", str(environment)],
        )
        self._client = docker.from_env()
        self.cluster = ContainerCluster(self)
        self.config: Config = load(
            ROOT / "deploy" / "docker" / "demo.toml",
            {"KAFKA_TWIN_CLUSTER_BOOTSTRAP": self.cluster.bootstrap},
        )

    # Services

    def add(self, file: str) -> None:
        """Start what another compose file adds, and what it changes."""
        files = [*self._compose.compose_file_name, file]
        self._compose = DockerCompose(
            context=ROOT, compose_file_name=files, env_file=self._compose.env_file
        )
        self.up()

    def up(self) -> None:
        """Start what does not run, and wait until all are healthy.

        Compose gives up at the first container whose checks failed some times. On a busy machine
        it is healthy a little later.
        """

        def is_healthy() -> bool:
            try:
                self._compose.start()
            except subprocess.CalledProcessError:
                return False
            return True

        until(is_healthy, UP_WITHIN_S, "not every container is healthy")

    def down(self, *, keep_volumes: bool) -> None:
        """Remove containers and network."""
        self._compose.keep_volumes = keep_volumes
        command = [*self._compose.compose_command_property, "down", "--remove-orphans"]
        command += [] if keep_volumes else ["--volumes"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    def end(self) -> None:
        """Leave nothing."""
        self.down(keep_volumes=False)
        self._client.close()

    def container(self, service: str) -> Container:
        """The container of a service, running or not."""
        labels = [f"com.docker.compose.project={PROJECT}", f"com.docker.compose.service={service}"]
        [container] = self._client.containers.list(all=True, filters={"label": labels})
        return container

    def services(self) -> dict[str, Container]:
        """All of them by name."""
        label = f"com.docker.compose.project={PROJECT}"
        containers = self._client.containers.list(all=True, filters={"label": label})
        return {c.labels["com.docker.compose.service"]: c for c in containers}

    def await_healthy(self, service: str) -> None:
        """Wait until its own health check succeeds."""
        healthy = ("running", "healthy")

        def is_healthy() -> bool:
            state = self.container(service).attrs["State"]
            return (state["Status"], state["Health"]["Status"]) == healthy

        until(is_healthy, 60, f"{service} is not healthy")

    def log(self, service: str) -> str:
        """The log of a service so far."""
        output: bytes = self.container(service).logs()
        return output.decode(errors="replace")

    def cut_off(self, service: str) -> None:
        """Take a container from the network; its own processes go on."""
        self._network().disconnect(self.container(service))

    def reconnect(self, service: str) -> None:
        """Back on the network, under its name."""
        self._network().connect(self.container(service), aliases=[service])

    def _network(self) -> Any:
        [network] = self._client.networks.list(names=[f"{PROJECT}_default"])
        return network

    # Served by the services

    @property
    def exporter(self) -> str:
        return f"http://127.0.0.1:{self.ports['EXPORTER']}"

    @property
    def prometheus(self) -> str:
        return f"http://127.0.0.1:{self.ports['PROMETHEUS']}"

    def get(self, url: str) -> str:
        """The body, empty while nothing answers."""
        status, body = get(url)
        return body if status == HTTPStatus.OK else ""

    def metrics(self) -> Metrics:
        """Everything on /metrics; empty while nothing answers."""
        return Metrics(self.get(f"{self.exporter}/metrics"))

    def api(self, path: str) -> Any:
        """An answer of the API, None while there is none."""
        body = self.get(f"{self.exporter}/api/v1/{path}")
        return json.loads(body) if body else None

    def observed_since(self, at_s: float) -> bool:
        """Every shard that is served was observed since that time."""
        return self.metrics().observed_since(at_s)

    def events(self) -> list[dict[str, Any]]:
        """Every event once; repeats under one id must say the same."""
        by_id: dict[str, Mapping[str, Any]] = {}
        with Reader(self.config, [bus_topics.topics(self.config).events], "beginning") as reader:
            for record in reader.to_end(Deadline.after_s(60)):
                event = json.loads(record.value or b"")
                assert by_id.setdefault(event["id"], event) == event
        return [dict(event) for event in by_id.values()]


class ContainerCluster:
    """The three brokers, to be lost and got back as those of a local cluster are."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port(node)}" for node in NODES)

    def port(self, node: int) -> int:
        """The port at which clients on this machine reach a broker."""
        return self._stack.ports[f"KAFKA_{node}"]

    def status(self) -> list[NodeStatus]:
        """The state of each container now."""
        states = {"running": "running", "paused": "paused"}
        statuses = []
        for node in NODES:
            container = self._stack.container(f"kafka-{node}")
            state = states.get(container.status, "stopped")
            statuses.append(NodeStatus(node, None, self.port(node), f"az-{'abc'[node - 1]}", state))
        return statuses

    def kill(self, node: int) -> None:
        """Crash a service."""
        self._stack.container(f"kafka-{node}").kill()

    def term(self, node: int) -> None:
        """A shutdown in good order."""
        self._stack.container(f"kafka-{node}").stop(timeout=30)

    def pause(self, node: int) -> None:
        """Freeze a service; its connections stay open."""
        self._stack.container(f"kafka-{node}").pause()

    def resume(self, node: int) -> None:
        """Let a frozen service go on."""
        self._stack.container(f"kafka-{node}").unpause()

    def start(self) -> None:
        """Start services that do not run, and wait for them: a published port always answers."""
        for status in self.status():
            if status.state == "stopped":
                self._stack.container(f"kafka-{status.id}").start()
        for node in NODES:
            self._stack.await_healthy(f"kafka-{node}")
