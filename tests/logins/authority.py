"""An authority of the tests: certificates of brokers and of clients, as files of PEM."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY: Final = datetime.timedelta(days=1)
_ADDRESS: Final = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


class Authority:
    """Signs certificates, each with a key of its own.

    Attributes:
        certificate: its own, as PEM.
    """

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._signed(self._name, self._key.public_key(), is_authority=True)

    def issue(self, name: str) -> tuple[str, str]:
        """A certificate for 127.0.0.1 and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
        return self._signed(subject, key.public_key(), is_authority=False), text

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool
    ) -> str:
        now = datetime.datetime.now(datetime.UTC)
        limits = x509.BasicConstraints(ca=is_authority, path_length=None)
        signed = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(limits, critical=True)
            .add_extension(x509.SubjectAlternativeName([_ADDRESS]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return signed.public_bytes(serialization.Encoding.PEM).decode()


class Volume:
    """A folder whose files are replaced all at once by a link, as those of a Secret are."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._versions = 0

    def write(self, **files: str) -> None:
        """Replace all files; names have no suffix, and the files have ``.pem``."""
        self._versions += 1
        version = self._folder / f"..{self._versions}"
        version.mkdir()
        for name, text in files.items():
            (version / f"{name}.pem").write_text(text)
            link = self._folder / f"{name}.pem"
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}.pem")
        (self._folder / "..next").symlink_to(version.name)
        (self._folder / "..next").replace(self._folder / "..data")

    def client(self) -> dict[str, str]:
        """Settings of a client whose files are ``chain``, ``key`` and ``trusted``."""
        return {
            "security_protocol": "SSL",
            "ssl_cafile": self.path("trusted"),
            "ssl_certfile": self.path("chain"),
            "ssl_keyfile": self.path("key"),
        }

    def path(self, name: str) -> str:
        """Where a file is, whatever it holds."""
        return str(self._folder / f"{name}.pem")
