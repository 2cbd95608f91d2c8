"""Tests in real containers: they need a Docker engine with compose v2 and buildx.

In CI there must be one; elsewhere they are skipped without it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import docker
import pytest
from docker import DockerClient
from docker.errors import DockerException

from tests.containers.stack import ROOT, WATCHERS, compose_environment

# Neither is asked for by a test: no helper container is pulled, and published ports are those of
# this machine, also where it is a container itself.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
os.environ.setdefault("TESTCONTAINERS_CONNECTION_MODE", "docker_host")

VERSION: Final = version("kafka-twin")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.docker)


def _why_not() -> str:
    """Why containers cannot be had here; empty if they can."""
    try:
        client = docker.from_env()
        client.ping()
        client.close()
    except DockerException as error:
        return f"no Docker engine answers ({str(error)[:120]}): see .ci/engine"
    for plugin in ("compose", "buildx"):
        try:
            done = subprocess.run(["docker", plugin, "version"], capture_output=True, check=False)
        except FileNotFoundError:
            return "there is no docker command"
        if done.returncode:
            return f"docker has no {plugin}"
    return ""


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    """A Docker engine. Without one its tests are skipped, and fail in CI."""
    if why_not := _why_not():
        if os.environ.get("CI"):
            pytest.fail(why_not)
        pytest.skip(why_not)
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="session")
def watchers(engine: DockerClient) -> str:
    """An image with a Prometheus and an Alertmanager."""
    file = Path(__file__).with_name("prometheus.Dockerfile")
    engine.images.build(path=str(file.parent), dockerfile=file.name, tag=WATCHERS, rm=True)
    return WATCHERS


@pytest.fixture(scope="session")
def images(engine: DockerClient) -> dict[str, str]:
    """The three images as the working copy makes them: kafka, twin and twin-spark, by name."""
    done = subprocess.run(
        ["docker", "compose", "build", "--quiet"], cwd=ROOT, env=compose_environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    names = {"kafka": "kafka-twin-kafka", "twin": "kafka-twin", "twin-spark": "kafka-twin-spark"}
    return {target: f"{name}:{VERSION}" for target, name in names.items()}
