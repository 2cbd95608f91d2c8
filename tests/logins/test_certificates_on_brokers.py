"""Certificates are renewed under running programs, the authority as well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.kafka import clients
from tests.logins import java_client
from tests.logins.authority import Authority, Volume
from tests.logins.brokers import with_certificates
from tests.logins.going_on import live, running
from tests.waiting import patient_ms, until

pytestmark = [pytest.mark.cluster, pytest.mark.logins]

OLD, NEW = Authority("old"), Authority("new")
OWN, TRUSTED = "own.pem", "trusted.pem"


def write_broker(folder: Path, authority: Authority) -> None:
    """The broker's own certificate, and whom it lets in: clients of this authority."""
    chain, key = authority.issue("broker")
    (folder / OWN).write_text(key + chain)
    (folder / TRUSTED).write_text(authority.certificate)


def of_client(folder: Path, authority: Authority, *trusted: Authority) -> Volume:
    """A client's certificate in a volume, and whom it trusts."""
    volume = Volume(folder)
    write_client(volume, authority, *trusted)
    return volume


def write_client(volume: Volume, authority: Authority, *trusted: Authority) -> None:
    chain, key = authority.issue("twin")
    volume.write(chain=chain, key=key, trusted="".join(each.certificate for each in trusted))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[LocalCluster, str]]:
    """A broker that wants certificates of the old authority, and the address where it does."""
    write_broker(tmp_path, OLD)
    with running(with_certificates(tmp_path, tmp_path / OWN, tmp_path / TRUSTED)) as started:
        yield started


def read_again(local: LocalCluster, folder: Path) -> None:
    """Let the broker read its files, as an operator would; connections that are open stay."""
    settings = {
        f"listener.name.login.ssl.{store}.location": str(folder / file)
        for store, file in (("keystore", OWN), ("truststore", TRUSTED))
    }
    with closing(KafkaAdminClient(bootstrap_servers=local.bootstrap)) as admin:
        resource = ConfigResource(ConfigResourceType.BROKER, "1", settings)
        admin.alter_configs([resource], raise_on_unknown=False, incremental=True)


def why_not(address: str, volume: Volume) -> str:
    """Why a client of the collector's kind cannot connect; empty where it can."""
    arguments = clients.arguments(address, volume.client(), "cluster")
    try:
        KafkaAdminClient(**arguments, bootstrap_timeout_ms=patient_ms(3_000)).close()
    except Exception as error:  # clients raise many kinds
        return clients.one_line(error)
    return ""


def test_all_programs_go_on_when_certificates_and_their_authority_are_renewed(
    broker: tuple[LocalCluster, str], tmp_path: Path
):
    volume = of_client(tmp_path / "secret", OLD, OLD, NEW)
    left_behind = of_client(tmp_path / "left", OLD, OLD, NEW)
    local, address = broker
    with live(broker, tmp_path, "renewed", volume.client()) as pipeline:
        before = {name: pipeline.process(name).pid for name in pipeline.programs}
        assert not why_not(address, left_behind)

        write_broker(tmp_path, NEW)
        read_again(local, tmp_path)
        until(lambda: why_not(address, left_behind), 30, "the old authority is still trusted")
        write_client(volume, NEW, NEW)
        until(lambda: "files are renewed" in pipeline.log("query"), 30, "nothing is noticed")
        for _ in range(2):
            since_s = time.time()
            until(lambda: pipeline.observed_since(since_s), 60, "nothing is observed")  # noqa: B023
            time.sleep(20)  # so that what looks only now and then has looked
        assert all(pipeline.alive(name) for name in pipeline.programs)
        assert {name: pipeline.process(name).pid for name in pipeline.programs} == before

        # Without the new files Java's client is refused as well.
        assert java_client.checked(address, left_behind.client()) != java_client.ANSWERED
        assert java_client.checked(address, volume.client()) == java_client.ANSWERED

        local.kill(1)  # so that everybody has to connect again
        local.start([1])
        since_s = time.time()
        until(lambda: pipeline.is_live() and pipeline.observed_since(since_s), 120, "it is lost")
        for name in ("collector", "exporter"):
            assert pipeline.process(name).pid == before[name], name
