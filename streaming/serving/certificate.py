"""The certificate of a server, which is read again when its files change."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from streaming.runtime.errors import UserError

log = structlog.get_logger("tls")

_Stamp = tuple[tuple[int, int, int], ...]


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
    _seen: _Stamp = ()

    def __post_init__(self) -> None:
        """Read both files.

        Raises:
            CertificateError: they cannot be read, or do not belong together.
        """
        self._seen = self._stamp()
        self.context = self._read()

    def look(self) -> None:
        """Read both files again if they changed. Connections that are open keep the old ones.

        Files that cannot be used, as in the middle of a change, are tried again, and the old
        certificate stays.
        """
        try:
            stamp = self._stamp()
        except CertificateError:
            return  # in the middle of a change
        if stamp == self._seen:
            return
        self._seen = stamp  # of before they are read: what changes meanwhile is read next time
        try:
            self._read()
            self.context.load_cert_chain(self.chain, self.key)
        except CertificateError as error:
            log.error("the certificate stays as it was", error=str(error))
            return
        log.info("the certificate was read again", file=str(self.chain))

    def _read(self) -> ssl.SSLContext:
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

    def _stamp(self) -> _Stamp:
        """What changes when a file does, also behind a symbolic link as Kubernetes has them."""
        found = []
        for path in (self.chain, self.key):
            try:
                of = path.stat()
            except OSError as error:
                raise CertificateError(f"certificate: {path}: {error.strerror}") from None
            found.append((of.st_ino, of.st_mtime_ns, of.st_size))
        return tuple(found)
