"""The settings of Kerberos, and what each Kafka client is given for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streaming.query.kafka_options import kafka_options
from streaming.runtime.config import ConfigError
from streaming.runtime.configuration.loading import load
from streaming.runtime.kafka.kerberos import (
    Kerberos,
    KerberosError,
    java_option,
    require_keytab,
)

OWN = "sasl_kerberos_"
LOGIN: dict[str, Any] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "GSSAPI",
    f"{OWN}keytab": "/etc/kafka-twin.keytab",
    f"{OWN}principal": "kafka-twin@EXAMPLE.ORG",
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({f"{OWN}keytab": ""}, "keytab: is missing"),
        ({f"{OWN}principal": ""}, "principal: must be like kafka-twin@EXAMPLE.ORG"),
        ({f"{OWN}principal": "a@b@c"}, "principal: must be like"),
        ({f"{OWN}service_name": ""}, "service_name: must not be empty"),
        (
            {f"{OWN}domain_name": "kafka.example"},
            "domain_name: the Java client of the query",
        ),
        ({f"{OWN}name": "kafka@b"}, "name: is a Python object"),
        ({f"{OWN}kinit_cmd": "kinit"}, "kinit_cmd: is none of sasl_kerberos_keytab"),
        ({"sasl_mechanism": "PLAIN"}, "needs sasl_mechanism = 'GSSAPI'"),
    ],
)
@pytest.mark.parametrize("section", ["cluster", "bus"])
def test_a_setting_that_cannot_be_used_is_named_when_the_file_is_read(
    section: str, tmp_path: Path, changed: dict[str, str], message: str
) -> None:
    lines = [f"{key} = '{value}'" for key, value in (LOGIN | changed).items()]
    path = tmp_path / "twin.toml"
    path.write_text("\n".join([f"[{section}.client]", *lines]))
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert f"{section}.client.{OWN}" in str(caught.value)
    assert message in str(caught.value)


def test_the_java_client_reads_the_same_keytab(tmp_path: Path) -> None:
    keytab = tmp_path / 'a "key" tab'
    keytab.write_bytes(b"\x05\x02")
    made = kafka_options("b:1", LOGIN | {f"{OWN}keytab": str(keytab), f"{OWN}service_name": "k"})
    quoted = str(keytab).replace('"', '\\"')
    assert made == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "GSSAPI",
        "kafka.sasl.kerberos.service.name": "k",
        "kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
        'useKeyTab="true" storeKey="true" useTicketCache="false" refreshKrb5Config="true" '
        f'doNotPrompt="true" keyTab="{quoted}" principal="kafka-twin@EXAMPLE.ORG";',
    }


def test_a_keytab_that_is_none_is_named_for_both_clients(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("-----BEGIN")
    for path, reason in (("/nowhere", "no such file"), (str(other), f"{other} is no keytab")):
        login = LOGIN | {f"{OWN}keytab": path}
        with pytest.raises(KerberosError, match=f"^sasl_kerberos_keytab: .*{reason}"):
            kafka_options("b:1", login)


def test_java_is_told_where_the_file_is_that_mits_library_reads() -> None:
    told = {"KRB5_CONFIG": "/etc/a krb5.conf"}
    assert java_option(told, {}, LOGIN) == '"-Djava.security.krb5.conf=/etc/a krb5.conf"'
    assert java_option(told, {}) == java_option({}, LOGIN) == ""
    with pytest.raises(KerberosError, match=r"^KRB5_CONFIG: '/a:/b' names several files"):
        java_option({"KRB5_CONFIG": "/a:/b"}, LOGIN)


def test_a_keytab_of_either_version_will_do(tmp_path: Path) -> None:
    for version in (b"\x05\x01", b"\x05\x02"):
        (tmp_path / "keytab").write_bytes(version)
        require_keytab(Kerberos(keytab=str(tmp_path / "keytab")))
