"""One API server for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kubernetes.api_server import Cluster, running
from tests.kubernetes.definitions import definitions


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server that knows the resources of the operators that the chart is for."""
    with running(tmp_path_factory.mktemp("kubernetes")) as started:
        started.apply(*definitions())
        started.kubectl(
            "wait", "--for", "condition=Established", "--timeout", "60s", "crd", "--all"
        )
        yield started
