"""Private keys in the only form that Kafka's Java client reads: PKCS#8, RSA or EC, not encrypted.

It refuses PKCS#1 and SEC 1, which ``openssl genrsa -traditional`` and ``ecparam -genkey`` write,
and keys that OpenSSL 3 has encrypted (PBES2).
"""

from __future__ import annotations

import re
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

_BEGIN: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")


class KeyFormatError(ValueError):
    """A key cannot be used; the message says why, and shows nothing of it."""


def pkcs8(pem: bytes, password: str) -> str:
    """The first private key in the text, as PEM.

    Args:
        pem: a key, perhaps after certificates; in any form that OpenSSL writes.
        password: of the key; empty if it has none.

    Raises:
        KeyFormatError: the text has no private key, the password does not fit the key, or Kafka's
            Java client takes no key of this kind.
    """
    begin = _BEGIN.search(pem)
    if begin is None:
        raise KeyFormatError("holds no private key")
    try:
        key = serialization.load_pem_private_key(pem[begin.start() :], password.encode() or None)
    except TypeError:
        is_needed = "is encrypted: set" if not password else "is not encrypted: leave out"
        raise KeyFormatError(f"{is_needed} ssl_password") from None
    except (ValueError, UnsupportedAlgorithm):
        why = "ssl_password is wrong, or it is damaged" if password else "it is damaged"
        raise KeyFormatError(f"cannot be read: {why}") from None
    if not isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
        kind = type(key).__name__.removesuffix("PrivateKey").lstrip("_")
        raise KeyFormatError(f"is a key of {kind}: Kafka's Java client takes RSA and EC")
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def require_pair(certificates: str, key: str) -> None:
    """Refuse a key that is not that of the first certificate: a broker would only say that the
    handshake failed. Where files are renewed one after the other, they are such for a moment.

    Args:
        certificates: a chain, as PEM.
        key: as ``pkcs8`` gives it.

    Raises:
        KeyFormatError: it belongs to another certificate.
    """
    try:
        certified = x509.load_pem_x509_certificate(certificates.encode()).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return  # Java, which reads certificates that this library refuses, has the last word
    own = serialization.load_pem_private_key(key.encode(), None).public_key()
    if _encoded(certified) != _encoded(own):
        raise KeyFormatError("is not the key of the certificate in ssl_certfile")


def _encoded(key: PublicKeyTypes) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.DER, form)
