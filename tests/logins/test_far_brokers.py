"""Brokers that are 250 ms away, behind TLS and a password: what works nearby works there too."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from streaming.checks import check
from streaming.collector.wire.connections import BrokerConnections, CollectorError
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.config import BusConfig, ClusterConfig, CollectorConfig, Config
from tests.cluster.pipeline import STARTS_WITHIN_S, Pipeline
from tests.logins.authority import Authority
from tests.logins.brokers import with_passwords
from tests.logins.far import far_away
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.logins]

ROUND_TRIP_S: Final = 0.25
USER, PASSWORD = "twin", "far-away-4711"
DEFAULTS: Final = CollectorConfig()


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, Path, str]]:
    """A broker, the certificate to trust, and the address at which it is far away."""
    folder, authority = tmp_path_factory.mktemp("far"), Authority("far")
    chain, key = authority.issue("broker")
    (folder / "own.pem").write_text(key + chain)
    (folder / "trusted.pem").write_text(authority.certificate)
    port = free_base_port(span=1)
    local, bound = with_passwords(folder, folder / "own.pem", USER, PASSWORD, port)
    try:
        local.start()
        with far_away(port, bound, ROUND_TRIP_S):
            yield local, folder / "trusted.pem", f"127.0.0.1:{port}"
    finally:
        local.wipe()


def section(trusted: Path) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL", "ssl_cafile": str(trusted), "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER, "sasl_plain_password": PASSWORD,
    }  # fmt: skip


def test_check_finds_nothing_that_it_would_not_find_nearby(
    far: tuple[LocalCluster, Path, str],
) -> None:
    local, trusted, address = far
    said = []
    for bootstrap, client in ((local.bootstrap, {}), (address, section(trusted))):
        config = Config(
            cluster=ClusterConfig(bootstrap=bootstrap, client=client),
            bus=BusConfig(prefix="far", shards=2),
        )
        out, began_s = io.StringIO(), time.monotonic()
        assert check(config, out), out.getvalue()
        print(bootstrap, f"{time.monotonic() - began_s:.1f} s")
        lines = out.getvalue().splitlines()
        said.append([line for line in lines if line.startswith("missing: ")])
        assert not [line for line in lines if line.startswith("source ") and "failed" in line]
    assert said[0] == said[1]


def test_all_programs_work_at_once(far: tuple[LocalCluster, Path, str], tmp_path: Path) -> None:
    local, trusted, address = far
    pipeline = Pipeline(
        local, tmp_path, "far-bus", address, section(trusted), deadline_ms=DEFAULTS.deadline_ms
    )
    try:
        pipeline.start("collector", "query", "exporter")
        until(lambda: pipeline.metrics().value("up") == 1, STARTS_WITHIN_S, "nothing is served")
        for _ in range(3):
            since_s = time.time()
            until(lambda: pipeline.observed_since(since_s), 30, "nothing is observed")  # noqa: B023
        assert all(pipeline.alive(name) for name in pipeline.programs)
        for name in pipeline.programs:
            assert '"event": "unavailable"' not in pipeline.log(name), pipeline.log(name)
    finally:
        pipeline.end()


def test_a_deadline_that_is_too_short_is_named(far: tuple[LocalCluster, Path, str]) -> None:
    _, trusted, address = far
    with pytest.raises(CollectorError, match="deadline_ms"):
        BrokerConnections(address, section(trusted), 400).close()
