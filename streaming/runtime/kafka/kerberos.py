"""Kerberos in a ``client`` section: the keytab and the names of a login, for both Kafka clients."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from streaming.runtime.errors import UserError

MECHANISM: Final = "GSSAPI"
PREFIX: Final = "sasl_kerberos_"

_PRINCIPAL: Final = re.compile(r"[^\s@]+(@[^\s@]+)?")
_ELSEWHERE: Final = {
    "domain_name": "the Java client of the query has no such setting: it asks for the service at "
    "the host of each address, so let bootstrap and advertised.listeners name hosts of the KDC",
    "name": "is a Python object; use sasl_kerberos_service_name",
}
"""Settings of kafka-python alone."""


class KerberosError(UserError, ValueError):
    """A setting, a keytab or a ticket cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True)
class Kerberos:
    """A login; the names of the settings follow ``sasl_kerberos_``.

    Attributes:
        keytab: the file with the principal's key.
        principal: who logs in, ``name`` or ``name@REALM``.
        service_name: of the brokers, the first part of their principals.
    """

    keytab: str = ""
    principal: str = ""
    service_name: str = "kafka"


def kerberos_of(client: Mapping[str, Any]) -> Kerberos | None:
    """Read the settings of Kerberos in the section; None if it has another mechanism.

    Raises:
        KerberosError: a setting is missing, makes no sense, or belongs to another mechanism:
            ``KEY: reason``.
    """
    given = {name: str(value) for name, value in client.items() if name.startswith(PREFIX)}
    if client.get("sasl_mechanism") != MECHANISM:
        for name in given:
            raise KerberosError(f"{name}: needs sasl_mechanism = {MECHANISM!r}")
        return None
    known = [field.name for field in fields(Kerberos)]
    for name in given:
        short = name.removeprefix(PREFIX)
        if short not in known:
            are = ", ".join(PREFIX + each for each in known)
            raise KerberosError(f"{name}: {_ELSEWHERE.get(short, f'is none of {are}')}")
    kerberos = Kerberos(**{name.removeprefix(PREFIX): value for name, value in given.items()})
    if not kerberos.keytab:
        raise KerberosError(f"{PREFIX}keytab: is missing: both Kafka clients log in with a keytab")
    if not _PRINCIPAL.fullmatch(kerberos.principal):
        raise KerberosError(f"{PREFIX}principal: must be like kafka-twin@EXAMPLE.ORG")
    if not kerberos.service_name:
        raise KerberosError(f"{PREFIX}service_name: must not be empty")
    return kerberos


def require_keytab(kerberos: Kerberos) -> None:
    """Raise unless the keytab can be read: both clients word that badly.

    Raises:
        KerberosError: it cannot.
    """
    path = kerberos.keytab
    try:
        with open(path, "rb") as file:
            is_keytab = file.read(1) == b"\x05"  # the format's version, 5.1 or 5.2
    except OSError as error:
        reason = str(error.strerror).lower()
        raise KerberosError(f"{PREFIX}keytab: {path} cannot be read: {reason}") from None
    if not is_keytab:
        raise KerberosError(f"{PREFIX}keytab: {path} is no keytab")


def java_option(environment: Mapping[str, str], *clients: Mapping[str, Any]) -> str:
    """The option by which Java finds the file that ``KRB5_CONFIG`` names, which it does not read.

    Args:
        environment: of this process.
        clients: the sections whose logins Java uses.

    Returns:
        An option for a command line, empty where the file is where Java looks for it.

    Raises:
        KerberosError: there are several files, of which Java reads one.
    """
    path = environment.get("KRB5_CONFIG", "")
    if not path or not any(map(kerberos_of, clients)):
        return ""
    if os.pathsep in path:
        raise KerberosError(
            f"KRB5_CONFIG: {path!r} names several files, of which Java reads one: name one, and "
            "include the others in it"
        )
    return f'"-Djava.security.krb5.conf={path}"'
