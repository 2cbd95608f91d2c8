"""Programs on a broker that wants Kerberos: right logins, wrong ones, and tickets that end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kafka import KafkaAdminClient

from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.kafka import clients
from tests.logins import java_client
from tests.logins import kdc as realm
from tests.logins.brokers import with_kerberos
from tests.logins.going_on import asks_for_s, go_on_for_s, live, running, why_not
from tests.logins.kdc import HOST, REALM, Kdc

pytestmark = [pytest.mark.cluster, pytest.mark.logins]

OWN = "sasl_kerberos_"
SESSION_S: Final = 8
"""After that a broker wants a client to log in again."""

BRIEF_S: Final = 10
JAVA_S: Final = 75
"""Kafka's Java client asks for no ticket within a minute of the last one."""

LASTS_S: Final = float(os.environ.get("LOGINS_LAST_S", "90"))


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    realm.require()
    with (
        Kdc(tmp_path_factory.mktemp("kdc")).serving() as kdc,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        yield kdc


@pytest.fixture(scope="module")
def broker(
    kdc: Kdc, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LocalCluster, str]]:
    """A broker, and the address at which it wants Kerberos."""
    keytab = kdc.keytab(f"kafka/{HOST}")
    folder = tmp_path_factory.mktemp("broker")
    with running(
        with_kerberos(folder, HOST, keytab, f"kafka/{HOST}@{REALM}", kdc.krb5_conf, SESSION_S)
    ) as started:
        yield started


@pytest.fixture
def login(broker: tuple[LocalCluster, str]) -> str:
    """The address that wants Kerberos."""
    return broker[1]


def section(keytab: Path, principal: str, **changed: str) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "request_timeout_ms": 5_000,
        f"{OWN}keytab": str(keytab),
        f"{OWN}principal": f"{principal}@{REALM}",
        **{f"{OWN}{name}": value for name, value in changed.items()},
    }


def test_a_client_goes_on_while_tickets_end(login: str, kdc: Kdc) -> None:
    keytab = kdc.keytab("brief", BRIEF_S)
    asks_for_s(login, section(keytab, "brief"), 2.5 * BRIEF_S)
    assert kdc.tickets("brief") >= 3


def test_all_clients_of_a_process_share_a_ticket(login: str, kdc: Kdc) -> None:
    arguments = clients.arguments(login, section(kdc.keytab("shares"), "shares"), "cluster")
    for _ in range(3):
        KafkaAdminClient(**arguments).close()
    assert kdc.tickets("shares") == 1


def test_check_logs_in_with_the_java_client_too(login: str, kdc: Kdc) -> None:
    keytab = kdc.keytab("checks")
    assert java_client.checked(login, section(keytab, "checks")) == java_client.ANSWERED
    said = java_client.checked(login, section(keytab, "somebody"))
    assert said.startswith("missing: Java client of cluster: cluster.bootstrap ")


def test_each_wrong_login_is_one_line(login: str, kdc: Kdc, tmp_path: Path) -> None:
    keytab = kdc.keytab("guest")
    right = section(keytab, "guest")
    missing = tmp_path / "missing.keytab"
    assert f"keytab: {missing} cannot be read: no such file" in why_not(
        login, section(missing, "guest")
    )
    assert "keytab has no key of sasl_kerberos_principal" in why_not(
        login, section(keytab, "somebody")
    )
    gone = kdc.keytab("gone")
    kdc.remove("gone")
    assert "sasl_kerberos_principal is not one of that realm" in why_not(
        login, section(gone, "gone")
    )
    changed = kdc.keytab("changed")
    kdc.change_key("changed")
    assert "keytab has another key than the KDC" in why_not(login, section(changed, "changed"))
    for where, client in (
        (login, right | {f"{OWN}service_name": "broker"}),
        (login.replace(HOST, "127.0.0.1"), right),
    ):
        assert "sasl_kerberos_service_name is wrong, or the host of this" in why_not(where, client)
    kdc.keytab(f"other/{HOST}")  # it is there, and no broker has its key
    assert "refused" in why_not(login, right | {f"{OWN}service_name": "other"})


def test_all_programs_go_on_while_tickets_end(
    broker: tuple[LocalCluster, str], kdc: Kdc, tmp_path: Path
) -> None:
    login = section(kdc.keytab("twin", JAVA_S), "twin")
    with live(broker, tmp_path, "tickets", login) as pipeline:
        given = kdc.tickets("twin")
        go_on_for_s(pipeline, LASTS_S)
        assert kdc.tickets("twin") - given > len(pipeline.programs)
