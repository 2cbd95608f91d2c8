"""The certificate of a server, which is read again when its files change."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from streaming.runtime.errors import UserError
from streaming.runtime.kafka.pem_files import Stamp, stamp

log = structlog.get_logger("tls")


class CertificateError(UserError):
    """The certificate cannot be used; one line says which file, and why."""


def certificate_of(chain: str, key: str) -> Certificate | None:
    """The certificate of those files; None if they have no names.

    Raises:
        CertificateError: it cannot be used.
    """
    return Certificate(Path(chain), Path(key)) if chain else None


@dataclass
class Certificate:
    """A chain of certificates and its key, as PEM files; ``context`` serves the newest ones."""

    chain: Path
    key: Path
    context: ssl.SSLContext = field(init=False)
    _seen: tuple[Stamp | None, ...] = ()

    def __post_init__(self) -> None:
        """Read both files.

        Raises:
            CertificateError: they cannot be read, or do not belong together.
        """
        self._seen = self._stamps()
        self.context = self._read()

    def look(self) -> None:
        """Read both files again if they changed. Connections that are open keep the old ones.

        Files that cannot be used, as in the middle of a change, are tried again, and the old
        certificate stays.
        """
        now = self._stamps()
        if now == self._seen or None in now:  # None: in the middle of a change
            return
        self._seen = now  # of before they are read: what changes meanwhile is read next time
        try:
            self._read()
            self.context.load_cert_chain(self.chain, self.key)
        except CertificateError as error:
            log.error("the certificate stays as it was", error=str(error))
            return
        log.info("the certificate was read again", file=str(self.chain))

    def _read(self) -> ssl.SSLContext:
        for path in (self.chain, self.key):  # OpenSSL does not say which of them it cannot read
            try:
                path.open("rb").close()
            except OSError as error:
                raise CertificateError(f"certificate: {path}: {error.strerror}") from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.chain, self.key)
        except (OSError, ssl.SSLError) as error:
            why = error.strerror or getattr(error, "reason", None) or "it is not PEM"
            raise CertificateError(
                f"certificate: {self.chain} with the key {self.key} cannot be used: {why}"
            ) from None
        return context

    def _stamps(self) -> tuple[Stamp | None, ...]:
        return stamp(self.chain), stamp(self.key)
