"""The examples of ``deploy/examples``: what can be tried without brokers.

``tests/cluster/test_rolling_restart.py`` restarts real ones with them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import kubernetes_validate
import pytest
import uvicorn
import yaml

from streaming.bus.view import SnapshotStore
from streaming.cli.main import main
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.lab.processes import free_base_port
from streaming.runtime.config import ExporterConfig
from tests.builders import Partition, a_state
from tests.deploy.test_kubernetes import ROOT, Manifest
from tests.exporter.test_exporter import a_store
from tests.twin.test_gate import quorum
from tests.waiting import until
from tests.web import get
from twin.builtin import CATALOG

VERSIONS = ("1.30.0", "1.34.0")
"""Of Kubernetes: the oldest that the chart takes, and the newest with published schemas."""

EXAMPLES: Final = ROOT / "deploy/examples"
MANIFESTS: Final = [
    document
    for path in sorted((EXAMPLES / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "manifest", MANIFESTS, ids=lambda m: f"{m['kind']}/{m['metadata']['name']}"
)
def test_kubernetes_knows_every_field(manifest: Manifest, version: str):
    kubernetes_validate.validate(manifest, version, strict=True)


def of_kind(kind: str) -> Manifest:
    [manifest] = [m for m in MANIFESTS if m["kind"] == kind]
    return manifest["spec"]["template"]["spec"]


def job_calls() -> dict[str, list[str]]:
    """The arguments of kafka-twin in each container of the Job, variables filled in."""
    spec = of_kind("Job")
    calls = {}
    for container in [*spec["initContainers"], *spec["containers"]]:
        if container["image"].startswith("kafka-twin:"):
            values = {f"$({v['name']})": v["value"] for v in container.get("env", ())}
            calls[container["name"]] = [values.get(arg, arg) for arg in container["args"]]
    return calls


@pytest.mark.parametrize("name", ["gate", "in-sync"])
def test_the_job_calls_commands_that_there_are(name: str):
    understood(job_calls()[name])


def understood(arguments: Sequence[str]) -> click.Context:
    """Parse a call of kafka-twin; click raises for what it does not know."""
    command: click.Command | None = main
    rest = list(arguments)
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), rest.pop(0))
    assert command is not None, f"there is no such command: {arguments}"
    return command.make_context(command.name, rest)


def test_the_job_does_one_thing_after_the_other_and_its_pod_may_delete_no_more_than_pods():
    spec = of_kind("Job")
    order = [c["name"] for c in [*spec["initContainers"], *spec["containers"]]]
    assert order == ["gate", "restart", "in-sync"]
    [role] = [m for m in MANIFESTS if m["kind"] == "Role"]
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]}
    ]


def test_the_shell_says_how_it_is_called():
    script = EXAMPLES / "rolling-restart.sh"
    called = subprocess.run([script, "true"], capture_output=True, text=True, check=False)
    assert called.returncode == 2
    assert called.stderr.startswith("usage:")


def test_ansible_understands_the_playbook():
    command = [Path(sys.executable).parent / "ansible-playbook", "--syntax-check"]
    inventory = ["--inventory", "kafka-1,", EXAMPLES / "rolling-restart.yml"]
    done = subprocess.run([*command, *inventory], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- the hook, against the real API


class Served:
    """The exporter's application with a store that the test replaces."""

    def __init__(self, store: SnapshotStore) -> None:
        self.answers = 0
        self.show(store)
        self._app = application(ViewSource(CATALOG, "c", lambda: self._rendered))

    def show(self, store: SnapshotStore) -> None:
        self._rendered = Renderer(CATALOG, "c", ExporterConfig()).render(store.view)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)
        self.answers += 1


@contextmanager
def serving(served: Served) -> Iterator[str]:
    port = free_base_port(1)
    server = uvicorn.Server(
        uvicorn.Config(
            served, host="127.0.0.1", port=port, log_config=None, lifespan="off", interface="asgi3"
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, 10, "the server does not start")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def observed(*parts: Partition, ago_s: float = 0.0) -> SnapshotStore:
    """A store after two cycles, the newest ``ago_s`` ago."""
    at_ms = int((time.time() - ago_s) * 1_000)
    first = a_state(*parts, brokers=(1, 2, 3), at_ms=at_ms)
    second = a_state(*parts, brokers=(1, 2, 3), at_ms=at_ms + 1, since=first)
    return a_store(second.with_tables(quorum(0, 0, 0)))


def test_the_hook_lets_the_pod_stop_once_it_is_safe_by_what_was_observed_since():
    [container] = of_kind("StatefulSet")["containers"]
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    served = Served(observed(Partition(), ago_s=10))
    with serving(served) as url:
        assert get(f"{url}/api/v1/brokers/2/restart")[0] == 200
        variables = {v["name"]: v["value"] for v in container["env"]}
        environment = {**os.environ, **variables, "KAFKA_TWIN_URL": url, "HOSTNAME": "kafka-2"}
        with subprocess.Popen(command, env=environment) as hook:
            try:
                until(lambda: served.answers == 2, 10, "the hook does not ask")
                served.show(observed(Partition(isr=(2, 1))))
                until(lambda: served.answers == 3, 10, "an old answer is enough for the hook")
                served.show(observed(Partition()))
                until(lambda: served.answers == 4, 10, "an unsafe restart is enough for the hook")
                assert hook.wait(100) == 0
            finally:
                hook.kill()
