"""The twin's programs in containers beside the secured cluster, each as a user of its own."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any, Final

from docker.models.containers import Container
from testcontainers.core.container import DockerContainer

from streaming.lab.processes import free_base_port
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from streaming.runtime.deadline import Deadline
from streaming.runtime.jars import QUICK_SPARK
from tests.cluster.pipeline import Metrics
from tests.containers.secured import INTERNAL, SECRETS, Secured, readable
from tests.web import get

ENVIRONMENT: Final = "KAFKA_TWIN_"

CONFIG: Final = f"""\
[cluster]
name = "secured"
bootstrap = "{INTERNAL}"

[cluster.client]
security_protocol = "SASL_SSL"
sasl_mechanism = "SCRAM-SHA-512"
ssl_cafile = "{SECRETS}/ca.pem"

[bus]
shards = 2
partitions = 2
replication_factor = 1

[collector]
interval_ms = 1000
deadline_ms = 10000
config_interval_ms = 2000
exclude_topics = '__.*|kafka-twin\\..*'  # who may read these is apart
metrics_url = "http://{{host}}:7071/metrics"
metrics_interval_ms = 2000

[eligibility]
local_log_bytes = 100000

[query]
trigger_ms = 300
"""


class Programs:
    """The containers of the programs. They are left as a careful operator would run them."""

    def __init__(
        self, cluster: Secured, images: Mapping[str, str], passwords: Mapping[str, str]
    ) -> None:
        self._cluster, self._images, self._passwords = cluster, images, passwords
        self._running: dict[str, Container] = {}
        self._stack = ExitStack()
        self._port = free_base_port(span=1)
        path = cluster.folder / "client" / "twin.toml"
        readable(path, CONFIG)
        self.config: Config = load(path, {})

    def start(self, program: str) -> None:
        """Start one, as the user of its name."""
        container = DockerContainer(
            self._images["twin-spark" if program == "query" else "twin"],
            network=self._cluster.network,
        )
        container.with_command(program)
        container.with_volume_mapping(self._cluster.folder / "client", SECRETS)
        container.with_tmpfs_mount("/tmp", "exec,mode=1777")
        container.with_kwargs(
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            restart_policy={"Name": "on-failure"},
        )
        for name, value in (QUICK_SPARK | self._login(program)).items():
            container.with_env(name, value)
        if program == "exporter":
            container.ports = {"9410": ("127.0.0.1", self._port)}
        self._stack.enter_context(container)
        self._running[program] = container.get_wrapped_container()

    def _login(self, user: str) -> dict[str, str]:
        return {
            f"{ENVIRONMENT}CONFIG": f"{SECRETS}/twin.toml",
            f"{ENVIRONMENT}CLUSTER_CLIENT_SASL_PLAIN_USERNAME": user,
            f"{ENVIRONMENT}CLUSTER_CLIENT_SASL_PLAIN_PASSWORD": self._passwords[user],
        }

    def run(self, program: str, user: str, *command: str, **settings: str) -> tuple[int, str]:
        """Run a command in the container of a program as some user: exit code and output."""
        environment = self._login(user) | {ENVIRONMENT + k: v for k, v in settings.items()}
        code, output = self._running[program].exec_run(
            ["kafka-twin", *command], environment=environment
        )
        return code, output.decode()

    def shell(self, program: str, command: str) -> tuple[int, str]:
        """Run a line of a shell in the container of a program: exit code and output."""
        code, output = self._running[program].exec_run(["sh", "-c", command])
        return code, output.decode()

    def log(self, program: str) -> str:
        """The output of the program so far."""
        output: bytes = self._running[program].logs()
        return output.decode(errors="replace")

    def until_logged(self, program: str, pattern: str, within_s: float, after: int = 0) -> None:
        """Wait for words in its log, behind its first characters; fails with the end of the log."""
        deadline = Deadline.after_s(within_s)
        while not re.search(pattern, output := self.log(program)[after:]):
            assert not deadline.is_over, f"{pattern!r} is not in: {output[-3_000:]}"
            time.sleep(0.1)

    def served(self) -> str:
        """The text of /metrics; empty while nothing answers."""
        status, text = get(f"http://127.0.0.1:{self._port}/metrics")
        return text if status == HTTPStatus.OK else ""

    def metrics(self) -> Metrics:
        """The metrics that the exporter serves."""
        return Metrics(self.served())

    def observed_since(self, at_s: float) -> bool:
        """Every shard that is served was observed since that time."""
        return self.metrics().observed_since(at_s)

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: Any) -> None:
        self._stack.close()
