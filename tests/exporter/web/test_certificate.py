"""The exporter with TLS: its certificate, and another one while it serves."""

from __future__ import annotations

import os
import ssl
import subprocess
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from streaming.cli.main import main
from streaming.runtime.config import AccessConfig
from streaming.serving.certificate import Certificate, CertificateError
from tests.exporter.agents.asking import an_application
from tests.exporter.serving import served
from tests.exporter.test_exporter import a_busy_store
from tests.waiting import until


def written(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 with that common name, and its key."""
    folder.mkdir(exist_ok=True)
    chain, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(chain)],
        check=True, capture_output=True,
    )  # fmt: skip
    return chain, key


def name_of(url: str, chain: Path) -> str:
    """The common name in the certificate that a new connection gets; none if it is not trusted."""
    context = ssl.create_default_context(cafile=str(chain))
    try:
        with httpx2.Client(verify=context, trust_env=False, timeout=60) as client:
            answer = client.get(f"{url}/healthz")
            served = answer.extensions["network_stream"].get_extra_info("ssl_object").getpeercert()
    except httpx2.ConnectError:
        return ""
    assert answer.status_code == 200
    return dict(pair for group in served["subject"] for pair in group)["commonName"]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders with a certificate each, as of a Secret and of the next one."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("first", "second"):
        written(folder / name, name)
    return [folder / "first", folder / "second"]


def linked(at: Path, to: Path) -> None:
    """Let a link lead there, in one step, as Kubernetes changes the files of a Secret."""
    new = at.with_name("new")
    new.symlink_to(to)
    new.replace(at)


def test_another_certificate_is_served_without_a_restart(two: list[Path], tmp_path: Path):
    first, second = two
    now = tmp_path / "now"
    linked(now, first)
    certificate = Certificate(now / "tls.crt", now / "tls.key")
    with served(an_application(a_busy_store()), certificate=certificate) as url:
        assert name_of(url, first / "tls.crt") == "first"
        assert name_of(url, second / "tls.crt") == ""
        linked(now, second)
        until(lambda: name_of(url, second / "tls.crt") == "second")
        assert name_of(url, first / "tls.crt") == ""


def test_files_that_do_not_belong_together_leave_the_certificate_as_it_was(
    two: list[Path], tmp_path: Path
):
    first, second = two
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    for target in (chain, key):
        target.write_bytes((first / target.name).read_bytes())
    certificate = Certificate(chain, key)
    context = certificate.context
    chain.write_bytes((second / "tls.crt").read_bytes())  # the key follows later
    certificate.look()
    with served(an_application(a_busy_store()), certificate=certificate) as url:
        assert name_of(url, first / "tls.crt") == "first"
        key.unlink()
        certificate.look()
        assert name_of(url, first / "tls.crt") == "first"
        key.write_bytes((second / "tls.key").read_bytes())
        until(lambda: name_of(url, second / "tls.crt") == "second")
    assert certificate.context is context


def test_a_certificate_that_cannot_be_used_is_one_line(two: list[Path], tmp_path: Path):
    first, second = two
    for chain, key, why in (
        (tmp_path / "none.crt", first / "tls.key", r"certificate: .*none\.crt: No such file"),
        (first / "tls.crt", second / "tls.key", r"certificate: .* cannot be used: "),
        (first / "tls.key", first / "tls.key", r"certificate: .* cannot be used: "),
    ):
        with pytest.raises(CertificateError, match=why) as error:
            Certificate(chain, key)
        assert "\n" not in str(error.value)


def test_commands_ask_with_the_token_of_their_configuration(
    two: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in [each for each in os.environ if each.startswith("KAFKA_TWIN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(two[0] / "tls.crt"))
    access = AccessConfig(token="looks", operator_token="plans")
    certificate = Certificate(two[0] / "tls.crt", two[0] / "tls.key")
    with served(an_application(a_busy_store(), access), certificate=certificate) as url:

        def ran(token: str) -> tuple[int, str]:
            path = tmp_path / "twin.toml"
            path.write_text(f'[access]\noperator_token = "{token}"\n')
            command = ["--config", str(path), "whatif", "lose", "--broker", "1", "--url", url]
            result = CliRunner().invoke(main, command)
            return result.exit_code, result.output

        assert ran("plans")[0] == 0
        code, said = ran("")
        assert code != 0
        assert "who asks is not known: send the token of access.token" in said
