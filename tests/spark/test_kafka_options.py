"""kafka-python's security settings reach Spark's client in its own words."""

import subprocess

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.query.kafka_options import (
    REQUEST_TIMEOUT_MS,
    UnsupportedSetting,
    kafka_options,
    source_options,
)


def options(**client):
    return kafka_options("b:1", client)


def test_a_plain_cluster_needs_only_its_address():
    assert options() == {"kafka.bootstrap.servers": "b:1"}


def test_scram_becomes_a_jaas_line_with_its_quotes_escaped():
    made = options(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="twin",
        sasl_plain_password='p"\\w',
    )
    assert made["kafka.security.protocol"] == "SASL_SSL"
    assert made["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert made["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="twin" password="p\\"\\\\w";'
    )


def test_tls_files_are_given_as_pem(tmp_path):
    (tmp_path / "cert.pem").write_text("CERT")
    (tmp_path / "ca.pem").write_text("AUTHORITY")
    key = ["openssl", "genpkey", "-algorithm", "RSA"]
    written = subprocess.run(key, check=True, capture_output=True, text=True).stdout
    (tmp_path / "key.pem").write_text(written)
    made = options(
        ssl_cafile=str(tmp_path / "ca.pem"),
        ssl_certfile=str(tmp_path / "cert.pem"),
        ssl_keyfile=str(tmp_path / "key.pem"),
        ssl_check_hostname=False,
    )
    assert made["kafka.ssl.truststore.type"] == made["kafka.ssl.keystore.type"] == "PEM"
    assert made["kafka.ssl.truststore.certificates"] == "AUTHORITY"
    assert made["kafka.ssl.keystore.certificate.chain"] == "CERT"
    assert made["kafka.ssl.keystore.key"] == written
    assert made["kafka.ssl.endpoint.identification.algorithm"] == ""


def test_a_security_setting_without_a_counterpart_is_named_not_dropped():
    with pytest.raises(UnsupportedSetting, match="sasl_oauth_token_provider"):
        options(sasl_oauth_token_provider="x")


def test_addresses_of_a_tunnel_are_refused_where_java_cannot_use_them():
    with pytest.raises(UnsupportedSetting, match=r"broker_addresses: .* connects only where brok"):
        options(broker_addresses="1=localhost:19092")


@pytest.mark.parametrize("given", [{}, {"request_timeout_ms": 40_000}])
def test_a_source_waits_for_a_broker_as_long_as_it_was_told(given: dict[str, int]):
    made = source_options("b:1", given)
    request_ms = given.get("request_timeout_ms", REQUEST_TIMEOUT_MS)
    assert made["kafka.bootstrap.servers"] == "b:1"
    assert made["kafka.request.timeout.ms"] == str(request_ms)
    assert int(made["kafka.default.api.timeout.ms"]) > request_ms
