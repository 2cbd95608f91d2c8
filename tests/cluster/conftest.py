"""Real clusters that files of tests share, and always ended, also when a test or the start fails.

An idle broker takes 4 % of a core. So a cluster runs only while files use it: files that share one
are played one after the other, and it ends when a file begins that does not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from streaming.lab.local_cluster import LocalCluster, free_base_port
from tests.cluster.broker_client import BrokerClient, await_in_sync
from tests.cluster.pipeline import STARTS_WITHIN_S, Pipeline
from tests.cluster.programs import TOPICS, create, delete
from tests.cluster.watching import Watch, watching
from tests.waiting import until

STILL: Final = {"auto.leader.rebalance.enable": "false"}
"""Leaders move when a test makes them, and not five minutes after the start by themselves."""

BROKERS: Final[Mapping[str, int]] = {"cluster": 0, "five_brokers": 2}
"""Shared clusters, by fixture: nodes that are broker only, beside three controllers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Play files that use the same shared clusters one after the other; the rest stays in order."""
    here = Path(__file__).parent
    used = {item.path: frozenset[str]() for item in items if here in item.path.parents}
    for item in items:
        if item.path in used:
            used[item.path] |= _shared(item)
    items.sort(key=lambda item: sorted(used.get(item.path, ())))


@pytest.fixture(scope="session")
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shared]:
    """The shared clusters that run."""

    def make(name: str) -> LocalCluster:
        home = tmp_path_factory.mktemp(name)
        return LocalCluster(home, 3, BROKERS[name], free_base_port(), settings=STILL)

    running = Shared(make, request.session)
    yield running
    running.keep(frozenset())


@pytest.fixture(scope="module", autouse=True)
def only_used_clusters(request: pytest.FixtureRequest, shared: Shared) -> None:
    """End those that the tests of a file do not use; of the others, none has topics of a file."""
    of_file = (_shared(item) for item in request.session.items if item.path == request.path)
    shared.keep(frozenset().union(*of_file))
    shared.empty()


@pytest.fixture(scope="module")
def cluster(shared: Shared) -> LocalCluster:
    """Three nodes, each broker and controller. Only one can be lost before the quorum is."""
    return shared.started("cluster")


@pytest.fixture(scope="module")
def five_brokers(shared: Shared) -> LocalCluster:
    """Three nodes as above, and two that are broker only: 4 and 5 can both be lost."""
    return shared.started("five_brokers")


@pytest.fixture
def whole(cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster of the module, with every node running again after the test."""
    yield cluster
    for node in cluster.status():
        if node.state == "paused":
            cluster.resume(node.id)
    cluster.start()


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> BrokerClient:
    """Asks its brokers."""
    return BrokerClient(cluster)


@pytest.fixture
def watch(cluster: LocalCluster) -> Iterator[Watch]:
    """A twin of it for a test, which looks when it is asked to."""
    with watching(cluster.bootstrap) as twin:
        yield twin


@pytest.fixture(scope="module")
def programs(
    request: pytest.FixtureRequest, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pipeline]:
    """The three programs on three brokers, for a file of tests."""
    await_in_sync(cluster)
    folder = tmp_path_factory.mktemp("pipeline")
    pipeline = Pipeline(cluster, folder, prefix=f"{request.path.stem.replace('_', '-')}-bus")
    pipeline.create_bus()
    create(cluster, **TOPICS)
    try:
        pipeline.start("collector", "query", "exporter")
        yield pipeline
    finally:
        pipeline.end()
        delete(cluster, *TOPICS)


@pytest.fixture
def pipeline(programs: Pipeline) -> Iterator[Pipeline]:
    """All programs and brokers as they should be, before the test and after it."""
    until(programs.is_live, STARTS_WITHIN_S, "the pipeline is not live")
    yield programs
    for node in programs.cluster.status():
        if node.state == "paused":
            programs.cluster.resume(node.id)
    programs.cluster.start()
    await_in_sync(programs.cluster)


class Shared:
    """Clusters by the name of their fixture. One is made when it is first used."""

    def __init__(self, make: Callable[[str], LocalCluster], session: pytest.Session) -> None:
        self._make = make
        self._session = session
        self._running: dict[str, tuple[LocalCluster, ExitStack]] = {}

    def started(self, name: str) -> LocalCluster:
        if name not in self._running:
            stack = ExitStack()
            local = stack.enter_context(running(self._make(name), self._session))
            self._running[name] = local, stack
        return self._running[name][0]

    def keep(self, names: frozenset[str]) -> None:
        """End all others."""
        for name in self._running.keys() - names:
            self._running.pop(name)[1].close()

    def empty(self) -> None:
        """Delete the topics that earlier files left, but Kafka's own.

        They would be waited for: a single replica on a node that a test froze may stay without a
        leader.
        """
        for local, _ in self._running.values():
            left = [name for name in BrokerClient(local).topics(1) if not name.startswith("__")]
            if left:
                delete(local, *left)


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


def _shared(item: pytest.Item) -> frozenset[str]:
    return BROKERS.keys() & getattr(item, "fixturenames", ())
