"""Certificates and keys in other forms than PEM, the only one that both Kafka clients read.

A store of Java and a file in DER are told by their first bytes, so that whoever named one is told
how to make PEM of it.
"""

from __future__ import annotations

import os
import shlex
from typing import Final

Stamp = tuple[int, int, int]

_JAVA_STORES: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""JKS and JCEKS: the magic numbers of ``sun.security.provider.JavaKeyStore``."""

_SEQUENCE: Final = 0x30
_PKCS12_VERSION: Final = b"\x02\x01\x03"
"""The first field of a PFX is the integer 3 (RFC 7292, section 4)."""

_INTEGER: Final = b"\x02"
"""Private keys begin with their version: PKCS#1, PKCS#8 and SEC 1."""

_HEAD_BYTES: Final = 64


def other_form(path: str, *, holds_key: bool) -> str:
    """What a file is in place of PEM, and the command that makes PEM of it; empty if it is none.

    Args:
        path: of the file.
        holds_key: a private key is wanted of it, perhaps with certificates; else authorities.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    given, made = shlex.quote(path), shlex.quote(f"{path}.pem")
    if head.startswith(_JAVA_STORES):
        if not holds_key:
            return _advised("a keystore of Java", f"keytool -list -rfc -keystore {given} > {made}")
        between = shlex.quote(f"{path}.p12")
        first = (
            f"keytool -importkeystore -srckeystore {given} -destkeystore {between} "
            "-deststoretype PKCS12"
        )
        return _advised("a keystore of Java", f"{first} && {_of_pkcs12(between, made, '-nodes')}")
    content = _content(head)
    if content is None:
        return ""
    if content.startswith(_PKCS12_VERSION):
        which = "-nodes" if holds_key else "-nokeys"
        return _advised("a PKCS#12 store", _of_pkcs12(given, made, which))
    kind = "pkey" if content.startswith(_INTEGER) else "x509"
    return _advised("in DER", f"openssl {kind} -inform DER -in {given} -out {made}")


def stamp(path: str | os.PathLike[str]) -> Stamp | None:
    """Inode, time of the last change in nanoseconds and size in bytes; None without access.

    Symbolic links are followed: Kubernetes replaces the files of a Secret by changing a link.
    """
    try:
        of = os.stat(path)
    except OSError:
        return None
    return of.st_ino, of.st_mtime_ns, of.st_size


def _advised(form: str, command: str) -> str:
    return f"is {form}, and PEM is needed, which this makes: {command}"


def _of_pkcs12(given: str, made: str, which: str) -> str:
    return f"openssl pkcs12 -in {given} {which} -out {made}"


def _content(head: bytes) -> bytes | None:
    """What a SEQUENCE of ASN.1 begins with; None if the bytes begin none (X.690, 8.1)."""
    if len(head) < 2 or head[0] != _SEQUENCE:
        return None
    length = head[1]
    if length < 0x80:
        return head[2:]
    return head[2 + (length & 0x7F) :] if length <= 0x84 else None
