"""Stores of Java and files in DER are refused, with the command that makes PEM of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.query.kafka_options import UnsupportedSetting, kafka_options
from streaming.runtime.config import ConfigError
from streaming.runtime.kafka import clients
from streaming.runtime.kafka.pem_files import other_form
from tests.logins.authority import Authority

PASSWORD: Final = "changeit"


def run(command: str, folder: Path) -> None:
    """Run it as whoever reads the message would, who types the password."""
    asked = command.replace("openssl pkcs12", f"openssl pkcs12 -passin pass:{PASSWORD}")
    words = f"-srcstorepass {PASSWORD} -deststorepass {PASSWORD}"
    asked = asked.replace("keytool -importkeystore", f"keytool -importkeystore {words}")
    asked = asked.replace("keytool -list", f"keytool -list -storepass {PASSWORD}")
    subprocess.run(asked, shell=True, check=True, capture_output=True, cwd=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One file of each form, of the same certificate and key, in a folder with a blank."""
    folder = tmp_path / "of others"
    folder.mkdir()
    certificate, key = Authority("one").issue("twin")
    (folder / "pair").write_text(certificate + key)
    (folder / "cert").write_text(certificate)
    (folder / "key").write_text(key)
    imported = f"keytool -importcert -noprompt -alias a -file cert -storepass {PASSWORD}"
    for command in (
        "openssl x509 -in cert -outform DER -out cert.der",
        "openssl pkey -in key -outform DER -out key.der",
        f"openssl pkcs12 -export -in pair -out pair.p12 -passout pass:{PASSWORD} -name twin",
        "keytool -importkeystore -srckeystore pair.p12 -destkeystore pair.jks -deststoretype JKS",
        f"{imported} -storetype JKS -keystore trust.jks",
        f"{imported} -storetype PKCS12 -keystore trust.p12",
    ):
        run(command, folder)
    return folder


FORMS: Final = {
    "ssl_cafile": ("trust.jks", "trust.p12", "cert.der"),
    "ssl_certfile": ("pair.jks", "pair.p12", "cert.der"),
    "ssl_keyfile": ("pair.jks", "pair.p12", "key.der"),
}


def test_the_command_in_the_message_makes_what_both_clients_take(folder: Path) -> None:
    refused: list[tuple[type[Exception], Callable[[dict[str, str]], object]]] = [
        (ConfigError, lambda client: clients.settings(client, "cluster")),
        (UnsupportedSetting, lambda client: kafka_options("b:1", client)),
    ]
    for name, files in FORMS.items():
        for file in files:
            path = folder / file
            client = {"ssl_certfile": str(folder / "pair"), name: str(path)}
            said = set()
            for error, use in refused:
                with pytest.raises(error) as caught:
                    use(client)
                said.add(str(caught.value).removeprefix("cluster.client."))
            [line] = said
            assert line.startswith(f"{name}: {path} is ")
            assert "\n" not in line
            run(line.partition("which this makes: ")[2], folder)
            made = f"{path}.pem"
            if name == "ssl_certfile" and file == "cert.der":
                client["ssl_keyfile"] = str(folder / "key")
            for _, use in refused:
                use(client | {name: made})
            for left in (Path(made), Path(f"{path}.p12")):
                left.unlink(missing_ok=True)


@pytest.mark.parametrize("head", [b"", b"0", b"0\xff\x02", b"-----BEGIN", b"Bag Attributes\n"])
def test_what_may_be_pem_is_left_to_the_clients(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "file").write_bytes(head)
    assert other_form(str(tmp_path / "file"), holds_key=True) == ""
