"""Kerberos tickets for kafka-python, which by itself knows no keytab and no end of a ticket.

Each login, also one again on an open connection (KIP-368), asks MIT's library for the tickets in a
cache in memory. The library fills the cache from the keytab, and again once half of the ticket's
life is over, so a client outlives its ticket. Two sections may have two keytabs.

Overrides the constructor of kafka-python's mechanism, hence the pin ``<3.1``.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from streaming.runtime.kafka.kerberos import (
    MECHANISM,
    PREFIX,
    Kerberos,
    KerberosError,
    require_keytab,
)

_NO_PACKAGE: Final = (
    f"sasl_mechanism: {MECHANISM} needs the Python package gssapi: install kafka-twin[kerberos]; "
    "pip builds it with gcc and MIT's headers (libkrb5-dev, krb5-devel)"
)

_OLD_KEY: Final = "sasl_kerberos_keytab has another key than the KDC: it was changed"
_MEANS: Final = {
    "nonexistent or empty": "sasl_kerberos_keytab has no key that can be read",
    "No credentials cache found": "sasl_kerberos_keytab has no key of sasl_kerberos_principal",
    "Client ": "sasl_kerberos_principal is not one of that realm",
    "Preauthentication failed": _OLD_KEY,
    "Decrypt integrity check failed": _OLD_KEY,
    "Password incorrect": _OLD_KEY,
    "Server krbtgt/": "sasl_kerberos_principal is of a realm that this KDC does not know",
    "Server ": "sasl_kerberos_service_name is wrong, or the host of this address is no name "
    "in the KDC",
    "Cannot find KDC": "krb5.conf (KRB5_CONFIG) names none",
    "Cannot contact any KDC": "those that krb5.conf (KRB5_CONFIG) names do not answer",
}
"""What a message of MIT's library means, by a part of it; the first counts."""


def login_of(kerberos: Kerberos) -> Kerberos:
    """What kafka-python is given as ``sasl_kerberos_name`` to log in with this keytab.

    Raises:
        KerberosError: the package gssapi or MIT's library is missing, or the keytab cannot be read.
    """
    try:
        import gssapi  # noqa: F401 - an extra
    except (ImportError, OSError):
        raise KerberosError(_NO_PACKAGE) from None
    require_keytab(kerberos)
    register_sasl_mechanism(MECHANISM, KeytabMechanism, overwrite=True)
    return kerberos


class KeytabMechanism(SaslMechanismGSSAPI):  # type: ignore[misc]
    """One login with the key in a keytab."""

    def __init__(self, **config: Any) -> None:
        """Get a ticket for the broker.

        Args:
            config: kafka-python's, with a ``Kerberos`` as ``sasl_kerberos_name``, and the ``host``
                of the address that is connected to.

        Raises:
            KerberosError: the keytab, the principal or the broker's principal is not what the KDC
                has, or no KDC answers.
        """
        import gssapi

        login: Kerberos = config["sasl_kerberos_name"]
        self._is_done = self._is_authenticated = False
        self.auth_id = f"{login.service_name}@{config['host']}"
        try:
            self.gssapi_name = gssapi.Name(
                self.auth_id, name_type=gssapi.NameType.hostbased_service
            ).canonicalize(gssapi.MechType.kerberos)
            self._client_ctx = gssapi.SecurityContext(
                name=self.gssapi_name, usage="initiate", creds=_credentials(login)
            )
            self._next_token = self._client_ctx.step(None)
        except gssapi.exceptions.GSSError as error:
            raise _explained(error) from None

    def receive(self, auth_bytes: bytes) -> None:
        """Take the broker's answer.

        Raises:
            KerberosError: it does not have the key of its principal.
        """
        import gssapi

        try:
            super().receive(auth_bytes)
        except gssapi.exceptions.GSSError as error:
            raise _explained(error) from None


def _credentials(login: Kerberos) -> Any:
    """Credentials with a ticket that is good for half of its life or more, if a KDC answers."""
    import gssapi

    cache = hashlib.sha256(repr(login).encode()).hexdigest()[:16]
    return gssapi.Credentials(
        usage="initiate",
        name=gssapi.Name(login.principal, name_type=gssapi.NameType.kerberos_principal),
        mechs=[gssapi.MechType.kerberos],
        store={
            b"client_keytab": f"FILE:{login.keytab}".encode(),
            b"ccache": f"MEMORY:kafka-twin-{cache}".encode(),
        },
    )


def _explained(error: Any) -> KerberosError:
    """The library's own sentence and what it means here."""
    said = error.get_all_statuses(error.min_code, False) if error.min_code else ()
    text = "; ".join(said) or " ".join(str(error).split())
    means = next((f": {why}" for part, why in _MEANS.items() if part in text), "")
    return KerberosError(f"Kerberos: {text}{means} ({PREFIX}*, docs/security.md)"[:400])
