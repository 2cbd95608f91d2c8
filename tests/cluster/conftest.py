"""Real clusters, started once a run and always ended, also when a test or the start fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from streaming.lab.cluster import LocalCluster, free_base_port

STILL: Final = {"auto.leader.rebalance.enable": "false"}
"""Leaders move when a test makes them, and not five minutes after the start by themselves."""


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """Three nodes, each broker and controller. Only one can be lost before the quorum is."""
    home = tmp_path_factory.mktemp("cluster")
    three = LocalCluster(home, base_port=free_base_port(), settings=STILL)
    with running(three, request.session) as local:
        yield local


@pytest.fixture(scope="session")
def five_brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """Three nodes as above, and two that are broker only: 4 and 5 can both be lost."""
    home = tmp_path_factory.mktemp("five")
    five = LocalCluster(home, brokers=2, base_port=free_base_port(), settings=STILL)
    with running(five, request.session) as local:
        yield local


@pytest.fixture
def whole(cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster of the module, with every node running again after the test."""
    yield cluster
    for node in cluster.status():
        if node.state == "paused":
            cluster.resume(node.id)
    cluster.start()


@contextmanager
def running(local: LocalCluster, session: pytest.Session) -> Iterator[LocalCluster]:
    """A started cluster. Its files are kept if something failed: its logs may say why."""
    has_failed = True
    try:
        local.start()
        yield local
        has_failed = session.testsfailed > 0
    finally:
        if has_failed:
            local.stop()
        else:
            local.wipe()
