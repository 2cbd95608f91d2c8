"""Keys as OpenSSL writes them become what Kafka's Java client reads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed")

from streaming.query.kafka_options import UnsupportedSetting, kafka_options
from streaming.query.logins.private_keys import KeyFormatError, pkcs8
from tests.logins.authority import Authority

PASSWORD = "p ss'w\u00f6rd"
PKCS8 = "-----BEGIN PRIVATE KEY-----"


def openssl(words: str, given: bytes = b"") -> bytes:
    done = subprocess.run(
        ["openssl", *words.split()], check=True, capture_output=True, input=given,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "KEY_PASSWORD": PASSWORD},
    )  # fmt: skip
    return done.stdout


@pytest.fixture(scope="module")
def rsa() -> bytes:
    return openssl("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048")


@pytest.fixture(scope="module")
def ec() -> bytes:
    return openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256")


@pytest.mark.parametrize("name", ["rsa", "ec"])
@pytest.mark.parametrize(
    ("words", "password"),
    [
        ("pkey", ""),
        ("pkey -traditional", ""),
        ("pkcs8 -topk8 -passout env:KEY_PASSWORD", PASSWORD),
        ("pkcs8 -topk8 -v1 PBE-SHA1-3DES -passout env:KEY_PASSWORD", PASSWORD),
        ("pkey -traditional -aes256 -passout env:KEY_PASSWORD", PASSWORD),
    ],
)
def test_a_key_of_any_form_becomes_pkcs8(
    name: str, words: str, password: str, request: pytest.FixtureRequest
):
    key = request.getfixturevalue(name)
    made = pkcs8(openssl(words, key), password)
    assert made.startswith(PKCS8)
    assert openssl("pkey", made.encode()) == key


def test_a_key_after_certificates_is_found(ec: bytes):
    certificate = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    traditional = openssl("pkey -traditional", ec)
    for text in (certificate + traditional, b"subject=CN\n" + ec + certificate):
        assert openssl("pkey", pkcs8(text, "").encode()) == ec


def test_what_cannot_be_used_is_said(ec: bytes):
    encrypted = openssl("pkcs8 -topk8 -passout env:KEY_PASSWORD", ec)
    for pem, password, message in (
        (encrypted, "", "is encrypted: set ssl_password"),
        (encrypted, "wrong", "ssl_password is wrong, or it is damaged"),
        (ec, PASSWORD, "is not encrypted: leave out ssl_password"),
        (ec.replace(b"MIG", b"MMM"), "", "cannot be read: it is damaged"),
        (b"-----BEGIN CERTIFICATE-----", "", "holds no private key"),
        (openssl("genpkey -algorithm ED25519"), "", "is a key of Ed25519: Kafka's Java client"),
    ):
        with pytest.raises(KeyFormatError, match=message):
            pkcs8(pem, password)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path):
    pairs = [Authority("one").issue("twin") for _ in range(2)]
    (tmp_path / "cert.pem").write_text(pairs[0][0])
    for (_, key), fits in zip(pairs, (True, False), strict=True):
        (tmp_path / "key.pem").write_text(key)
        client = {
            "ssl_certfile": str(tmp_path / "cert.pem"),
            "ssl_keyfile": str(tmp_path / "key.pem"),
        }
        if fits:
            assert "kafka.ssl.keystore.key" in kafka_options("b:1", client)
            continue
        with pytest.raises(UnsupportedSetting, match=r"is not the key of the certificate in ssl"):
            kafka_options("b:1", client)


def test_the_query_names_the_file(tmp_path: Path, ec: bytes):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_text("CERT")
    key.write_bytes(openssl("pkcs8 -topk8 -passout env:KEY_PASSWORD", ec))
    client = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key), "ssl_password": PASSWORD}
    made = kafka_options("b:1", client)
    assert made["kafka.ssl.keystore.key"].startswith(PKCS8)
    assert "kafka.ssl.key.password" not in made
    with pytest.raises(UnsupportedSetting, match=rf"ssl_keyfile: {key} cannot be read: ssl_pass"):
        kafka_options("b:1", client | {"ssl_password": "wrong"})
    certificate.write_bytes(b"0\x82\x03\xff")  # DER
    with pytest.raises(
        UnsupportedSetting, match=rf"ssl_certfile: {certificate} is in DER, and PEM"
    ):
        kafka_options("b:1", client)
    certificate.write_bytes(b"\xff\xfe")
    with pytest.raises(UnsupportedSetting, match=rf"ssl_certfile: {certificate} is no PEM file"):
        kafka_options("b:1", client)
    certificate.write_text("CERT")
    key.unlink()
    with pytest.raises(UnsupportedSetting, match=rf"{key} cannot be read: no such file"):
        kafka_options("b:1", client)
